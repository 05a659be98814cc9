# A row of the table of script/bench rows complete: awk -f jsonrow.awk -f tabletext.awk
# -f complete-table.awk -v bars=BARS FILE. With -v head=1 the head of the table.

function put(ranks, what, complete, own, own_p99, waited, waited_p99, ratio, load, verdict) {
    printf "%5s %-16s %-8s %11s %11s %11s %11s %-18s %5s  %s\n", ranks, what, complete, own,
        own_p99, waited, waited_p99, ratio, load, verdict
}

BEGIN {
    if (head) {
        put("ranks", "what", "complete", "tutti", "p99", "wait", "p99", "tutti / wait", "load",
            "bars")
    }
}

{ row = $0 }

END {
    if (row == "") {
        exit
    }
    what = member(row, "bench") == "workload" ? member(row, "workload") \
        : member(row, "bytes") " B"
    judge_bars(row, bars)
    put(member(row, "ranks"), what, member(row, "complete"), time_text(member(row, "tutti_us")),
        time_text(member(row, "tutti_p99_us")), time_text(member(row, "wait_us")),
        time_text(member(row, "wait_p99_us")),
        ratio_text(member(row, "vs_wait"), member(row, "vs_wait_spread")),
        sprintf("%.2f", member(row, "load_average")), verdict)
}
