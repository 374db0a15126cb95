# Seconds as people read them: duration 3723 -> 1h02m03s
duration() {
    hours=$(($1 / 3600))
    minutes=$(($1 / 60))
    seconds=$(($1 % 60))
    printf '%dh%02dm%02ds\n' "$hours" "$minutes" "$seconds"
}
