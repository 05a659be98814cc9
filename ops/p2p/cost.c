#include "ops/p2p/cost.h"

#include "base/mem.h"

static int ceil_log2(int n)
{
    int bits = 0;

    while (1 << bits < n) {
        bits++;
    }
    return bits;
}

/* What a message of the whole batch takes: L + S/B, or 3L + 2S/B when it is announced first. */
static double message_us(const struct op_link *link, size_t bytes, int peers)
{
    const double us = peers * (double)bytes / link->bytes_per_us;

    return bytes <= link->message_bytes ? link->latency_us + us
                                        : 3 * link->latency_us + 2 * us;
}

double p2p_cost_us(
        const struct op_link *link, enum p2p_reduction which, int n, size_t bytes)
{
    const double overhead = link->overhead_us;
    const double peers = n - 1;
    const size_t chunks = bytes / (size_t)n / size_max(link->message_bytes, 1) + 1;
    int hops = ceil_log2(n);

    switch (which) {
    case P2P_GATHER:
        return message_us(link, bytes, n - 1) + 2 * (peers - 1) * overhead;
    case P2P_DOUBLING:
        hops *= (n & (n - 1)) == 0 ? 1 : 2;
        return hops * message_us(link, bytes, 1);
    case P2P_DIRECT:
    case P2P_REDUCTION_COUNT:
        break;
    }
    return 2 * link->latency_us + 4 * peers * (double)chunks * overhead +
            2 * peers / n * (double)bytes / link->bytes_per_us;
}
