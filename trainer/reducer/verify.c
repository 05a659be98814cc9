/*
 * Compares after a step what all ranks must have alike (options.verify_results): the averaged
 * gradients or, with an optimizer, the parameters, which also show what went wrong in the steps
 * before. A small sum takes a digest of each rank to all ranks: it works while ranks have joined,
 * whose place stays zero. Only if digests differ are those of the parameters compared.
 */
#include <stdio.h>
#include <string.h>

#include "params.h"
#include "reducer/gradient.h"

#define FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd: multiplying by it loses nothing */
#define LANES 8

typedef uint64_t lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));

/* Fletcher's two sums over words of 64 bits, in lanes; a change of one word shows in the first. */
static void digest(const void *data, size_t bytes, uint64_t result[2])
{
    const unsigned char *at = data;
    lanes words, sums = { 0 }, sums_of_sums = { 0 };

    for (; bytes >= sizeof words; bytes -= sizeof words, at += sizeof words) {
        memcpy(&words, at, sizeof words);
        sums += words;
        sums_of_sums += sums;
    }
    words = (lanes){ 0 };
    memcpy(&words, at, bytes);
    sums += words;
    sums_of_sums += sums;
    for (int i = 0; i < LANES; i++) {
        result[0] = result[0] * FACTOR + sums[i];
        result[1] = result[1] * FACTOR + sums_of_sums[i];
    }
}

static tutti_status take_digests(tutti_reducer *reducer)
{
    const size_t world = (size_t)tutti_size(reducer->t);
    uint64_t *mine = reducer->digests[tutti_rank(reducer->t)];

    memset(reducer->digests, 0, (world + reducer->count) * sizeof *reducer->digests);
    mine[0] = 1; /* of zeros, too, it is not zero */
    for (size_t i = 0; i < reducer->count; i++) {
        const tutti_param *param = &reducer->gradients[i].param;
        uint64_t *of_param = reducer->digests[world + i];

        digest(reducer->sink.update != NULL ? param->value : param->gradient,
                param_bytes(param), of_param);
        mine[0] = mine[0] * FACTOR + of_param[0];
        mine[1] = mine[1] * FACTOR + of_param[1];
        /* all are the same if the maximum of the complements is that of the maximum */
        of_param[0] = of_param[0] * FACTOR + of_param[1];
        of_param[1] = ~of_param[0];
    }
    return step_reduce(reducer, "digests", reducer->digests, 2 * (int64_t)world,
            TUTTI_UINT64, TUTTI_SUM);
}

/* How many ranks have the digest of this one; 0: it has joined, or is not in the set. */
static int count_like(const tutti_reducer *reducer, int rank)
{
    const uint64_t *digest_of = reducer->digests[rank];
    int count = 0;

    for (int r = 0; digest_of[0] != 0 && r < tutti_size(reducer->t); r++) {
        count += memcmp(reducer->digests[r], digest_of, sizeof *reducer->digests) == 0;
    }
    return count;
}

static int count_all(const tutti_reducer *reducer)
{
    int count = 0;

    for (int r = 0; r < tutti_size(reducer->t); r++) {
        count += reducer->digests[r][0] != 0;
    }
    return count;
}

static tutti_status compare(tutti_reducer *reducer)
{
    if (count_like(reducer, tutti_rank(reducer->t)) == count_all(reducer)) {
        reducer->verify_stage = VERIFY_STAGES;
        return TUTTI_OK;
    }
    return step_reduce(reducer, "digests.parameters",
            reducer->digests[tutti_size(reducer->t)], 2 * (int64_t)reducer->count,
            TUTTI_UINT64, TUTTI_MAX);
}

static tutti_status tell(tutti_reducer *reducer)
{
    const int world = tutti_size(reducer->t);
    uint64_t(*of_param)[2] = reducer->digests + world;
    size_t first = 0, used = 0;
    int most = 0;
    char odd[112] = "", text[sizeof reducer->error_text];

    for (int r = 1; r < world; r++) {
        most = count_like(reducer, r) > count_like(reducer, most) ? r : most;
    }
    for (int r = 0; r < world && used < sizeof odd; r++) {
        if (reducer->digests[r][0] != 0 &&
                memcmp(reducer->digests[r], reducer->digests[most],
                        sizeof *reducer->digests) != 0) {
            used += (size_t)snprintf(odd + used, sizeof odd - used, " %d", r);
        }
    }
    while (first + 1 < reducer->count && of_param[first][0] == ~of_param[first][1]) {
        first++;
    }
    (void)snprintf(text, sizeof text,
            "silent corruption, found after step %lld: %s \"%s\" on rank%s is not what "
            "%d of %d ranks have; suspect processor, memory and network there; to see "
            "it begin, compare every step (verify_results = 1)",
            (long long)reducer->step,
            reducer->sink.update != NULL ? "parameter" : "gradient",
            reducer->gradients[first].name, odd, count_like(reducer, most),
            count_all(reducer));
    step_fail(reducer, TUTTI_ERR_MISMATCH, text);
    return TUTTI_ERR_MISMATCH;
}

tutti_status verify_advance(tutti_reducer *reducer)
{
    static tutti_status (*const stages[VERIFY_STAGES])(
            tutti_reducer *) = { take_digests, compare, tell };
    const int every = reducer->options.verify_results;
    tutti_status status = TUTTI_OK;

    if (every == 0 || reducer->step % every != 0 || reducer->ranks == 1 ||
            reducer->report.overflow || reducer->error != TUTTI_OK) {
        return TUTTI_OK;
    }
    while (status == TUTTI_OK && reducer->verify_stage < VERIFY_STAGES) {
        status = stages[reducer->verify_stage++](reducer);
    }
    return status;
}
