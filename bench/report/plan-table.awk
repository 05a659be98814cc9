# A row of the table of script/bench rows plan: awk -f jsonrow.awk -f tabletext.awk
# -f plan-table.awk -v bars=BARS FILE. With -v head=1 the head of the table.

function put(ranks, memory, what, own, mpi, mpi_ratio, slow, slow_ratio, planned, exits,
        load, verdict) {
    printf "%5s %-8s %-20s %11s %11s %-18s %11s %-18s %7s %7s %5s  %s\n", ranks, memory, what,
        own, mpi, mpi_ratio, slow, slow_ratio, planned, exits, load, verdict
}

# The steps of a trainer, elsewhere the operations.
function planned_text(    share) {
    share = member(row, "training_planned")
    if (share == "") {
        share = member(row, "planned")
    }
    return share == "" ? "-" : sprintf("%.3f", share)
}

BEGIN {
    if (head) {
        put("ranks", "memory", "what", "tutti", "raw MPI", "tutti / MPI", "slow",
            "tutti / slow", "planned", "exits", "load", "bars")
    }
}

{ row = $0 }

END {
    if (row == "") {
        exit
    }
    bench = member(row, "bench")
    what = bench == "workload" ? member(row, "workload") \
        : bench " " (bench == "overlap" ? member(row, "workload") : member(row, "bytes") " B")
    if (member(row, "hold") > 1) {
        what = what " x" member(row, "hold")
    }
    judge_bars(row, bars)
    put(member(row, "ranks"), member(row, "memory"), what,
        time_text(member(row, "tutti_us")), time_text(member(row, "mpi_us")),
        ratio_text(member(row, "ratio"), member(row, "spread")),
        time_text(member(row, "slow_us")),
        ratio_text(member(row, "vs_slow"), member(row, "vs_slow_spread")),
        planned_text(), member(row, "plan_exits"), sprintf("%.2f", member(row, "load_average")),
        verdict)
}
