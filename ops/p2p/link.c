/*
 * What the wire between two nodes does with messages, measured at the start by a rank of each:
 * the one that leads says what is done next, the other one follows.
 *
 * A long message is announced, and its data follow when the receiver has answered (rendezvous).
 * Over TCP the answer waits behind the data that already flow the other way, so a link that is
 * used both ways carries one direction at a time: half of its rate, whatever the window. Short
 * messages go at once (eager) and fill both. How long "short" is differs from fabric to fabric and
 * cannot be asked for; but a message that nobody awaits leaves only if it is.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/p2p/p2p.h"
#include "ops/p2p/task.h"

enum {
    TAG_WORDS, /* what is said */
    TAG_EAGER, /* messages that nobody awaits */
    TAG_STREAM,
    ROUND_TRIPS = 8,
    SLOTS_MAX = 64, /* messages of a stream under way per direction */
    SLOT_WORD = SLOTS_MAX,
    RECEIVES,
    REQUESTS = 2 * RECEIVES /* receives, then sends, by slot */
};

#define GIVE_UP_NS INT64_C(10000000000)
/*
 * A message that has not left by then waits for its receiver. TCP begins with a few packets, and
 * has room for more after round trips.
 */
#define EAGER_NS INT64_C(3000000)
#define EAGER_ROUND_TRIPS 4
#define NAP_NS 20000
/* Under way in a stream, each way, at first: two of the longest messages that are tried. */
#define STREAM_WINDOW ((size_t)256 << 10)
#define STREAM_BYTES ((size_t)1 << 20)
/*
 * Shorter streams, in latencies, are about how TCP begins, and what is under way may be too
 * little for the link: both are doubled until that brings less than GROWS.
 */
#define STREAM_LATENCIES 32.0
#define STREAM_BYTES_MAX ((size_t)32 << 20)
#define GROWS 1.2
#define SHORT_BYTES ((size_t)64)
#define OVERHEAD_MIN_US 0.1
/* Slower links are driven by the kernel's TCP: there is no need to compare. */
#define FAST_BYTES_PER_US 500.0
#define FAST_STREAM_BYTES ((size_t)4 << 20)
/* Long messages save copies, which is worth a little. */
#define LONG_MAY_TAKE 1.1
/* What is in flight covers the way there and back of operands and results, and a nap. */
#define NAP_US 1000.0
#define WINDOW_MIN ((size_t)1 << 20)
#define WINDOW_MAX ((size_t)16 << 20)

/* Just below powers of two and their thirds, where limits are: headers count, too. */
static const size_t eager_sizes[] = { 4 << 10, 7 << 10, 15 << 10, 23 << 10, 31 << 10,
    47 << 10, 60 << 10, 94 << 10, 124 << 10, 252 << 10 };
#define EAGER_SIZES (sizeof eager_sizes / sizeof *eager_sizes)

struct probe {
    const struct fabric *fabric;
    int peer;
    int64_t ends_ns; /* gives up then */
    int64_t round_trip_ns; /* the shortest */
    void *requests; /* [REQUESTS] of the fabric */
    uint8_t *out; /* STREAM_WINDOW bytes */
    uint8_t *
            in; /* SLOTS_MAX times as many, which the kernel provides when they are used */
};

/* What the leader says: a stream of messages both ways, or, with 0 bytes, the end. */
struct word {
    uint64_t message_bytes;
    uint64_t bytes;
    uint64_t slots; /* messages under way, at most SLOTS_MAX */
};

/* ------------------------------------------------------------------ messages */

/* Requests that are left are the fabric's: the other rank may be gone. */
static void drop(struct probe *probe)
{
    const struct fabric *fabric = probe->fabric;

    fabric->ops->cancel(fabric->state, probe->requests, RECEIVES);
    (void)fabric->ops->let_go(fabric->state, probe->requests, REQUESTS);
}

