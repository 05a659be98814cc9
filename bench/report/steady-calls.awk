# System calls between the last two calls of getrusage(), which tutti-bench steady makes
# around its steps: awk -f steady-calls.awk FILE, the output of strace -f -o FILE. A call
# that another one interrupts in the output is counted where it begins.

$2 ~ /^getrusage\(/ {
    segments++
    delete calls
    for (name in since) {
        calls[name] = since[name]
    }
    delete since
    next
}
$2 ~ /^[a-z_0-9]+\(/ {
    name = $2
    sub(/\(.*/, "", name)
    since[name]++
}

END {
    if (segments < 2) {
        print "  no steps found in " FILENAME
        exit 1
    }
    for (name in calls) {
        total += calls[name]
        text = text sprintf(" %s %d", name, calls[name])
    }
    printf "  system calls of a rank in all steps: %d%s\n", total, text == "" ? "" : ":" text
}
