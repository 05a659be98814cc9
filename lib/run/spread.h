/*
 * How the news that a context has failed spreads in a large job: every rank that hears it
 * tells its neighbours, once.
 *
 * Neighbours of rank r are r + 2^k and r - 2^k, modulo the number of ranks: at most
 * 2 log2(ranks), so nobody sends or receives more messages than that, or has more
 * connections. Any other rank is at most log2(ranks) messages away, and as many ways lead
 * there as a rank has neighbours: those that are lost or asleep cut nobody off unless they
 * are all neighbours of one rank.
 */
#ifndef TUTTI_RUN_SPREAD_H
#define TUTTI_RUN_SPREAD_H

enum {
    SPREAD_DIRECT_MAX =
            64, /* up to so many ranks whoever finds the failure tells all */
    SPREAD_PEERS_MAX = 64
};

/** Writes the neighbours of a rank; returns how many, no rank twice. peers: [SPREAD_PEERS_MAX] */
static inline int spread_peers(int rank, int ranks, int *peers)
{
    int count = 0;

    for (long distance = 1; 2 * distance <= ranks; distance *= 2) {
        peers[count++] = (int)((rank + distance) % ranks);
        if (2 * distance < ranks) {
            peers[count++] = (int)((rank - distance + ranks) % ranks);
        }
    }
    return count;
}

#endif
