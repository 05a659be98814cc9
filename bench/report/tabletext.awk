# Cells of a table and verdicts on bars: included by the programs that make tables.

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

# The same for a figure that must not be less.
function judge_least(name, figure, bar) {
    figure += 0
    verdict = verdict (verdict == "" ? "" : "; ") \
        sprintf("%s %.2f %s %s", name, figure, figure >= bar + 0 ? ">=" : "BELOW", bar)
}
