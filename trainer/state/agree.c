/*
 * Small collectives by which ranks end a call alike.
 */
#include "state/agree.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

enum {
    TEXT_BYTES = 1024,
    COMPARED = 256 /* numbers at once */
};

/** What a rank says of its failure. */
struct failure {
    int32_t status;
    char text[TEXT_BYTES];
};

tutti_status group_init(struct state_group *group, tutti *t, tutti_process_set set)
{
    tutti_status status;

    if (t == NULL) {
        return error_set(TUTTI_ERR_INVALID, "the context is NULL");
    }
    *group = (struct state_group){ .t = t };
    tutti_options_default(&group->options);
    group->options.process_set = set;
    status = tutti_process_set_info(t, set, &group->ranks, &group->rank);
    if (status == TUTTI_OK && group->rank < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "rank %d is not in process set %u, whose ranks make this call",
                tutti_rank(t), (unsigned)set);
    }
    return status;
}

tutti_status group_heard(tutti *t, tutti_status status)
{
    if (status == TUTTI_ERR_NO_MEMORY) {
        (void)tutti_abort(t, tutti_last_error());
    }
    return status;
}

bool has_context_failed(tutti *t)
{
    return tutti_group_begin(t) == TUTTI_OK &&
            tutti_group_end(t) == TUTTI_ERR_CONTEXT_FAILED;
}

tutti_status group_agree(const struct state_group *group, tutti_status status)
{
    struct failure failure = { .status = status };
    int32_t first = status == TUTTI_OK ? INT32_MAX : group->rank;
    tutti_status agreed;

    (void)snprintf(failure.text, sizeof failure.text, "%s", tutti_last_error());
    agreed = tutti_allreduce(group->t, "tutti.state.failed", &first, &first, 1,
            TUTTI_INT32, TUTTI_MIN, &group->options);
    if (agreed != TUTTI_OK || first == INT32_MAX) {
        return group_heard(group->t, agreed);
    }
    agreed = tutti_broadcast(group->t, "tutti.state.failure", &failure,
            (int64_t)sizeof failure, TUTTI_UINT8, first, &group->options);
    if (agreed != TUTTI_OK) {
        return group_heard(group->t, agreed);
    }
    return error_set((tutti_status)failure.status, "rank %d: %s", first, failure.text);
}

tutti_status group_compare(const struct state_group *group, const uint64_t *numbers,
        size_t n, size_t *first)
{
    uint64_t ends[2 * COMPARED];
    tutti_status status = TUTTI_OK;
    bool equal = true;

    for (*first = 0; status == TUTTI_OK && equal && *first < n;) {
        size_t count = n - *first < COMPARED ? n - *first : COMPARED;

        for (size_t i = 0; i < count; i++) {
            ends[2 * i] = numbers[*first + i];
            ends[2 * i + 1] =
                    ~ends[2 * i]; /* its least is the complement of the greatest */
        }
        status = tutti_allreduce(group->t, "tutti.state.compare", ends, ends,
                (int64_t)(2 * count), TUTTI_UINT64, TUTTI_MIN, &group->options);
        for (size_t i = 0; status == TUTTI_OK && equal && i < count; i++) {
            equal = ends[2 * i] == ~ends[2 * i + 1];
            *first += equal;
        }
    }
    return group_heard(group->t, status);
}

/** Says which ranks have different values of a setting: rank 0 and the first that differs. */
static tutti_status differ(
        const struct state_group *group, const struct setting *setting)
{
    double values[2] = { setting->value, setting->value };
    uint64_t bits[2]; /* of them */
    int32_t other;
    tutti_status status = tutti_broadcast(group->t, "tutti.state.setting", values, 1,
            TUTTI_FLOAT64, 0, &group->options);

    memcpy(bits, values, sizeof bits);
    other = bits[0] != bits[1] ? group->rank : INT32_MAX;
    if (status == TUTTI_OK) {
        status = tutti_allreduce(group->t, "tutti.state.other", &other, &other, 1,
                TUTTI_INT32, TUTTI_MIN, &group->options);
    }
    if (status == TUTTI_OK) {
        status = tutti_broadcast(group->t, "tutti.state.setting", &values[1], 1,
                TUTTI_FLOAT64, other, &group->options);
    }
    return status != TUTTI_OK ? group_heard(group->t, status)
                              : error_set(TUTTI_ERR_MISMATCH,
                                        "ranks make a call with different values of "
                                        "%s: rank 0 gave %.17g, rank %d gave %.17g; "
                                        "give the same on all ranks",
                                        setting->name, values[0], other, values[1]);
}

tutti_status group_same(const struct state_group *group, tutti_status status,
        const struct setting *settings, size_t n)
{
    uint64_t numbers[GROUP_SETTINGS_MAX];
    size_t first;

    for (size_t i = 0; i < n; i++) {
        memcpy(&numbers[i], &settings[i].value, sizeof numbers[i]);
    }
    status = group_agree(group, status);
    if (status == TUTTI_OK) {
        status = group_compare(group, numbers, n, &first);
    }
    if (status == TUTTI_OK && first < n) {
        status = differ(group, &settings[first]);
    }
    return status;
}

uint64_t state_hash(uint64_t hash, const void *data, size_t bytes)
{
    const char *at = data;
    uint64_t word = 0;

    /* Each step is a bijection of the hash, and of the word. */
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash ^= word;
        hash = (hash << 27 | hash >> 37) * 0x9e3779b97f4a7c15U;
    }
    word = bytes;
    hash ^= word << 56;
    if (bytes > 0) {
        word = 0;
        memcpy(&word, at, bytes);
        hash ^= word;
    }
    hash = (hash << 27 | hash >> 37) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 29;
}
