#include "launcher/job/ranks.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tutti/trainer/elastic.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/options.h"

enum {
    LIST_ENTRY_MAX = 32 /* bytes of ",1048575-1048576" and of ",..." with zero */
};

tutti_status ranks_init(struct ranks *ranks, int count)
{
    *ranks = (struct ranks){
        .items = mem_calloc((size_t)count, sizeof(struct rank)),
        .count = count,
    };
    if (ranks->items == NULL) {
        ranks->count = 0;
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", count);
    }
    return TUTTI_OK;
}

void ranks_fini(struct ranks *ranks)
{
    for (int i = 0; i < ranks->count; i++) {
        struct rank *rank = &ranks->items[i];

        mem_free(rank->host);
        mem_free(rank->binding);
        mem_free(rank->log);
        mem_free(rank->detail);
        mem_free(rank->tail);
        mem_free(rank->awaited);
    }
    mem_free(ranks->items);
    *ranks = (struct ranks){ .items = NULL };
}

/*
 * A copy without what could move a terminal's cursor; NULL for an empty text. Without
 * memory it is missing in the report, which is better than no report.
 */
static char *copy_text(const char *text, size_t len)
{
    char *copy = len == 0 ? NULL : mem_alloc(len + 1);

    if (copy == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char letter = (unsigned char)text[i];

        if (letter == 0x7f || (letter < 0x20 && letter != '\n' && letter != '\t')) {
            copy[i] = '?';
        } else {
            copy[i] = text[i];
        }
    }
    copy[len] = '\0';
    return copy;
}

static char *copy_link_text(struct link_text text)
{
    return copy_text(text.text, text.len);
}

void ranks_join(struct ranks *ranks, const struct link_hello *hello)
{
    struct rank *rank = &ranks->items[hello->rank];

    rank->host = copy_link_text(hello->host);
    rank->state = RANK_JOINED;
    ranks->joined++;
}

void ranks_start(struct ranks *ranks, int index, const struct link_started *started)
{
    struct rank *rank = &ranks->items[index];

    if (rank->state != RANK_JOINED) {
        return;
    }
    rank->state = RANK_RUNNING;
    rank->pid = started->pid;
    rank->binding = copy_link_text(started->binding);
    rank->log = copy_link_text(started->log);
}

static bool end_rank(struct ranks *ranks, int index, enum rank_end end, int64_t when)
{
    struct rank *rank = &ranks->items[index];

    if (rank->state == RANK_ENDED) {
        return false;
    }
    rank->state = RANK_ENDED;
    rank->end = end;
    rank->when = when;
    ranks->ended++;
    return true;
}

static enum rank_end end_of(enum link_ending ending)
{
    switch (ending) {
    case LINK_ENDED_EXIT:
        return RANK_END_EXIT;
    case LINK_ENDED_SIGNAL:
        return RANK_END_SIGNAL;
    case LINK_ENDED_EXEC:
        return RANK_END_EXEC;
    case LINK_ENDED_SETUP:
        break;
    }
    return RANK_END_SETUP;
}

void ranks_exit(struct ranks *ranks, int index, const struct link_exited *exited,
        int64_t when, int64_t doubt)
{
    struct rank *rank = &ranks->items[index];

    if (!end_rank(ranks, index, end_of((enum link_ending)exited->ending), when)) {
        return;
    }
    rank->value = (int)exited->value;
    rank->doubt = doubt;
    rank->stage = (enum library_stage)exited->stage;
    rank->failure = (enum context_failure)exited->failure;
    rank->dumped_core = exited->dumped_core;
    rank->is_oom = exited->is_oom;
    rank->was_stopped = exited->was_stopped;
    rank->committed = exited->committed;
    rank->detail = copy_link_text(exited->detail);
    rank->tail = copy_link_text(exited->tail);
    rank->awaited = copy_link_text(exited->awaited);
}

void ranks_note_leaving(struct ranks *ranks, int index)
{
    struct rank *rank = &ranks->items[index];

    rank->leaves = rank->end == RANK_END_EXIT && rank->value == TUTTI_EXIT_AGAIN;
}

bool ranks_note_awaited(struct ranks *ranks, int64_t when)
{
    bool has_found = false;

    for (int i = 0; i < ranks->count && ranks->ended > 0; i++) {
        struct rank *rank = &ranks->items[i];

        if (rank->end == RANK_END_EXIT && rank->value == 0 &&
                rank->stage == LIBRARY_STAGE_NONE && rank->when < when &&
                !rank->is_awaited) {
            rank->is_awaited = true;
            has_found = true;
        }
    }
    return has_found;
}

void ranks_lose(struct ranks *ranks, int index, enum rank_end end, int64_t when,
        const char *detail)
{
    if (end_rank(ranks, index, end, when)) {
        ranks->items[index].detail = copy_text(detail, strlen(detail));
    }
}

bool ranks_have_hosts(const struct ranks *ranks)
{
    const char *first = NULL;

    for (int i = 0; i < ranks->count; i++) {
        const char *host = ranks->items[i].host;

        if (host != NULL && first == NULL) {
            first = host;
        } else if (host != NULL && strcmp(host, first) != 0) {
            return true;
        }
    }
    return false;
}

const char *ranks_host(const struct ranks *ranks, int rank)
{
    const char *host = ranks->items[rank].host;

    return host == NULL ? "?" : host;
}

bool rank_is_absent(const struct rank *rank)
{
    return rank->state == RANK_ABSENT;
}

bool rank_is_running(const struct rank *rank)
{
    return rank->state == RANK_RUNNING;
}

/* The last of the ranks from `first` on that all match. */
static int last_of(
        const struct ranks *ranks, int first, bool (*matches)(const struct rank *rank))
{
    while (first + 1 < ranks->count && matches(&ranks->items[first + 1])) {
        first++;
    }
    return first;
}

/* Appends "3" or "3-5" at len, or "..." where there is no room; returns the new len. */
static size_t put_range(char *text, size_t len, size_t capacity, int first, int last)
{
    const char *comma = len == 0 ? "" : ",";

    if (len + LIST_ENTRY_MAX > capacity) {
        (void)snprintf(text + len, capacity - len, "%s...", comma);
        return capacity;
    }
    len += (size_t)snprintf(text + len, capacity - len, "%s%d", comma, first);
    if (last > first) {
        len += (size_t)snprintf(text + len, capacity - len, "-%d", last);
    }
    return len;
}

int ranks_list(const struct ranks *ranks, bool (*matches)(const struct rank *rank),
        char *text, size_t capacity)
{
    size_t len = 0;
    int count = 0;

    text[0] = '\0';
    for (int i = 0; i < ranks->count; i++) {
        int last = last_of(ranks, i, matches);

        if (!matches(&ranks->items[i])) {
            continue;
        }
        if (len < capacity) {
            len = put_range(text, len, capacity, i, last);
        }
        count += last - i + 1;
        i = last;
    }
    return count;
}

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
