/*
 * The flags of tuttirun itself. Each group lies beside what it controls; flags.c lists the
 * groups. Parameters of the library are flags, too, from base/config.def.
 */
#ifndef TUTTI_LAUNCHER_FLAGS_H
#define TUTTI_LAUNCHER_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

#include "launcher/options.h"

/** One flag, for the parser, --help, the manual and the completion. */
struct flag {
    const char *name; /* "num-proc": --num-proc, and -num-proc as mpirun has it */
    const char *alias; /* another name, or NULL                                  */
    const char *argument; /* what follows, "N"; NULL: nothing                       */
    const char *choices; /* its values, "auto|none|mpi"; NULL: free                */
    const char *help; /* one sentence                                           */
    /* Applies the value (NULL without an argument); origin is the flag as written. */
    tutti_status (*apply)(
            struct options *options, const char *value, const char *origin);
    char letter; /* -n, or 0                                               */
    bool optional; /* the argument may be missing: --name, --name=value, or
                      --name and one of choices                              */
};

/** Flags under one heading of --help. */
struct flag_group {
    const char *heading;
    const struct flag *flags;
    size_t count;
};

extern const struct flag_group hosts_flags; /* hosts/hosts_flags.c   */
extern const struct flag_group engine_flags; /* engine/engine_flags.c */
extern const struct flag_group bind_flags; /* bind/bind_flags.c     */
extern const struct flag_group job_flags; /* job/job_flags.c       */
extern const struct flag_group check_flags; /* check/check_flags.c   */

/** All groups, in the order of --help; *count is set. */
const struct flag_group *const *flag_groups(size_t *count);
/** The n-th flag of all groups in that order; NULL behind the last. */
const struct flag *flag_at(size_t n);
/** The flag of a name, or of a letter; NULL when there is none. */
const struct flag *flag_of_name(const char *name);
const struct flag *flag_of_letter(char letter);

/** True when nothing need be said of its choices: there are none, or its help does. */
bool flag_names_choices(const struct flag *flag);

/**
 * Index of a value among "one|two|three".
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names flag, value and choices)
 */
TUTTI_MUST_USE tutti_status flag_read_choice(
        const char *value, const char *origin, const char *choices, int *index);

#endif
