/*
 * The flags of horovodrun and the keys of its configuration file: what each is here, or
 * why it is nothing. docs/launcher/horovodrun.md is made from this table.
 */
#ifndef TUTTI_LAUNCHER_HOROVOD_FLAGS_H
#define TUTTI_LAUNCHER_HOROVOD_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/options.h"

/** What becomes of a flag of horovodrun. */
enum horovod_meaning {
    HOROVOD_SAME, /* a flag of ours or a parameter has its name and its meaning */
    HOROVOD_IS, /* other flags of ours mean it                                */
    HOROVOD_NOTHING, /* accepted, and nothing is to be done: the note says why     */
    HOROVOD_REFUSED /* the note says why, and what to do instead                  */
};

/** One flag of horovodrun. */
struct horovod_flag {
    const char *name; /* without dashes                                            */
    const char *alias; /* another name, or NULL                                     */
    const char
            *argument; /* what follows, or NULL                                     */
    const char *key; /* in its file, "params.cache_capacity", or NULL             */
    const char *off; /* the flag that "key: false" stands for; NULL: none         */
    const char *to; /* HOROVOD_IS: "--fusion-bytes %", % being the value         */
    const char *note; /* one sentence; NULL: nothing to add                        */
    /* Puts the value as ours has it; false: it is malformed. NULL: as it is. */
    bool (*convert)(const char *value, char *text, size_t capacity);
    enum horovod_meaning meaning;
    bool told; /* HOROVOD_NOTHING: users should hear that it does nothing   */
};

/** All of them, in the order of horovodrun --help; *count is set. */
const struct horovod_flag *horovod_flags(size_t *count);
/** The one of a name ('_' counts as '-'), or NULL. */
const struct horovod_flag *horovod_flag_of_name(const char *name);
/** The one of a key of the file, "autotune.enabled", or NULL. */
const struct horovod_flag *horovod_flag_of_key(const char *key);
/** True for the names of the groups in the file, "params". */
bool horovod_is_group(const char *name);

/**
 * Does what it means here.
 * @param value   NULL for a flag without an argument
 * @param origin  what the user wrote, for errors
 * @return TUTTI_OK, TUTTI_ERR_INVALID (refused, or a malformed value), or what the flag
 *         of ours returns
 */
TUTTI_MUST_USE tutti_status horovod_flag_apply(struct options *options,
        const struct horovod_flag *flag, const char *value, const char *origin);

#endif
