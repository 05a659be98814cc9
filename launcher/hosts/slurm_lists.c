/*
 * The two notations in which Slurm writes lists. A word such as "a[1-2]b[3-4]" is read
 * from left to right; each piece of it multiplies the names that were made before.
 */
#include "launcher/hosts/slurm_lists.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "launcher/hosts/host_list.h"

enum {
    DIGITS_LIMIT = 9, /* of a number, so that it fits          */
    WORDS_LIMIT = 200 /* bytes of a wrong text that are shown  */
};

static const char digits[] = "0123456789";

/* The numbers from low to high, written with at least `width` digits. */
struct range {
    uint32_t low;
    uint32_t high;
    int width;
};

static const char *read_number(const char **text, uint32_t *number, int *width)
{
    size_t len = strspn(*text, digits);

    if (len == 0) {
        return "a number is missing in the brackets";
    }
    if (len > DIGITS_LIMIT) {
        return "a number in the brackets is too long";
    }
    *number = 0;
    *width = (int)len;
    for (; len > 0; len--) {
        *number = *number * 10 + (uint32_t)(*(*text)++ - '0');
    }
    return NULL;
}

/* "7" or "08-11", and the comma behind it. */
static const char *read_range(const char **text, struct range *range)
{
    const char *reason = read_number(text, &range->low, &range->width);
    int width;

    range->high = range->low;
    if (reason == NULL && **text == '-') {
        (*text)++;
        reason = read_number(text, &range->high, &width);
    }
    if (reason != NULL) {
        return reason;
    }
    if (range->high < range->low) {
        return "a range in the brackets ends before it starts";
    }
    if (range->high - range->low >= HOSTS_LIMIT) {
        return "a range in the brackets has too many hosts";
    }
    if (**text == ',') {
        (*text)++;
        return **text == ']' ? "a number is missing in the brackets" : NULL;
    }
    return **text == ']' ? NULL : "the brackets have something other than numbers";
}

static const char *add_name(struct arguments *names, const char *name)
{
    if (names->count == HOSTS_LIMIT) {
        return "too many hosts";
    }
    if (strlen(name) >= HOST_NAME_LIMIT) {
        return "a name is too long";
    }
    arguments_add(names, name);
    return NULL;
}

/* Adds `name` with each number of a range behind it. */
static const char *add_numbered(
        struct arguments *names, const char *name, const struct range *range)
{
    const char *reason = NULL;

    for (uint32_t i = range->low; reason == NULL && i <= range->high; i++) {
        char text[2 * HOST_NAME_LIMIT];

        (void)snprintf(text, sizeof text, "%.*s%0*" PRIu32, HOST_NAME_LIMIT, name,
                range->width, i);
        reason = add_name(names, text);
    }
    return reason;
}

/* Adds `name` with each number of "[1-3,7]" behind it. */
static const char *add_bracket(
        struct arguments *names, const char *name, const char *bracket)
{
    const char *text = bracket + 1;
    const char *reason = NULL;

    if (*text == ']') {
        return "the brackets are empty";
    }
    while (reason == NULL && *text != ']') {
        struct range range;

        reason = read_range(&text, &range);
        if (reason == NULL) {
            reason = add_numbered(names, name, &range);
        }
    }
    return reason;
}

/*
 * Lengthens all names by the next piece of a word: text without brackets, or brackets.
 * Nothing is made when there are no names.
 */
static const char *lengthen(struct arguments *names, const char *piece, size_t len)
{
    struct arguments longer = { .items = NULL };
    const char *reason = NULL;

    for (size_t i = 0; reason == NULL && i < names->count; i++) {
        if (piece[0] == '[') {
            reason = add_bracket(&longer, names->items[i], piece);
        } else {
            char text[2 * HOST_NAME_LIMIT]; /* cut, it is still too long a name */

            (void)snprintf(
                    text, sizeof text, "%s%.*s", names->items[i], (int)len, piece);
            reason = add_name(&longer, text);
        }
    }
    if (reason == NULL && longer.failed) {
        reason = "out of memory";
    }
    arguments_fini(names);
    *names = longer;
    return reason;
}

