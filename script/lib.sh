# Shared by the scripts here, which source it: where things are, messages, builds, and test
# runs that are counted.

set -euo pipefail

# The words of a script's head, as far as the first empty or other line; gpu-test has its own.
case ${1:-} in
-h | --help)
    if [[ ${0##*/} != gpu-test ]]; then
        sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
        exit 0
    fi
    ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
passed=0 failed=0 skipped=0
times=''    # of what was timed, a line each
failures='' # what failed, with the last of what it said

say() {
    echo "== $*"
}

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# The version, which the public header says.
version() {
    sed -n 's/^#define TUTTI_VERSION_STRING "\(.*\)"$/\1/p' "$root/include/tutti/tutti.h"
}

# timed NAME COMMAND...: runs a command and notes how long it takes, for finish.
timed() {
    local name=$1 start=$SECONDS status=0
    shift
    "$@" || status=$?
    times+=$(printf '%6d s  %s' $((SECONDS - start)) "$name")$'\n'
    return "$status"
}

# build_preset PRESET [cmake arguments]
build_preset() {
    say "building $1 in $(binary_dir "$1")"
    (cd "$root" && cmake --preset "$@" && cmake --build --preset "$1")
}

# Where a preset of CMakePresets.json builds.
binary_dir() {
    if [[ $1 == release ]]; then
        echo build
    else
        echo "build/$1"
    fi
}

count_lines() {
    grep -cE -- "$1" "$2" || true
}

# failed_tests NAME FILE: those of a JUnit file that failed, each with the last of its output.
failed_tests() {
    awk -v suite="$1" '
        /<testcase / {
            failed = !/status="(run|disabled)"/
            count = 0
            split($0, name, "\"")
        }
        /<skipped message="SKIP_/ { failed = 0 }
        !/<\/?(testcase|properties|property|failure|skipped)/ {
            gsub(/<\/?system-out>/, "")
            if (/[^ \t]/) lines[count++ % 20] = $0
        }
        /<\/testcase>/ && failed {
            print "FAILED: " name[2] " of " suite
            for (i = count > 20 ? count - 20 : 0; i < count; i++) print "    " lines[i % 20]
        }' "$2"
}

# Adds the results of one run of ctest, a JUnit file, to the counts; fails when there are
# none. A test that did not run is skipped when it said so, and failed otherwise.
count_results() {
    local all run skip
    [[ -f $1 ]] || return 1
    all=$(count_lines '<testcase ' "$1")
    run=$(count_lines '<testcase .*status="run"' "$1")
    skip=$(count_lines '<skipped message="SKIP_|<testcase .*status="disabled"' "$1")
    passed=$((passed + run))
    skipped=$((skipped + skip))
    failed=$((failed + all - run - skip))
    ((all > 0))
}

# count_failure NAME [LOG]: of what is not a test of ctest, with the last of what it said.
count_failure() {
    say "FAILED: $1"
    failed=$((failed + 1))
    failures+="FAILED: $1"$'\n'
    [[ -z ${2:-} ]] || failures+=$(tail -n 20 "$2" | sed 's/^/    /')$'\n'
}

# run_tests PRESET DIRECTORY: runs the tests of a preset, built there, but for those whose
# names match left_out, and counts them; when they cannot be run at all, that counts as one
# failure. Tests mostly wait, so twice as many run as there are processors; those of jobs that are
# started, watched and ended do nothing else, and run on their own, many at a time.
left_out=''
run_tests() {
    local results=$root/$2/results.xml waiting=$root/$2/results-waiting.xml
    local names='^(launcher|hosts)\.' status=0
    # An mpirun of Open MPI fails if another one makes their common folder at the same moment, as the
    # last one to end removes it: with this in it, it stays. Another script/test has its own in it.
    local session=${TMPDIR:-/tmp}/ompi.${HOSTNAME%%.*}.$UID
    mkdir -p -m 700 "$session" "$session/tests.$$" || true # the other one may just remove it
    say "testing $1"
    rm -f "$results" "$waiting"
    (cd "$root" && ctest --preset "$1" -j $((2 * $(nproc))) --output-junit "$results" \
        -E "$names${left_out:+|$left_out}") || true
    (cd "$root" && ctest --preset "$1" -j 12 --output-junit "$waiting" --no-tests=ignore \
        -R "$names" ${left_out:+-E "$left_out"}) || status=$?
    if count_results "$results"; then
        failures+=$(failed_tests "$1" "$results")$'\n'
    else
        count_failure "ctest of $1"
    fi
    if count_results "$waiting"; then
        failures+=$(failed_tests "$1" "$waiting")$'\n'
    elif ((status != 0)); then
        count_failure "ctest of $1, launcher and hosts"
    fi
    rmdir "$session/tests.$$" "$session" 2>/dev/null || true
    return 0
}

# test_preset PRESET [cmake arguments]: builds a preset and runs its tests; what cannot be
# built counts as one failure.
test_preset() {
    if ! timed "building $1" build_preset "$@"; then
        count_failure "build of $1"
        return
    fi
    timed "testing $1" run_tests "$1" "$(binary_dir "$1")"
}

# test_long PRESET: the longest tests of a preset that is built.
test_long() {
    timed "testing $1-long" run_tests "$1-long" "$(binary_dir "$1")"
}

# check NAME COMMAND...: runs a command and counts it as a test; exit status 77 stands for
# skipped, and the command says why.
check() {
    local name=$1 status=0 log
    shift
    say "$name"
    log=$(mktemp)
    timed "$name" "$@" > >(tee "$log") 2>&1 || status=$?
    wait $!
    case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) count_failure "$name" "$log" ;;
    esac
    rm -f "$log"
}

# compare_with_landed: sets changes to the files that differ from the commit named in .ci/landed,
# which CI has passed, and full to why everything is to be tested, if it is.
compare_with_landed() {
    local base
    changes='' full=''
    base=$(<"$root/.ci/landed")
    if [[ ${CI_FULL:-0} == 1 ]]; then
        full='CI_FULL=1'
    elif ! git -C "$root" rev-parse -q --verify "$base^{commit}" >/dev/null 2>&1; then
        full="$base, which .ci/landed names, is not here"
    else
        changes=$(git -C "$root" diff --name-only "$base" &&
            git -C "$root" ls-files --others --exclude-standard) || full='git diff failed'
    fi
}

# changed NAME PATTERN: whether files whose names match changed since that commit. What is about
# them alone is left out otherwise, and it says so.
changed() {
    if [[ -n $full ]] || grep -qE -- "$2" <<<"$changes"; then
        return 0
    fi
    say "left out: $1; nothing it reads has changed since it passed (CI_FULL=1 runs it)"
    return 1
}

# The closing lines of a test run, times, failures and the result, and its exit status.
finish() {
    echo
    echo "$times"
    sed '/^$/d' <<<"$failures"
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0 && passed > 0))
}