/* Polls until `count` of one direction are complete. TUTTI_ERR_TIMEOUT: not by then. */
static tutti_status settle(
        struct probe *probe, bool sends, int slot, int count, int64_t ends_ns)
{
    const struct fabric *fabric = probe->fabric;
    void *requests =
            fabric_request(fabric, probe->requests, slot + (sends ? RECEIVES : 0));
    const int64_t begin = clock_ns();
    int done[RECEIVES];
    int completed;

    for (;;) {
        const tutti_status status = fabric->ops->poll(
                fabric->state, requests, sends ? 0 : count, count, done, &completed);
        const int64_t now = clock_ns();

        if (status != TUTTI_OK || fabric->ops->are_free(requests, count)) {
            return status;
        }
        if (now > ends_ns) {
            return TUTTI_ERR_TIMEOUT;
        }
        clock_pause(begin, NAP_NS);
    }
}

static tutti_status post(
        struct probe *probe, bool sends, int slot, int tag, void *buffer, size_t bytes)
{
    const struct fabric *fabric = probe->fabric;

    return sends ? fabric->ops->send(fabric->state, FABRIC_DATA, probe->peer, tag,
                           buffer, bytes, probe->requests, RECEIVES + slot)
                 : fabric->ops->receive(fabric->state, FABRIC_DATA, probe->peer, tag,
                           buffer, bytes, probe->requests, slot);
}

/* One message, awaited. */
static tutti_status pass(
        struct probe *probe, bool sends, int tag, void *buffer, size_t bytes)
{
    const tutti_status status = post(probe, sends, SLOT_WORD, tag, buffer, bytes);

    return status == TUTTI_OK ? settle(probe, sends, SLOT_WORD, 1, probe->ends_ns)
                              : status;
}

/* ------------------------------------------------------------------- latency */

/* Sets round_trip_ns. */
static tutti_status round_trips(struct probe *probe, bool leads)
{
    uint8_t byte = 0;
    tutti_status status = TUTTI_OK;

    probe->round_trip_ns = INT64_MAX;
    for (int i = 0; i < ROUND_TRIPS && status == TUTTI_OK; i++) {
        const int64_t begin = clock_ns();

        status = pass(probe, leads, TAG_WORDS, &byte, 1);
        if (status == TUTTI_OK) {
            status = pass(probe, !leads, TAG_WORDS, &byte, 1);
        }
        if (status == TUTTI_OK && clock_ns() - begin < probe->round_trip_ns) {
            probe->round_trip_ns = clock_ns() - begin;
        }
    }
    return status;
}

/* --------------------------------------------------------------------- eager */

/*
 * Sends longer and longer messages that nobody awaits, until one does not leave.
 * @param[out] sent  how many it has begun
 */
static tutti_status send_eager(struct probe *probe, int *sent, size_t *eager_bytes)
{
    const int64_t patience_ns = EAGER_NS + EAGER_ROUND_TRIPS * probe->round_trip_ns;
    tutti_status status = TUTTI_OK;

    *sent = 0;
    *eager_bytes = 0;
    while (*sent < (int)EAGER_SIZES && status == TUTTI_OK) {
        const int i = (*sent)++;

        status = post(probe, true, i, TAG_EAGER, probe->out, eager_sizes[i]);
        if (status == TUTTI_OK) {
            status = settle(probe, true, i, 1, clock_ns() + patience_ns);
        }
        if (status == TUTTI_OK) {
            *eager_bytes = eager_sizes[i];
        }
    }
    return status == TUTTI_ERR_TIMEOUT ? TUTTI_OK : status;
}

/* The longest message that leaves before its receiver asks for it; 0: none. */
static tutti_status find_eager(struct probe *probe, bool leads, size_t *eager_bytes)
{
    int count = 0;
    tutti_status status = TUTTI_OK;

    if (leads) {
        status = send_eager(probe, &count, eager_bytes);
    }
    if (status == TUTTI_OK) {
        status = pass(probe, leads, TAG_WORDS, &count, sizeof count);
    }
    for (int i = 0; i < count && !leads && status == TUTTI_OK; i++) {
        status = post(probe, false, i, TAG_EAGER, probe->in, eager_sizes[i]);
        if (status == TUTTI_OK) {
            status = settle(probe, false, i, 1, probe->ends_ns);
        }
    }
    return status == TUTTI_OK && leads ? settle(probe, true, 0, count, probe->ends_ns)
                                       : status;
}

