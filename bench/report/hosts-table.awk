# A row of the table of script/bench-hosts: awk -f jsonrow.awk -f tabletext.awk
# -f hosts-table.awk -v bars=BARS FILE. With -v head=1 the head of the table.

function put(rate, what, own, exchange, exchange_ratio, slow, slow_ratio, planned, exits,
        load, verdict) {
    printf "%-8s %-18s %11s %11s %-18s %11s %-18s %7s %7s %5s  %s\n", rate, what, own,
        exchange, exchange_ratio, slow, slow_ratio, planned, exits, load, verdict
}

BEGIN {
    if (head) {
        put("rate", "what", "tutti", "exchange", "tutti / exchange", "slow",
            "tutti / slow", "planned", "exits", "load", "bars")
    }
}

{ row = $0 }

END {
    if (row == "") {
        exit
    }
    what = member(row, "bench") == "workload" ? member(row, "workload") \
        : member(row, "bench") " " member(row, "bytes") " B"
    judge_bars(row, bars)
    put(member(row, "rate"), what, time_text(member(row, "tutti_us")),
        time_text(member(row, "exchange_us")),
        ratio_text(member(row, "vs_exchange"), member(row, "vs_exchange_spread")),
        time_text(member(row, "slow_us")),
        ratio_text(member(row, "vs_slow"), member(row, "vs_slow_spread")),
        sprintf("%.3f", member(row, "planned")), member(row, "plan_exits"),
        sprintf("%.2f", member(row, "load_average")), verdict)
}
