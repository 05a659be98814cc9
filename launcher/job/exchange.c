#include "launcher/job/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/job/flow.h"
#include "launcher/job/report.h"

enum {
    TEXT_MAX = 512,
    TOTAL_MAX = 1 << 28 /* bytes of all ranks */
};

void exchange_fini(struct exchange *exchange)
{
    mem_free(exchange->open);
    mem_free(exchange->done);
    *exchange = (struct exchange){ .open = NULL };
}

static struct rank *rank_of(const struct job *job, const struct server_link *link)
{
    return &job->ranks.items[link->rank];
}

/* It waits no longer. */
static void take_back(struct job *job, struct rank *rank)
{
    job->exchange.given -= rank->has_given ? 1 : 0;
    rank->has_given = false;
}

__attribute__((format(printf, 3, 4))) static void refuse(
        struct job *job, struct server_link *link, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    take_back(job, rank_of(job, link));
    flow_send(job, link,
            &(struct link_message){ .type = LINK_UNMET, .unmet = link_text_of(text) });
}

static void send_part(struct job *job, struct server_link *link, size_t offset)
{
    const struct exchange *exchange = &job->exchange;
    const struct link_message message = {
        .type = LINK_PART,
        .part = { .total = exchange->total,
                .offset = offset,
                .bytes = { .text = (const char *)exchange->done + offset,
                        .len = size_min(exchange->total - offset, LINK_LINES_MAX) } },
    };

    flow_send(job, link, &message);
}

static bool waits(const struct job *job, const struct server_link *link)
{
    return link->rank >= 0 && !session_is_lost(&link->session) &&
            rank_of(job, link)->has_given;
}

/* All have given. */
static void spread(struct job *job)
{
    struct exchange *exchange = &job->exchange;

    mem_free(exchange->done);
    exchange->done = exchange->open;
    exchange->total = exchange->bytes * (size_t)job->ranks.count;
    exchange->open = NULL;
    exchange->given = 0;
    for (size_t i = 0; i < job->server.count; i++) {
        struct server_link *link = job->server.links[i];

        if (waits(job, link)) {
            rank_of(job, link)->has_given = false;
            send_part(job, link, 0);
        }
    }
}

void exchange_step(struct job *job)
{
    char words[EXIT_TEXT_MAX];
    int ended = 0;

    if (job->exchange.given == 0 || job->ranks.ended == 0) {
        return;
    }
    while (job->ranks.items[ended].state != RANK_ENDED) {
        ended++;
    }
    if (ranks_note_awaited(&job->ranks, INT64_MAX)) {
        flow_suspect(job);
    }
    exit_text_end(&job->ranks.items[ended], words);
    for (size_t i = 0; i < job->server.count; i++) {
        if (waits(job, job->server.links[i])) {
            refuse(job, job->server.links[i], "rank %d on host %s %s%s", ended,
                    ranks_host(&job->ranks, ended), words,
                    job->ranks.items[ended].is_awaited
                            ? ""
                            : " before all ranks had started");
        }
    }
}

/* The first one says how many bytes there are of each. */
static bool make_room(struct job *job, struct server_link *link, size_t bytes)
{
    struct exchange *exchange = &job->exchange;
    const size_t count = (size_t)job->ranks.count;

    if (exchange->given > 0) {
        if (bytes != exchange->bytes) {
            refuse(job, link,
                    "rank %d gives %zu bytes, and others %zu: they start different "
                    "things, or by different versions of tutti",
                    link->rank, bytes, exchange->bytes);
        }
        return bytes == exchange->bytes;
    }
    mem_free(exchange->open);
    exchange->open =
            bytes > 0 && bytes <= TOTAL_MAX / count ? mem_calloc(count, bytes) : NULL;
    exchange->bytes = bytes;
    if (exchange->open == NULL) {
        refuse(job, link, "tuttirun has no room for %zu bytes of each of %d ranks",
                bytes, job->ranks.count);
    }
    return exchange->open != NULL;
}

void exchange_give(
        struct job *job, struct server_link *link, const struct link_give *give)
{
    struct exchange *exchange = &job->exchange;
    struct rank *rank = rank_of(job, link);

    take_back(job, rank);
    if (give->is_withdrawn) {
        return;
    }
    if (job->cause.kind != CAUSE_NONE) {
        refuse(job, link, "%s", job->cause.text);
        return;
    }
    if (!make_room(job, link, give->bytes.len)) {
        return;
    }
    memcpy(exchange->open + exchange->bytes * (size_t)link->rank, give->bytes.text,
            give->bytes.len);
    rank->has_given = true;
    exchange->given++;
    if (exchange->given == job->ranks.count) {
        spread(job);
    }
}

static bool has_not_given(const struct rank *rank)
{
    return !rank->has_given;
}

void exchange_more(struct job *job, struct server_link *link, uint64_t offset)
{
    if (rank_of(job, link)->has_given) {
        char list[TEXT_MAX];
        const int missing =
                ranks_list(&job->ranks, has_not_given, list, sizeof list / 2);

        refuse(job, link, "rank%s %s ha%s not started", missing == 1 ? "" : "s", list,
                missing == 1 ? "s" : "ve");
    } else if (offset < job->exchange.total) {
        send_part(job, link, (size_t)offset);
    }
}
