/*
 * Small collectives by which ranks end a call alike.
 */
#ifndef TUTTI_TRAINER_STATE_AGREE_H
#define TUTTI_TRAINER_STATE_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

enum {
    SETTING_TEXT_BYTES = 1024
};

/** The ranks that make a call together; filled by group_init(). */
struct state_group {
    tutti *t;
    tutti_options options; /* of collectives in the set */
    int ranks;
    int rank; /* of this one in the set */
};

/** @return TUTTI_ERR_INVALID if t is NULL or this rank is not in the set */
tutti_status group_init(struct state_group *group, tutti *t, tutti_process_set set);

/**
 * Ends a part of a call: all ranks get the status and the message of the first rank that
 * failed.
 * @param status  of this rank; its message is tutti_last_error()
 */
TUTTI_MUST_USE tutti_status group_agree(
        const struct state_group *group, tutti_status status);

/**
 * The status of a collective, or of what a rank makes of its result: when this rank had no memory
 * for it, the others wait in this collective or in the next, and the job is ended.
 */
TUTTI_MUST_USE tutti_status group_heard(tutti *t, tutti_status status);

/** A failed context refuses also a group of nothing; its message is then the last error. */
bool has_context_failed(tutti *t);

/**
 * Compares n numbers over the ranks.
 * @param[out] first  the first that differs; n if none does; the same on all ranks
 * @return the statuses of tutti_allreduce()
 */
TUTTI_MUST_USE tutti_status group_compare(const struct state_group *group,
        const uint64_t *numbers, size_t n, size_t *first);

/** An option or a fact of a call. */
struct setting {
    const char *name;
    double value;
    const char *text; /* instead of the value, if not NULL */
};

static inline struct setting number_setting(const char *name, double value)
{
    return (struct setting){ .name = name, .value = value };
}

static inline struct setting text_setting(const char *name, const char *text)
{
    return (struct setting){ .name = name, .text = text };
}

/** Things of which a call is given any number, such as parameters. */
struct setting_list {
    const char *name; /* of one */
    size_t n;
    /** Writes what must be the same of item i. */
    void (*describe)(const void *items, size_t i, char text[SETTING_TEXT_BYTES]);
    const void *items;
};

/**
 * Ends a part of a call in which all ranks must have the same n settings, and items of a list unless
 * it is NULL. Costs an allreduce of 24 bytes as long as they do.
 * @param status  as for group_agree(); the items are not looked at unless it is TUTTI_OK
 * @return on all ranks that of the first rank that failed, or TUTTI_ERR_MISMATCH: names the
 *         first setting that differs, two ranks, and their values
 */
TUTTI_MUST_USE tutti_status group_same(const struct state_group *group,
        tutti_status status, const struct setting *settings, size_t n,
        const struct setting_list *list);

/** Continues a hash of 64 bits. Changes of a single 8-byte word always change it. */
uint64_t state_hash(uint64_t hash, const void *data, size_t bytes);

#endif
