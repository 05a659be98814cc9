/*
 * Lower bounds of operations, from what the machine does.
 */
#include "tools/info/limits.h"

/* Ranks times their bytes that are read and written on a node. */
static double memory_bytes(tutti_collective collective, double p, double bytes)
{
    switch (collective) {
    case TUTTI_BROADCAST:
        return p * bytes;
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
        return (p + 1) * bytes;
    case TUTTI_ALLREDUCE:
    case TUTTI_ALLTOALL:
    case TUTTI_REDUCE:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
    case TUTTI_BARRIER:
    case TUTTI_MESSAGE:
        break;
    }
    return 2 * p * bytes;
}

/* Bytes that a node must send or receive, whichever is more. */
static double link_bytes(
        tutti_collective collective, double p, double nodes, double bytes)
{
    const double others = (nodes - 1) / nodes;

    switch (collective) {
    case TUTTI_ALLREDUCE:
        return 2 * others * bytes;
    case TUTTI_ALLTOALL:
        return others * p * bytes;
    case TUTTI_BROADCAST:
        return nodes > 1 ? bytes : 0;
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
    case TUTTI_REDUCE:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
    case TUTTI_BARRIER:
    case TUTTI_MESSAGE:
        break;
    }
    return others * bytes;
}

/* Of the nearest level that holds what is moved; memory holds all. */
static double bandwidth_of(const struct machine_facts *machine, int ranks, double bytes)
{
    const int caches = ranks < machine->cores ? ranks : machine->cores;
    int level = 0;

    while (level + 1 < machine->level_count &&
            bytes > (double)machine->levels[level].bytes *
                            (level + 2 < machine->level_count ? caches : 1)) {
        level++;
    }
    return machine->levels[level].all;
}

struct limits limits_of(const struct machine_facts *machine,
        tutti_collective collective, int local_ranks, int nodes, uint64_t bytes)
{
    const double moved = memory_bytes(collective, local_ranks, (double)bytes);
    const double sent = link_bytes(collective, local_ranks, nodes, (double)bytes);
    struct limits limits = { .memory_us = moved /
                bandwidth_of(machine, local_ranks, moved) * 1e-3,
        .latency_us = nodes > 1 ? machine->link_us : machine->flag_ns * 1e-3 };

    if (machine->link_mbs > 0) {
        limits.link_us = sent / machine->link_mbs;
    }
    return limits;
}

double limits_us(const struct limits *limits)
{
    double most = limits->memory_us;

    most = limits->link_us > most ? limits->link_us : most;
    return limits->latency_us > most ? limits->latency_us : most;
}

const char *limits_name(const struct limits *limits)
{
    if (limits_us(limits) <= limits->memory_us) {
        return "memory";
    }
    return limits_us(limits) <= limits->link_us ? "link" : "latency";
}
