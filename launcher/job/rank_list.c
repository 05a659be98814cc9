/*
 * Lists of ranks.
 */
#include "launcher/job/rank_list.h"

#include <ctype.h>
#include <stddef.h>

#include "launcher/options.h"

/* Reads digits at *text and steps over them; -1 when there are none or too many. */
static int read_rank(const char **text)
{
    int value = -1;

    while (isdigit((unsigned char)**text) != 0) {
        value = (value < 0 ? 0 : value) * 10 + (**text - '0');
        if (value > RANKS_LIMIT) {
            return -1;
        }
        (*text)++;
    }
    return value;
}

/* Reads one entry, "3" or "3-5", and the comma after it. */
static bool read_entry(const char **text, int *first, int *last)
{
    *first = read_rank(text);
    *last = *first;
    if (**text == '-') {
        (*text)++;
        *last = read_rank(text);
    }
    if (*first < 0 || *last < *first) {
        return false;
    }
    if (**text == ',') {
        *text += (*text)[1] == ' ' ? 2 : 1;
        return **text != '\0';
    }
    return **text == '\0';
}

bool rank_list_is_valid(const char *text)
{
    int first;
    int last;

    if (*text == '\0') {
        return false;
    }
    while (*text != '\0') {
        if (!read_entry(&text, &first, &last)) {
            return false;
        }
    }
    return true;
}

bool rank_list_has(const char *text, int rank)
{
    int first;
    int last;

    if (text == NULL) {
        return true;
    }
    while (*text != '\0' && read_entry(&text, &first, &last)) {
        if (rank >= first && rank <= last) {
            return true;
        }
    }
    return false;
}
