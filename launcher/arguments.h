/*
 * A growing list of strings that ends in NULL: a command line or an environment. Environments are handed
 * around as values, so that what depends on them can be tested.
 */
#ifndef TUTTI_LAUNCHER_ARGUMENTS_H
#define TUTTI_LAUNCHER_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

/** Zeroed is valid and empty. Adding latches the first failure, so callers check once. */
struct arguments {
    char **items; /* owned strings and a final NULL; NULL while nothing was added */
    size_t count; /* strings                                                      */
    size_t capacity; /* entries allocated, the final NULL included                   */
    bool failed; /* out of memory: what follows is dropped                       */
};

void arguments_fini(struct arguments *list);

/** Appends a copy. */
void arguments_add(struct arguments *list, const char *text);
/** Appends a formatted string. */
void arguments_add_format(struct arguments *list, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/** Appends copies of a NULL-terminated array; NULL, the items of an empty list, has none. */
void arguments_add_all(struct arguments *list, char *const *texts);

/** Puts "NAME=VALUE", or "NAME", in place of the entry of that name, or at the end. */
void arguments_put(struct arguments *list, const char *entry);
/** The same with name and value apart. */
void arguments_set(struct arguments *list, const char *name, const char *value);
/** True when there is an entry of the same name. */
bool arguments_has(const struct arguments *list, const char *entry);
/** True when two entries "NAME" or "NAME=VALUE" have the same name. */
bool arguments_same_name(const char *a, const char *b);

/**
 * Appends the words of a text, split as a shell does: at white space, with '...',
 * "..." and backslashes, but nothing is expanded.
 * @param origin  where the text came from ("--mpi-args"), for the error
 * @return TUTTI_OK, TUTTI_ERR_INVALID (a quote is not closed; the list is unchanged)
 */
TUTTI_MUST_USE tutti_status arguments_split(
        struct arguments *list, const char *text, const char *origin);

/**
 * The list as one line that a shell reads back as the same words; control characters
 * appear as $'\ooo'. Freed with mem_free(); NULL when out of memory.
 */
char *arguments_quote(const struct arguments *list);

/** The words as they are, with a separator between. Freed and NULL as above. */
char *arguments_join(const struct arguments *list, const char *separator);

/** TUTTI_ERR_NO_MEMORY, with its error set, when the list has failed. */
TUTTI_MUST_USE tutti_status arguments_status(const struct arguments *list);

/** The value of a variable inside a NULL-terminated array of NAME=VALUE, or NULL. */
const char *environment_get(char *const *environment, const char *name);
/** A variable as a number; false when it is not there, no number, or below min. */
bool environment_get_int(
        char *const *environment, const char *name, int min, int *value);

#endif
