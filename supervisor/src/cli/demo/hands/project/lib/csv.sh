# One field of a line of CSV, counted from 1; between quotes a comma is text: csv 2 'a,"b,c",d' -> b,c
csv() {
    at=1
    field=
    quoted=no
    rest=$2
    while [ -n "$rest" ]; do
        behind=${rest#?}
        sign=${rest%"$behind"}
        rest=$behind
        case $quoted$sign in
            no\") quoted=yes ;;
            yes\") quoted=no ;;
            *,)
                [ "$at" -eq "$1" ] && break
                at=$((at + 1))
                field=
                ;;
            *) field=$field$sign ;;
        esac
    done
    [ "$at" -eq "$1" ] && printf '%s\n' "$field"
}
