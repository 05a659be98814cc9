# Cells of a table and verdicts on bars: included by the programs that make tables, behind
# jsonrow.awk.

function time_text(us) {
    if (us == "") {
        return "-"
    }
    return us + 0 >= 10000 ? sprintf("%.2f ms", us / 1000) : sprintf("%.2f us", us)
}

# "0.35 (0.31..0.40)"
function ratio_text(ratio, spread,    ends) {
    if (ratio == "") {
        return "-"
    }
    split(substr(spread, 2, length(spread) - 2), ends, ",")
    return sprintf("%.2f (%.2f..%.2f)", ratio, ends[1], ends[2])
}

# Compares a figure with its bar; adds a sentence to the verdict.
function judge(name, figure, bar) {
    figure += 0
    verdict = verdict (verdict == "" ? "" : "; ") \
        sprintf("%s %.2f %s %s", name, figure, figure <= bar + 0 ? "<=" : "ABOVE", bar)
}

# What a bar is about: the member of a row, and its name in the verdict when that is another.
BEGIN {
    figures["us"] = "tutti_us"
    figures["mpi"] = "ratio"
    figures["limit"] = "vs_limit"
    figures["exchange"] = "vs_exchange"
    figures["wait"] = "vs_wait"
    figures["p99"] = "vs_wait_p99"
    figures["exposed"] = "exposed_ratio"
    names["mpi"] = "MPI"
}

# Judges a row by its bars, "mpi=0.5 us=300", in their order.
function judge_bars(row, bars,    count, list, bar, name, figure, i) {
    count = split(bars, list, " ")
    for (i = 1; i <= count; i++) {
        split(list[i], bar, "=")
        if (!(bar[1] in figures)) {
            continue
        }
        name = bar[1] in names ? names[bar[1]] : bar[1]
        figure = member(row, figures[bar[1]])
        judge(name, figure, bar[2])
    }
}
