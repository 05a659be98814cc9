/*
 * One row per collective.
 */
#include "bench/core/collective.h"

static const struct traits {
    bool reduces;
    bool has_root;
    bool has_parts;
    bool input_is_part;
    bool output_is_part;
} traits[] = {
    [TUTTI_ALLREDUCE] = { .reduces = true },
    [TUTTI_BROADCAST] = { .has_root = true },
    [TUTTI_ALLGATHER] = { .has_parts = true, .input_is_part = true },
    [TUTTI_REDUCESCATTER] = { .reduces = true,
            .has_parts = true,
            .output_is_part = true },
    [TUTTI_ALLTOALL] = { .has_parts = true },
    [TUTTI_REDUCE] = { .reduces = true, .has_root = true },
    [TUTTI_GATHER] = { .has_root = true, .has_parts = true, .input_is_part = true },
    [TUTTI_SCATTER] = { .has_root = true, .has_parts = true, .output_is_part = true },
};

bool bench_reduces(tutti_collective collective)
{
    return traits[collective].reduces;
}

bool bench_has_root(tutti_collective collective)
{
    return traits[collective].has_root;
}

bool bench_has_parts(tutti_collective collective)
{
    return traits[collective].has_parts;
}

bool bench_input_is_part(tutti_collective collective)
{
    return traits[collective].input_is_part;
}

bool bench_output_is_part(tutti_collective collective)
{
    return traits[collective].output_is_part;
}

uint64_t bench_padded_count(tutti_collective collective, uint64_t count, int ranks)
{
    uint64_t parts = bench_has_parts(collective) ? (uint64_t)ranks : 1;

    return (count + parts - 1) / parts * parts;
}
