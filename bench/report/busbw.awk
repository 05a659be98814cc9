# Bus bandwidths of allreduce over the size, for busbw.gp: awk -f jsonrow.awk -f busbw.awk
# ARENA PRIVATE, two sweeps over the same sizes. Raw MPI's and the limit's are taken from
# the second, whose buffers are what MPI programs have.

# A time's share in the bandwidth that tutti's time gives.
function bandwidth(row, time) {
    return member(row, time) == "" ? "?" : \
        member(row, "busbw") * member(row, "tutti_us") / member(row, time)
}

BEGIN { print "# bytes, then 1e9 bytes per second: arena, private, raw MPI, limit" }
FILENAME != last { files++; last = FILENAME }
files == 1 { arena[member($0, "bytes")] = member($0, "busbw") }
files == 2 {
    bytes = member($0, "bytes")
    print bytes, bytes in arena ? arena[bytes] : "?", member($0, "busbw"),
        bandwidth($0, "mpi_us"), bandwidth($0, "limit_us")
}
