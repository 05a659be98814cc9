# A row of the table of script/bench hosts: awk -f jsonrow.awk -f tabletext.awk
# -f hosts-table.awk -v bars=BARS FILE. With -v head=1 the head of the table.

function put(rate, hosts, what, own, wire, mpi, contiguous, load, verdict) {
    printf "%-18s %-6s %-18s %11s %11s %12s %12s %5s  %s\n", rate, hosts, what, own, wire, mpi,
        contiguous, load, verdict
}

# Bytes per us of "800mbit", or of the slowest host in "4gbit 3:100mbit"; 0 for none.
function rate_of(text,    words, count, i, rate, own) {
    count = split(text, words, " ")
    for (i = 1; i <= count; i++) {
        sub(/.*:/, "", words[i])
        own = words[i] / 8 * (words[i] ~ /^[0-9]+gbit$/ ? 1000 : 1)
        if (words[i] ~ /^[0-9]+[mg]bit$/ && (rate == 0 || own < rate)) {
            rate = own
        }
    }
    return rate + 0
}

# us on the way, of "800mbit 20ms"
function delay_of(text) {
    return match(text, /[0-9]+ms/) ? substr(text, RSTART) * 1000 : 0
}

BEGIN {
    figures["late"] = "cpu_percent_late"
    figures["floor"] = "vs_floor"
    figures["contiguous"] = "vs_contiguous"
    if (head) {
        put("rate", "hosts", "what", "tutti", "wire", "MPI", "MPI in one", "load", "bars")
    }
}

{ row = $0 }

END {
    if (row == "") {
        exit
    }
    hosts = member(row, "hosts")
    wire = ""
    if (rate_of(member(row, "rate")) > 0 && member(row, "tensors") > 1) {
        # Operands, and then results.
        wire = member(row, "bytes") * 2 * (hosts - 1) / hosts / rate_of(member(row, "rate")) + \
            2 * delay_of(member(row, "rate"))
        row = sprintf("{\"vs_wire\":%.4f,%s", member(row, "tutti_us") / wire, substr(row, 2))
        figures["wire"] = "vs_wire"
        floor = member(row, "arithmetic_us") + 0
        row = sprintf("{\"vs_floor\":%.4f,%s", member(row, "tutti_us") / (floor > wire ? floor : wire),
            substr(row, 2))
    }
    what = member(row, "bench")
    what = what == "workload" ? member(row, "workload") \
        : what == "idle" || what == "overlap" ? what \
        : what " " member(row, "bytes") " B"
    judge_bars(row, bars)
    put(member(row, "rate"), hosts "x" member(row, "ranks") / hosts, what,
        time_text(member(row, "tutti_us")), time_text(wire), time_text(member(row, "mpi_us")),
        time_text(member(row, "contiguous_us")), sprintf("%.2f", member(row, "load_average")),
        verdict)
}