/* -------------------------------------------------------------------- stream */

/* Messages both ways at once, as many as the word says. */
static tutti_status stream(struct probe *probe, const struct word *word)
{
    const size_t message = (size_t)word->message_bytes;
    const int slots = (int)word->slots;
    const int messages = (int)(word->bytes / message);
    tutti_status status = TUTTI_OK;

    for (int m = 0; m < messages + slots && status == TUTTI_OK; m++) {
        const int slot = m % slots;

        status = settle(probe, false, slot, 1, probe->ends_ns);
        if (status == TUTTI_OK) {
            status = settle(probe, true, slot, 1, probe->ends_ns);
        }
        if (status == TUTTI_OK && m < messages) {
            status = post(probe, false, slot, TAG_STREAM,
                    probe->in + (size_t)slot * message, message);
        }
        if (status == TUTTI_OK && m < messages) {
            status = post(probe, true, slot, TAG_STREAM, probe->out, message);
        }
    }
    return status;
}

/* So many messages fill a window. */
static size_t slots_of(size_t window, size_t message)
{
    return size_min(size_max(window / message, 2), SLOTS_MAX);
}

/* @param us  kept when it was less */
static tutti_status time_stream(
        struct probe *probe, size_t message, size_t slots, size_t bytes, double *us)
{
    struct word word = { .message_bytes = message, .bytes = bytes, .slots = slots };
    const int64_t begin = clock_ns();
    double took;
    tutti_status status = pass(probe, true, TAG_WORDS, &word, sizeof word);

    if (status == TUTTI_OK) {
        status = stream(probe, &word);
    }
    if (status == TUTTI_OK) {
        status = pass(probe, false, TAG_WORDS, &word, sizeof word);
    }
    took = (double)(clock_ns() - begin) / 1e3;
    *us = took < *us ? took : *us;
    return status;
}

static tutti_status follow_streams(struct probe *probe)
{
    struct word word = { .bytes = 1 };
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && word.bytes > 0) {
        status = pass(probe, false, TAG_WORDS, &word, sizeof word);
        if (status == TUTTI_OK && word.bytes > 0) {
            status = stream(probe, &word);
        }
        if (status == TUTTI_OK && word.bytes > 0) {
            status = pass(probe, true, TAG_WORDS, &word, sizeof word);
        }
    }
    return status;
}

static tutti_status time_fast(struct probe *probe, size_t message, double *us)
{
    return time_stream(
            probe, message, slots_of(STREAM_WINDOW, message), FAST_STREAM_BYTES, us);
}

/* On a fast link: whether long messages are as fast. Sets the link's rate, too. */
static tutti_status compare(struct probe *probe, size_t eager_bytes, size_t long_bytes,
        struct op_link *link)
{
    double eager_us = 1e9;
    double long_us = 1e9;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        status = time_fast(probe, eager_bytes, &eager_us);
        if (status == TUTTI_OK) {
            status = time_fast(probe, long_bytes, &long_us);
        }
    }
    if (long_us <= eager_us * LONG_MAY_TAKE) {
        link->message_bytes = long_bytes;
    }
    link->bytes_per_us =
            (double)FAST_STREAM_BYTES / (long_us < eager_us ? long_us : eager_us);
    return status;
}

static size_t window(const struct op_link *link)
{
    const double bytes = link->bytes_per_us * (NAP_US + 4 * link->latency_us);

    return bytes < (double)WINDOW_MIN    ? WINDOW_MIN
            : bytes > (double)WINDOW_MAX ? WINDOW_MAX
                                         : size_align((size_t)bytes, TASK_ALIGNMENT);
}

