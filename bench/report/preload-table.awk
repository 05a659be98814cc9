# A table of the rows of bench-mpi-collectives that script/bench preload has collected: medians of
# the rounds, and the ratio of each round.
function field(name,    text) {
    text = $0
    sub(".*\"" name "\":\"?", "", text)
    sub("[\",}].*", "", text)
    return text
}
function sorted(values, count,    i, j, value) {
    for (i = 2; i <= count; i++) {
        value = values[i]
        for (j = i - 1; j > 0 && values[j] > value; j--) values[j + 1] = values[j]
        values[j + 1] = value
    }
}
# The quantile of a size's times, by whom.
function quantile(by, bytes, q,    values, count, round) {
    for (round = 0; round in rounds; round++)
        if ((by, bytes, round) in us) values[++count] = us[by, bytes, round]
    sorted(values, count)
    return values[int((count - 1) * q + 0.5) + 1]
}
{
    operation = field("operation"); ranks = field("ranks"); bytes = field("bytes") + 0
    round = field("round") + 0; by = field("by")
    us[by, bytes, round] = field("us") + 0
    rounds[round]
    if (!(bytes in seen)) { seen[bytes]; sizes[++n] = bytes }
    if (("mpi", bytes, round) in us && ("tutti", bytes, round) in us)
        us["ratio", bytes, round] = us["tutti", bytes, round] / us["mpi", bytes, round]
}
END {
    printf "\n%s, %d ranks\n%10s %12s %12s %8s %8s %8s\n", operation, ranks, "bytes", "MPI us",
        "tutti us", "ratio", "25 %", "75 %"
    for (i = 1; i <= n; i++)
        printf "%10d %12.2f %12.2f %8.2f %8.2f %8.2f\n", sizes[i], quantile("mpi", sizes[i], 0.5),
            quantile("tutti", sizes[i], 0.5), quantile("ratio", sizes[i], 0.5),
            quantile("ratio", sizes[i], 0.25), quantile("ratio", sizes[i], 0.75)
}
