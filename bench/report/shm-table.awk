# A row of the table of script/bench shm: awk -f jsonrow.awk -f tabletext.awk
# -f shm-table.awk -v bars=BARS FILE TUNED, of a job beside MPI and the limit and of one
# beside tuned MPI. With -v head=1 the head of the table.

function put(ranks, memory, what, own, mpi, mpi_ratio, limit, limit_ratio, tuned,
        tuned_ratio, load, verdict) {
    printf "%5s %-8s %-20s %11s %11s %-20s %11s %-22s %11s %-20s %5s  %s\n", ranks, memory,
        what, own, mpi, mpi_ratio, limit, limit_ratio, tuned, tuned_ratio, load, verdict
}

BEGIN {
    if (head) {
        put("ranks", "memory", "what", "tutti", "raw MPI", "tutti / MPI", "limit",
            "tutti / limit", "tuned MPI", "tutti / tuned", "load", "bars")
    }
}

FILENAME != last { files++; last = FILENAME }
files == 1 { row = $0 }
files == 2 { tuned = $0 }

END {
    if (row == "") {
        exit
    }
    what = member(row, "workload")
    if (what == "") {
        what = member(row, "bench") " " member(row, "bytes") " B"
    }
    judge_bars(row, bars)
    # no row may be slower than tuned MPI, but for latencies, whose bars say by how much
    if (member(row, "bench") != "latency") {
        judge("tuned", member(tuned, "ratio"), 1)
    }
    put(member(row, "ranks"), member(row, "memory"), what,
        time_text(member(row, "tutti_us")),
        time_text(member(row, "mpi_us")),
        ratio_text(member(row, "ratio"), member(row, "spread")),
        time_text(member(row, "limit_us")),
        ratio_text(member(row, "vs_limit"), member(row, "vs_limit_spread")),
        time_text(member(tuned, "mpi_us")),
        ratio_text(member(tuned, "ratio"), member(tuned, "spread")),
        sprintf("%.2f", member(row, "load_average")), verdict)
}
