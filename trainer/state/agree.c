/*
 * Small collectives by which ranks end a call alike.
 */
#include "state/agree.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The failure of the first rank that failed, for all; else whether all have the same digest. */
static tutti_status meet(const struct state_group *group, tutti_status status,
        uint64_t digest, bool *same)
{
    struct failure failure = { .status = status };
    uint64_t words[3] = { status == TUTTI_OK ? UINT64_MAX : (uint64_t)group->rank,
        digest, ~digest };
    tutti_status agreed;

    (void)snprintf(failure.text, sizeof failure.text, "%s", tutti_last_error());
    agreed = tutti_allreduce(group->t, "tutti.state.meet", words, words, 3,
            TUTTI_UINT64, TUTTI_MIN, &group->options);
    if (agreed != TUTTI_OK || words[0] == UINT64_MAX) {
        *same = words[1] == ~words[2];
        return group_heard(group->t, agreed);
    }
    agreed = tutti_broadcast(group->t, "tutti.state.failure", &failure,
            (int64_t)sizeof failure, TUTTI_UINT8, (int)words[0], &group->options);
    if (agreed != TUTTI_OK) {
        return group_heard(group->t, agreed);
    }
    return error_set(
            (tutti_status)failure.status, "rank %d: %s", (int)words[0], failure.text);
}

tutti_status group_agree(const struct state_group *group, tutti_status status)
{
    bool same;

    return meet(group, status, 0, &same);
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

/* Settings, then the length of a list, then its items; the caller's. */
struct facts {
    const struct setting *settings;
    size_t n; /* settings */
    const struct setting_list *list;
};

/* Both texts have SETTING_TEXT_BYTES. */
static void describe(const struct facts *facts, size_t i, char *name, char *text)
{
    const struct setting_list *list = facts->list;
    const struct setting *setting;

    if (i > facts->n && list->describe != NULL) {
        (void)snprintf(
                name, SETTING_TEXT_BYTES, "%s %zu", list->name, i - facts->n - 1);
        list->describe(list->items, i - facts->n - 1, text);
        return;
    }
    if (i == facts->n) {
        (void)snprintf(name, SETTING_TEXT_BYTES, "the number of %ss", list->name);
        (void)snprintf(text, SETTING_TEXT_BYTES, "%zu", list->n);
        return;
    }
    setting = &facts->settings[i];
    (void)snprintf(name, SETTING_TEXT_BYTES, "%s", setting->name);
    (void)snprintf(text, SETTING_TEXT_BYTES, "%.15g", setting->value);
    if (setting->text != NULL) {
        (void)snprintf(text, SETTING_TEXT_BYTES, "\"%s\"", setting->text);
    }
}

/** Says which ranks have different values of a fact: rank 0 and the first that differs. */
static tutti_status differ(
        const struct state_group *group, const struct facts *facts, size_t i)
{
    char texts[2][SETTING_TEXT_BYTES] = { "" };
    char name[SETTING_TEXT_BYTES];
    int32_t other;
    tutti_status status;

    describe(facts, i, name, texts[0]);
    memcpy(texts[1], texts[0], sizeof texts[1]);
    status = tutti_broadcast(group->t, "tutti.state.setting", texts[0],
            SETTING_TEXT_BYTES, TUTTI_UINT8, 0, &group->options);
    other = strcmp(texts[0], texts[1]) != 0 ? group->rank : INT32_MAX;
    if (status == TUTTI_OK) {
        status = tutti_allreduce(group->t, "tutti.state.other", &other, &other, 1,
                TUTTI_INT32, TUTTI_MIN, &group->options);
    }
    if (status == TUTTI_OK) {
        status = tutti_broadcast(group->t, "tutti.state.setting", texts[1],
                SETTING_TEXT_BYTES, TUTTI_UINT8, other, &group->options);
    }
    return status != TUTTI_OK ? group_heard(group->t, status)
                              : error_set(TUTTI_ERR_MISMATCH,
                                        "ranks make a call with different values of "
                                        "%s: rank 0 gave %s, rank %d gave %s; give the "
                                        "same on all ranks",
                                        name, texts[0], other, texts[1]);
}

/* Hashes of n + 1 + list->n facts. */
static void hash_facts(const struct facts *facts, uint64_t *hashes)
{
    char text[SETTING_TEXT_BYTES];
    char name[SETTING_TEXT_BYTES];

    for (size_t i = 0; i < facts->n + 1 + facts->list->n; i++) {
        describe(facts, i, name, text);
        hashes[i] = state_hash(i, text, strlen(text));
    }
}

tutti_status group_same(const struct state_group *group, tutti_status status,
        const struct setting *settings, size_t n, const struct setting_list *list)
{
    static const struct setting_list none = { .name = "thing" };
    const struct facts facts = {
        .settings = settings, .n = n, .list = list != NULL ? list : &none
    };
    const size_t all = status == TUTTI_OK ? n + 1 + facts.list->n : 1;
    uint64_t *hashes = calloc(all, sizeof *hashes);
    bool same = true;
    size_t first = 0;

    if (hashes == NULL) {
        status = error_set(
                TUTTI_ERR_NO_MEMORY, "no memory to compare %zu settings", all);
    } else if (status == TUTTI_OK) {
        hash_facts(&facts, hashes);
    }
    status = meet(group, status,
            hashes == NULL ? 0 : state_hash(0, hashes, all * sizeof *hashes), &same);
    if (status == TUTTI_OK && !same && hashes != NULL) {
        status = group_compare(group, hashes, n + 1, &first);
        if (status == TUTTI_OK && first > n) { /* the lists are equally long */
            status = group_compare(group, hashes + n + 1, facts.list->n, &first);
            first += n + 1;
        }
        status = status == TUTTI_OK ? differ(group, &facts, first) : status;
    }
    free(hashes);
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
