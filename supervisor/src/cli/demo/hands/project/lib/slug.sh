# A title as it stands in an address: slug 'Hello, World!' -> hello-world
slug() {
    words=$(printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -c 'a-z0-9' '-')
    words=${words#-}
    words=${words%-}
    printf '%s\n' "$words"
}