/* What a message costs that is not waited for: many short ones, both ways. */
static tutti_status find_overhead(struct probe *probe, struct op_link *link)
{
    double us = 1e9;
    const tutti_status status =
            time_stream(probe, SHORT_BYTES, SLOTS_MAX, SHORT_BYTES * SLOTS_MAX, &us);

    us -= 2 * link->latency_us;
    us /= 2 * SLOTS_MAX;
    link->overhead_us = us > OVERHEAD_MIN_US ? us : OVERHEAD_MIN_US;
    return status;
}

/* Sets bytes_per_us by streams that are long enough. */
static tutti_status find_rate(struct probe *probe, struct op_link *link)
{
    const double latency = link->latency_us;
    size_t times = 1; /* as much as in the first stream */
    double before = 0;
    double us = 0;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && us < STREAM_LATENCIES * latency &&
            link->bytes_per_us >= before * GROWS &&
            times <= STREAM_BYTES_MAX / STREAM_BYTES) {
        us = 1e9;
        status = time_stream(probe, link->message_bytes,
                slots_of(STREAM_WINDOW * times, link->message_bytes),
                STREAM_BYTES * times, &us);
        before = link->bytes_per_us;
        link->bytes_per_us = (double)(STREAM_BYTES * times) /
                (us > 4 * latency ? us - 2 * latency : us);
        times *= 2;
    }
    return status;
}

static tutti_status lead_streams(struct probe *probe, size_t eager_bytes,
        size_t long_bytes, struct op_link *link)
{
    struct word end = { 0 };
    tutti_status status;

    link->message_bytes = eager_bytes;
    status = find_rate(probe, link);
    if (status == TUTTI_OK) {
        status = find_overhead(probe, link); /* once TCP is under way */
    }
    if (status == TUTTI_OK && link->bytes_per_us > FAST_BYTES_PER_US) {
        status = compare(probe, eager_bytes, long_bytes, link);
    }
    link->window_bytes = window(link);
    return status == TUTTI_OK ? pass(probe, true, TAG_WORDS, &end, sizeof end) : status;
}

/* --------------------------------------------------------------------- whole */

static tutti_status measure(
        struct probe *probe, bool leads, size_t long_bytes, struct op_link *link)
{
    size_t eager_bytes = 0;
    tutti_status status = round_trips(probe, leads);

    if (status == TUTTI_OK) {
        status = find_eager(probe, leads, &eager_bytes);
    }
    if (status != TUTTI_OK || !leads) {
        return status == TUTTI_OK ? follow_streams(probe) : status;
    }
    link->latency_us = (double)probe->round_trip_ns / 2e3;
    return lead_streams(probe, size_max(eager_bytes, eager_sizes[0]), long_bytes, link);
}

tutti_status p2p_link_measure(const struct fabric *fabric, int peer, bool leads,
        size_t long_bytes, struct op_link *link)
{
    const size_t most = size_min(size_max(long_bytes, eager_sizes[0]), STREAM_WINDOW);
    const size_t buffers = (1 + SLOTS_MAX) * STREAM_WINDOW;
    uint8_t *memory = mem_calloc(1, buffers + REQUESTS * fabric->ops->request_bytes);
    struct probe probe = {
        .fabric = fabric, .peer = peer, .ends_ns = clock_ns() + GIVE_UP_NS
    };
    tutti_status status;

    *link = (struct op_link){ 0 };
    if (memory == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to measure a link");
    }
    probe.out = memory;
    probe.in = memory + STREAM_WINDOW;
    probe.requests = memory + buffers;
    fabric->ops->clear(probe.requests, REQUESTS);
    status = measure(&probe, leads, most, link);
    drop(&probe);
    if (status == TUTTI_ERR_TIMEOUT) {
        *link = (struct op_link){ 0 };
        return TUTTI_OK; /* the memory is left to what is under way */
    }
    if (link->message_bytes == most) {
        link->message_bytes = long_bytes;
    }
    mem_free(memory);
    return status;
}
