# A row of the table of script/bench rows agree: awk -f jsonrow.awk -f tabletext.awk
# -f agree-table.awk -v command=COMMAND -v bars=BARS FILE. With -v head=1 the head of the table.

function put(ranks, memory, what, own, mpi, mpi_ratio, load, verdict) {
    printf "%5s %-8s %-40s %11s %11s %-18s %5s  %s\n", ranks, memory, what, own, mpi, mpi_ratio,
        load, verdict
}

BEGIN {
    if (head) {
        put("ranks", "memory", "what", "tutti", "raw MPI", "tutti / MPI", "load", "bars")
    }
    gsub(/ --compare [^ ]+/, "", command)
}

{ row = $0 }

END {
    if (row == "") {
        exit
    }
    judge_bars(row, bars)
    put(member(row, "ranks"), member(row, "memory"), command,
        time_text(member(row, "tutti_us")), time_text(member(row, "mpi_us")),
        ratio_text(member(row, "ratio"), member(row, "spread")),
        sprintf("%.2f", member(row, "load_average")), verdict)
}