/* How long the piece at the start of a text is; 0 when it is malformed or at its end. */
static size_t piece_length(const char *text)
{
    size_t len;

    if (text[0] != '[') {
        return strcspn(text, "[],");
    }
    len = strcspn(text + 1, "[]");
    return text[1 + len] == ']' ? 1 + len + 1 : 0;
}

/* The names of one word; *text is moved behind it. */
static const char *expand_word(struct arguments *names, const char **text)
{
    const char *start = *text;
    const char *reason = NULL;

    arguments_add(names, "");
    while (reason == NULL && **text != '\0' && **text != ',') {
        size_t len = piece_length(*text);

        if (len == 0) {
            return "a bracket has no counterpart";
        }
        reason = lengthen(names, *text, len);
        *text += len;
    }
    if (reason != NULL) {
        return reason;
    }
    return *text == start ? "a host name is missing" : NULL;
}

static const char *expand(struct arguments *names, const char *text)
{
    const char *reason = NULL;

    while (reason == NULL && *text != '\0') {
        struct arguments word = { .items = NULL };

        reason = expand_word(&word, &text);
        for (size_t i = 0; reason == NULL && i < word.count; i++) {
            reason = add_name(names, word.items[i]);
        }
        if (reason == NULL && word.failed) {
            reason = "out of memory";
        }
        arguments_fini(&word);
        if (reason == NULL && *text == ',') {
            text++;
            reason = *text == '\0' ? "a host name is missing" : NULL;
        }
    }
    return reason;
}

tutti_status slurm_hosts(struct arguments *names, const char *text, const char *origin)
{
    const char *reason = expand(names, text);

    if (reason != NULL) {
        arguments_fini(names);
        return error_set(
                TUTTI_ERR_INVALID, "%s=%.*s: %s", origin, WORDS_LIMIT, text, reason);
    }
    return arguments_status(names);
}

static const char *read_count(const char **text, uint32_t *number)
{
    int width;

    if (strspn(*text, digits) == 0) {
        return "a number is missing";
    }
    return read_number(text, number, &width) == NULL ? NULL : "a number is too long";
}

/* "2" or "2(x3)", and the comma behind it. */
static const char *read_repeated(const char **text, uint32_t *number, uint32_t *times)
{
    const char *reason = read_count(text, number);

    *times = 1;
    if (reason == NULL && strncmp(*text, "(x", 2) == 0) {
        *text += 2;
        reason = read_count(text, times);
        if (reason == NULL && *(*text)++ != ')') {
            return "')' is missing";
        }
    }
    if (reason != NULL || **text == '\0') {
        return reason;
    }
    if (**text != ',' || (*text)[1] == '\0') {
        return "numbers are written 2(x3),1";
    }
    (*text)++;
    return NULL;
}

/* Puts as many of the numbers as there is room for; counts all of them. */
static const char *fill_counts(
        int *counts, size_t count, const char *text, size_t *filled)
{
    while (*text != '\0') {
        uint32_t number = 0;
        uint32_t times = 0;
        const char *reason = read_repeated(&text, &number, &times);

        if (reason != NULL) {
            return reason;
        }
        for (uint32_t i = 0; i < times && *filled + i < count; i++) {
            counts[*filled + i] = (int)number;
        }
        *filled += times;
    }
    return NULL;
}

tutti_status slurm_counts(
        int *counts, size_t count, const char *text, const char *origin)
{
    size_t filled = 0;
    const char *reason = fill_counts(counts, count, text, &filled);

    if (reason != NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "%s=%.*s: %s", origin, WORDS_LIMIT, text, reason);
    }
    if (filled != count) {
        return error_set(TUTTI_ERR_INVALID,
                "%s=%.*s has %s numbers than the job's %zu hosts", origin, WORDS_LIMIT,
                text, filled < count ? "fewer" : "more", count);
    }
    return TUTTI_OK;
}

int slurm_count_of(const char *text, size_t host)
{
    uint32_t number = 0;
    uint32_t times = 0;

    while (*text != '\0' && read_repeated(&text, &number, &times) == NULL) {
        if (host < times) {
            return (int)number;
        }
        host -= times;
    }
    return 0;
}
