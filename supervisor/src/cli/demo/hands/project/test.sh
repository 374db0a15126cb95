# The tests of one module: sh test.sh MODULE
cd "$(dirname "$0")" || exit 2
module=$1
. "./lib/$module.sh" || exit 2
count=0
failed=0

is() {
    count=$((count + 1))
    expected=$1
    shift
    got=$("$@")
    if [ "$got" != "$expected" ]; then
        failed=$((failed + 1))
        printf 'wrong: %s\n  expected %s\n  got      %s\n' "$*" "$expected" "$got"
    fi
}

case $module in
    roman)
        is I roman 1
        is IV roman 4
        is XIX roman 19
        is MM roman 2000
        is MCMLXXXVII roman 1987
        ;;
    slug)
        is hello slug 'Hello'
        is hello-world slug 'Hello, World!'
        is a-b slug 'a - b'
        is 2-birds-1-line slug '(2) birds, 1 line'
        ;;
    duration)
        is 0h00m00s duration 0
        is 0h01m01s duration 61
        is 1h02m03s duration 3723
        is 27h46m40s duration 100000
        ;;
    csv)
        is a csv 1 'a,b'
        is b csv 2 'a,b'
        is b,c csv 2 'a,"b,c",d'
        is d csv 3 'a,"b,c",d'
        ;;
    *)
        printf 'there are no tests of %s\n' "$module"
        exit 2
        ;;
esac
if [ "$failed" -gt 0 ]; then
    printf 'red: %s, %d of %d\n' "$module" "$((count - failed))" "$count"
    exit 1
fi
printf 'green: %s, %d of %d\n' "$module" "$count" "$count"
