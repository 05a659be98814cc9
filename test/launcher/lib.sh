# shellcheck shell=bash
# Shared by the cases here, which source it: a folder of their own, how they run commands, wait and fail.
set -euo pipefail

work=$(mktemp -d)
# A process that is just ending may still write there.
remove_work() { until rm -rf "$work"; do sleep 0.1; done; }
trap remove_work EXIT
patience=240 # seconds; ctest's own limit, which comes later, does not say what was waited for

fail() { # with the end of what was written
    local file
    echo "$*"
    for file in "$work"/{errors,events,out}; do
        [[ ! -s $file ]] || tail -n 40 "$file" | sed "s/^/${file##*/}: /"
    done
    exit 1
}

expect() { # expect NAME ACTUAL EXPECTED
    [[ $2 == "$3" ]] || fail "$1: got '$2', expected '$3'"
}

# Runs a command; leaves its exit status, and what it wrote, in these variables.
bounded=(timeout -s KILL "$patience")
status=0 output="" errors=""
run() {
    status=0
    "${bounded[@]}" "$@" >"$work/output" 2>"$work/errors" || status=$?
    output=$(<"$work/output") errors=$(<"$work/errors")
}

# until_true COMMAND...: waits for it.
until_true() {
    local deadline=$((SECONDS + patience))
    until "$@" 2>/dev/null; do
        ((SECONDS < deadline)) || fail "in vain: $*"
        sleep 0.01
    done
}

has_lines() { # has_lines COUNT FILE
    [[ -f $2 ]] && (($(wc -l <"$2") >= $1))
}

# are_gone PID...: a zombie is gone, too: it waits for whoever became its parent.
are_gone() {
    local pid
    for pid in "$@"; do
        [[ $(ps -o stat= -p "$pid") != [!Z]* ]] || return 1
    done
}

# until_awoken COUNT PID...: until each has waited, and gone on, so many times more, or has ended.
until_awoken() {
    local count=$1 pid times
    shift
    for pid in "$@"; do
        times=$(($(times_awoken "$pid") + count))
        until_true eval "! kill -0 $pid || ((\$(times_awoken $pid) >= $times))"
    done
}

times_awoken() {
    awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "/proc/$1/status"
}
