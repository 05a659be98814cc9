/*
 * Which rank supplies which elements of a state that is divided among the ranks.
 */
#include "state/parts.h"

#include "error.h"

enum {
    SPREAD_BYTES = 1 << 20 /* a smaller tensor that all ranks have stays in one part */
};

/** Tensor i, if all ranks have all of it: takes from each what another one is to supply. */
static void spread_tensor(struct part *of_ranks, const struct state_group *group,
        const tutti_state_tensor *tensor, size_t n, size_t i)
{
    int64_t elements = state_elements(tensor);
    bool small = state_bytes(tensor) < SPREAD_BYTES;

    for (int r = 0; r < group->ranks; r++) {
        if (of_ranks[(size_t)r * n].count != elements) {
            return;
        }
    }
    for (int r = 0; r < group->ranks; r++) {
        struct part *part = &of_ranks[(size_t)r * n];

        if (!small) {
            part->count = tutti_part(elements, group->ranks, r, &part->first);
        } else if ((size_t)r != i % (size_t)group->ranks) {
            part->count = 0;
        }
    }
}

/** The part that begins at `at` and has the most elements; its count is 0 if there is none. */
static struct part longest(const struct part *of_ranks, int ranks, size_t n, int64_t at)
{
    struct part best = { .first = at };

    for (int r = 0; r < ranks; r++) {
        struct part part = of_ranks[(size_t)r * n];

        if (part.first <= at && part.first + part.count > at + best.count) {
            best.count = part.first + part.count - at;
            best.rank = part.rank;
        }
    }
    return best;
}

/** Finds the parts of one tensor. */
static tutti_status divide_tensor(struct part *part, const struct part *of_ranks,
        const struct state_group *group, const tutti_state_tensor *tensor, size_t n)
{
    int64_t elements = state_elements(tensor);

    for (int64_t at = 0; at < elements; at += part++->count) {
        *part = longest(of_ranks, group->ranks, n, at);
        if (part->count == 0) {
            return error_set(TUTTI_ERR_INVALID,
                    "tensor \"%s\": no rank has element %lld of %lld; the parts of "
                    "all ranks together must be the whole tensor",
                    tensor->name, (long long)at, (long long)elements);
        }
    }
    return TUTTI_OK;
}

tutti_status parts_divide(struct part *parts, struct part *room,
        const struct state_group *group, const tutti_state_tensor *tensors, size_t n,
        bool spread)
{
    struct part *own = &room[(size_t)group->rank * n];
    tutti_status status;

    for (size_t i = 0; i < n; i++) {
        own[i] = (struct part){ tensors[i].first, tensors[i].count, group->rank };
    }
    status = group_heard(group->t,
            tutti_allgather(group->t, "tutti.state.parts", own, room, (int64_t)n, 3,
                    NULL, TUTTI_INT64, &group->options));
    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        if (spread) {
            spread_tensor(&room[i], group, &tensors[i], n, i);
        }
        status = divide_tensor(
                &parts[i * parts_stride(group)], &room[i], group, &tensors[i], n);
    }
    return status;
}
