/*
 * Command lines and environments from literals, which are constant, while those of a
 * process are not.
 */
#ifndef TUTTI_TEST_LAUNCHER_WORDS_H
#define TUTTI_TEST_LAUNCHER_WORDS_H

#include "launcher/arguments.h"

/** Replaces what is in the list; returns its NULL-terminated array, good until then. */
static inline char *const *exit_text_set(
        struct arguments *list, const char *const *literals)
{
    static char *const none[] = { NULL };

    arguments_fini(list);
    for (; *literals != NULL; literals++) {
        arguments_add(list, *literals);
    }
    return list->items == NULL ? none : list->items;
}

#endif
