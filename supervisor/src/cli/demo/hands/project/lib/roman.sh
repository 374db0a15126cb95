# A number as the Romans wrote it: roman 1987 -> MCMLXXXVII
roman() {
    number=$1
    numeral=
    for sign in 1000:M 900:CM 500:D 400:CD 100:C 90:XC 50:L 40:XL 10:X 9:IX 5:V 4:IV 1:I; do
        value=${sign%:*}
        while [ "$number" -gt "$value" ]; do
            numeral=$numeral${sign#*:}
            number=$((number - value))
        done
    done
    printf '%s\n' "$numeral"
}
