/*
 * Ranks of one process, and what is delivered to them as text.
 */
#ifndef TUTTI_TEST_TRANSPORT_RANKS_H
#define TUTTI_TEST_TRANSPORT_RANKS_H

#include <stdio.h>
#include <string.h>

#include "test/unit/unit.h"
#include "transport/inproc.h"

#define RANKS_MAX 64

struct ranks {
    int size;
    struct doorbell bells[RANKS_MAX];
    struct transport ends[RANKS_MAX];
};

static inline void ranks_open(struct ranks *ranks, int size)
{
    memset(ranks, 0, sizeof *ranks);
    ranks->size = size;
    assert_int_equal(transport_inproc_open(size, ranks->bells, ranks->ends), TUTTI_OK);
}

static inline void ranks_close(struct ranks *ranks)
{
    for (int rank = 0; rank < ranks->size; rank++) {
        transport_close(&ranks->ends[rank]);
    }
}

static inline tutti_status send_bytes(
        struct ranks *ranks, int from, int to, const void *bytes, size_t len)
{
    const struct transport *end = &ranks->ends[from];

    return end->ops->send(end->state, to, bytes, len);
}

static inline void send_text(struct ranks *ranks, int from, int to, const char *text)
{
    assert_int_equal(send_bytes(ranks, from, to, text, strlen(text)), TUTTI_OK);
}

/** Delivered messages, "1:text;2:other;". */
struct inbox {
    char text[256];
    size_t used;
};

/** A transport_deliver. */
static inline void inbox_keep(void *user, int from, const void *bytes, size_t len)
{
    struct inbox *inbox = user;

    assert_true(inbox->used + len + 16 < sizeof inbox->text);
    inbox->used += (size_t)snprintf(inbox->text + inbox->used,
            sizeof inbox->text - inbox->used, "%d:%.*s;", from, (int)len,
            (const char *)bytes);
}

/** One poll of a rank delivers these messages; "": none. */
static inline void assert_polled(struct ranks *ranks, int rank, const char *expected)
{
    struct inbox inbox = { .used = 0 };

    assert_int_equal(transport_poll(&ranks->ends[rank], inbox_keep, &inbox),
            expected[0] == '\0' ? TUTTI_AGAIN : TUTTI_OK);
    assert_string_equal(inbox.text, expected);
}

#endif
