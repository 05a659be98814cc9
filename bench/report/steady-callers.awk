# Who makes the system calls that steady-calls.awk counts, tutti or others (MPI):
# awk -f steady-callers.awk FILE, the output of strace -f -k -o FILE. The caller is the first
# frame outside of libc. The numbers tell little: walking the stack at every call takes so
# long that the ranks wait for each other and make more calls.

function count(    who) {
    if (name != "" && caller != "") {
        who = caller ~ /tutti/ ? "tutti" : "others"
        since[who, name]++
    }
    name = ""
    caller = ""
}

function list(who,    key, part, text) {
    for (key in calls) {
        split(key, part, SUBSEP)
        if (part[1] == who) {
            text = text sprintf(" %s %d", part[2], calls[key])
        }
    }
    return text == "" ? " none" : text
}

/^ > / {
    if (caller == "" && $2 !~ /\/(libc|ld-linux)[^\/]*$/) {
        caller = $2
    }
    next
}
{
    count()
}
$2 ~ /^getrusage\(/ {
    segments++
    delete calls
    for (key in since) {
        calls[key] = since[key]
    }
    delete since
    next
}
/<unfinished \.\.\.>$/ {
    next
}
$2 == "<..." && $4 ~ /^resumed/ {
    name = $3
    next
}
$2 ~ /^[a-z_0-9]+\(/ {
    name = $2
    sub(/\(.*/, "", name)
}

END {
    if (segments < 2) {
        print "  no steps found in " FILENAME
        exit 1
    }
    print "  callers when each call is traced with its stack: tutti" list("tutti") \
        "; others (MPI)" list("others")
}
