/*
 * The report of a failure as text.
 */
#include "launcher/job/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launcher/job/words.h"

enum {
    LINE_MAX_BYTES = LINK_TEXT_MAX + 64
};

static size_t put_name(const struct report_facts *facts, int rank, char *text)
{
    int len;

    if (facts->has_hosts) {
        len = snprintf(text, CAUSE_TEXT_MAX, "rank %d on host %s", rank,
                ranks_host(facts->ranks, rank));
    } else {
        len = snprintf(text, CAUSE_TEXT_MAX, "rank %d", rank);
    }
    return len < CAUSE_TEXT_MAX ? (size_t)len : CAUSE_TEXT_MAX - 1;
}

void report_rank(const struct report_facts *facts, int index, char text[CAUSE_TEXT_MAX])
{
    const struct rank *rank = &facts->ranks->items[index];
    char words[WORDS_MAX];
    char time[64];
    size_t len = put_name(facts, index, text);

    words_end(rank, words);
    words_duration(rank->when - facts->start, time, sizeof time);
    if (rank->pid > 0) {
        (void)snprintf(text + len, CAUSE_TEXT_MAX - len,
                " %s, pid %" PRIu64 ", %s after the start", words, rank->pid, time);
    } else {
        (void)snprintf(text + len, CAUSE_TEXT_MAX - len, " %s, %s after the start",
                words, time);
    }
}

static void put_tail(const char *tail, report_line line, void *context)
{
    char text[LINE_MAX_BYTES];

    line(context, "  its last words:");
    while (*tail != '\0') {
        size_t len = strcspn(tail, "\n");

        (void)snprintf(text, sizeof text, "  | %.*s",
                (int)(len < LINK_TEXT_MAX ? len : LINK_TEXT_MAX), tail);
        line(context, text);
        tail += len;
        tail += *tail == '\n';
    }
}

static void put_cause(const struct report_facts *facts, report_line line, void *context)
{
    const struct rank *rank;
    char text[LINE_MAX_BYTES];

    line(context, facts->cause->text);
    if (facts->cause->rank < 0) {
        return;
    }
    rank = &facts->ranks->items[facts->cause->rank];
    if (rank->tail != NULL) {
        put_tail(rank->tail, line, context);
    }
    if (rank->log != NULL) {
        (void)snprintf(text, sizeof text, "  its log: %s/stderr", rank->log);
        line(context, text);
    }
}

/* Ranks that a report has a line for, the cause aside. */
static bool is_told(const struct rank *rank)
{
    return rank->state == RANK_ENDED && !rank->was_stopped &&
            (rank->end != RANK_END_EXIT || rank->value != 0);
}

static void put_other(const struct report_facts *facts, int index, char *text)
{
    const struct rank *rank = &facts->ranks->items[index];
    int64_t since = rank->when - facts->cause->when;
    char words[WORDS_MAX];
    char time[64];
    size_t len = put_name(facts, index, text);

    words_end(rank, words);
    words_duration(since < 0 ? -since : since, time, sizeof time);
    (void)snprintf(text + len, CAUSE_TEXT_MAX - len, " %s, %s %s", words, time,
            since < 0 ? "before" : "later");
}

static void put_others(
        const struct report_facts *facts, report_line line, void *context)
{
    char text[CAUSE_TEXT_MAX];
    int told = 0;

    for (int i = 0; i < facts->ranks->count; i++) {
        if (i == facts->cause->rank || !is_told(&facts->ranks->items[i])) {
            continue;
        }
        told++;
        if (told <= REPORT_OTHERS) {
            put_other(facts, i, text);
            line(context, text);
        }
    }
    if (told > REPORT_OTHERS) {
        (void)snprintf(text, sizeof text, "... and %d more", told - REPORT_OTHERS);
        line(context, text);
    }
}

void report_text(const struct report_facts *facts, report_line line, void *context)
{
    put_others(facts, line, context);
    put_cause(facts, line, context);
}
