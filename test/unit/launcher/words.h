/*
 * Command lines and environments from literals, which are constant, while those of a
 * process are not.
 */
#ifndef TUTTI_TEST_LAUNCHER_WORDS_H
#define TUTTI_TEST_LAUNCHER_WORDS_H

#include "launcher/arguments.h"
#include "launcher/options.h"

enum {
    WORDS_MAX = 16 /* words of a command line with the NULL at their end */
};

/** A list of words, NULL-terminated. */
#define WORDS(...) ((const char *const[WORDS_MAX]){ __VA_ARGS__ })

/** Replaces what is in the list; returns its NULL-terminated array, good until then. */
static inline char *const *words_set(
        struct arguments *list, const char *const *literals)
{
    static char *const none[] = { NULL };

    arguments_fini(list);
    for (; *literals != NULL; literals++) {
        arguments_add(list, *literals);
    }
    return list->items == NULL ? none : list->items;
}

/** Parses a command line that begins with "tuttirun"; options are good until the next. */
static inline tutti_status words_parse(
        struct options *options, const char *const *command_line)
{
    static struct arguments words;

    return command_line_parse(options, words_set(&words, command_line));
}

#endif
