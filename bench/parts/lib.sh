# Shared by the parts, which source it: jobs of tutti-bench, tables of their rows.

source "$(dirname "${BASH_SOURCE[0]}")/../../script/lib.sh"

# job FILE RANKS tutti-bench arguments...: runs it for FILE.json; it prints to FILE.log.
job() {
    local file=$1 ranks=$2
    shift 2
    rm -f "$file.json"
    build/bin/tuttirun -np "$ranks" --prefix off build/bin/tutti-bench "$@" --json "$file.json" \
        >"$file.log" 2>&1 || return 1
}

# The last complaint of the jobs of FILE.
complaint() {
    cat "$1"*.log | grep '^tutti-bench: ' | tail -n 1
}

# report PROGRAM arguments...: one of the awk programs that read rows.
report() {
    local program=$1
    shift
    awk -f bench/report/jsonrow.awk -f bench/report/tabletext.awk \
        -f "bench/report/$program.awk" "$@"
}

# read_rows BARS PATTERN: sets rows to those of a file of bars that grep -E finds.
read_rows() {
    mapfile -t rows < <(grep -vE '^ *(#|$)' "$1" | grep -E -- "$2" || true)
    ((${#rows[@]} > 0)) || die "no row of $1 matches '$2'"
}

# measure_table NAME PATTERN arguments...: sets rows to those of bench/report/NAME-bars that grep -E finds, and
# measures each by measure_row ROW arguments...; begin_table, if there is one, goes before.
measure_table() {
    local name=$1 row
    read_rows "bench/report/$name-bars" "$2"
    shift 2
    say "against bench/report/$name-bars"
    {
        ! declare -F begin_table >/dev/null || begin_table
        report "$name-table" -v head=1 /dev/null
        for row in "${rows[@]}"; do
            measure_row "$row" "$@" </dev/null
        done
    } | tee "build/bench/$name.txt"
}

# keep_rows NAME: the rows as tutti-bench wrote them, one after the other, in docs/results; none is kept when
# one is missing. parse_row ROW sets file to where it is.
keep_rows() {
    local row file files=()
    for row in "${rows[@]}"; do
        parse_row "$row"
        [[ -s $file.json ]] || die "docs/results/$1_rows.json stays as it is: no $file.json"
        files+=("$file.json")
    done
    cat "${files[@]}" >"docs/results/$1_rows.json"
    say "docs/results/$1_rows.json"
}
