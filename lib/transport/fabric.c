/*
 * Control transport over the messages of a fabric.
 *
 * A message travels as one or more frames of at most FRAME_BYTES, small enough to go
 * eagerly under every MPI: a send completes without the receiver's help and nobody can
 * deadlock on a full peer. Each frame starts with the number of bytes of the message
 * that are still to come, its own included, so the first frame announces the length and
 * the frame whose number equals its payload is the last.
 *
 * Receives are a ring of RING_SLOTS requests from any rank. The fabric matches the messages
 * of one sender with posted receives in order, the ring is posted in order and read in
 * order, so the order of each sender is kept; and a poll that finds nothing costs one
 * test of the oldest slot. Frames of different senders interleave: long messages
 * are put together per sender.
 *
 * Sent frames come from a pool that grows to the largest burst and keeps up to
 * FRAMES_KEPT, so the steady state allocates nothing. Each poll tests a few of the
 * frames in flight in turn, so one slow peer does not hold up the others' frames.
 */
#include "transport/fabric.h"

#include <string.h>

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"

/* Below the eager limit of Open MPI's shared memory (4096, with its headers inside). */
#define FRAME_BYTES 4032
#define HEADER_BYTES 4
#define PAYLOAD_BYTES (FRAME_BYTES - HEADER_BYTES)
#define RING_SLOTS 8
#define FRAMES_KEPT 256
/* Tests of frames in flight per poll and per frame sent. */
#define RECLAIM_TESTS 4
/* Assembly buffers up to this size are kept for the sender's next long message. */
#define ASSEMBLY_KEPT ((size_t)1 << 20)
#define MESSAGE_MAX ((size_t)1 << 30)
#define CONTROL_TAG 0
/* Polls for cancelled receives before their memory is left to the fabric. */
#define CANCEL_POLLS 1000

/* A frame being sent, or a free one. */
struct frame {
    struct frame *next; /* while free */
    uint8_t bytes[FRAME_BYTES]; /* header and payload */
    _Alignas(8) uint8_t request[]; /* of the fabric, while in flight */
};

/* Posted receives; the fabric's requests for them follow. */
struct ring {
    uint8_t bytes[RING_SLOTS][FRAME_BYTES];
    _Alignas(8) uint8_t requests[];
};

/* The long message that a sender is in the middle of, or memory for its next one. */
struct assembly {
    int from;
    struct wire_writer here; /* the bytes that are here */
    size_t total; /* bytes of the message; 0: none in progress */
};

struct fabric_transport {
    const struct fabric *fabric; /* borrowed from the job */
    struct ring *ring; /* owned, but see control_close() */
    int head; /* oldest posted slot */
    transport_bell_of bell_of; /* NULL: no rank can be woken but by a message */
    const void *bell_user; /* its argument */
    struct map assemblies; /* of senders that have sent long messages; owned */
    struct frame **flying; /* [flying_count] frames being sent */
    size_t flying_count;
    size_t flying_capacity;
    size_t cursor; /* next frame in flight to test */
    struct frame *free; /* frames to use */
    size_t free_count;
};

static void header_put(uint8_t *bytes, size_t left)
{
    for (int i = 0; i < HEADER_BYTES; i++) {
        bytes[i] = (uint8_t)(left >> (8 * i));
    }
}

static size_t header_get(const uint8_t *bytes)
{
    size_t left = 0;

    for (int i = 0; i < HEADER_BYTES; i++) {
        left |= (size_t)bytes[i] << (8 * i);
    }
    return left;
}

static void frame_recycle(struct fabric_transport *t, struct frame *frame)
{
    if (t->free_count >= FRAMES_KEPT) {
        mem_free(frame);
        return;
    }
    frame->next = t->free;
    t->free = frame;
    t->free_count++;
}

/* Tests `tests` of the frames in flight, in turn, and takes back finished ones. */
static tutti_status frames_reclaim(struct fabric_transport *t, size_t tests)
{
    const struct fabric *fabric = t->fabric;

    for (; tests > 0 && t->flying_count > 0; tests--) {
        struct frame *frame;
        tutti_status status;

        if (t->cursor >= t->flying_count) {
            t->cursor = 0;
        }
        frame = t->flying[t->cursor];
        status = fabric->ops->test(fabric->state, frame->request, 0, NULL);
        if (status == TUTTI_AGAIN) {
            t->cursor++;
            continue;
        }
        if (status != TUTTI_OK) {
            return status;
        }
        t->flying_count--;
        t->flying[t->cursor] = t->flying[t->flying_count];
        frame_recycle(t, frame);
    }
    return TUTTI_OK;
}

/* A frame to fill, and room for it in the list of those in flight; NULL: no memory. */
static struct frame *frame_take(struct fabric_transport *t)
{
    struct frame *frame = t->free;

    if (!mem_grow(&t->flying, &t->flying_capacity, t->flying_count + 1,
                sizeof(struct frame *))) {
        return NULL;
    }
    if (frame == NULL) {
        return mem_alloc(sizeof *frame + t->fabric->ops->request_bytes);
    }
    t->free = frame->next;
    t->free_count--;
    return frame;
}

static tutti_status frame_send(
        struct fabric_transport *t, struct frame *frame, int to, size_t bytes)
{
    const struct fabric *fabric = t->fabric;
    tutti_status status;

    fabric->ops->clear(frame->request, 1);
    status = fabric->ops->send(fabric->state, FABRIC_CONTROL, to, CONTROL_TAG,
            frame->bytes, bytes, frame->request, 0);
    if (status != TUTTI_OK) {
        mem_free(frame);
        return status;
    }
    t->flying[t->flying_count] = frame;
    t->flying_count++;
    return TUTTI_OK;
}

/* A failure in the middle of a message leaves the receiver with half of it: the core
 * fails the context on any error of send. */
static tutti_status control_send(void *state, int to, const void *bytes, size_t len)
{
    struct fabric_transport *t = state;
    const uint8_t *from = bytes;
    size_t left = len;

    if (len > MESSAGE_MAX) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "a control message of %zu bytes; the longest is %zu", len, MESSAGE_MAX);
    }
    do {
        size_t part = size_min(left, PAYLOAD_BYTES);
        struct frame *frame;
        tutti_status status = frames_reclaim(t, RECLAIM_TESTS);

        if (status != TUTTI_OK) {
            return status;
        }
        frame = frame_take(t);
        if (frame == NULL) {
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a control message");
        }
        header_put(frame->bytes, left);
        if (part > 0) {
            memcpy(frame->bytes + HEADER_BYTES, from, part);
        }
        status = frame_send(t, frame, to, HEADER_BYTES + part);
        if (status != TUTTI_OK) {
            return status;
        }
        from += part;
        left -= part;
    } while (left > 0);
    return TUTTI_OK;
}

static bool control_flushed(void *state)
{
    struct fabric_transport *t = state;

    return frames_reclaim(t, t->flying_count) == TUTTI_OK && t->flying_count == 0;
}

static void control_wake(void *state, int rank)
{
    const struct fabric_transport *t = state;
    struct doorbell *bell = t->bell_of == NULL ? NULL : t->bell_of(t->bell_user, rank);

    if (bell != NULL) {
        doorbell_ring(bell);
    }
}

static void control_listen(void *state, struct doorbell *bell)
{
    const struct fabric_transport *t = state;

    t->fabric->ops->listen(t->fabric->state, bell);
}

static bool control_arm(void *state)
{
    const struct fabric_transport *t = state;

    return t->fabric->ops->arm(t->fabric->state);
}

static tutti_status ring_post(struct fabric_transport *t, int index)
{
    const struct fabric *fabric = t->fabric;

    return fabric->ops->receive(fabric->state, FABRIC_CONTROL, FABRIC_ANY, CONTROL_TAG,
            t->ring->bytes[index], FRAME_BYTES, t->ring->requests, index);
}

static void assembly_end(struct assembly *a)
{
    if (a->here.capacity > ASSEMBLY_KEPT) {
        wire_writer_fini(&a->here);
    }
    wire_writer_reset(&a->here);
    a->total = 0;
}

struct sink {
    transport_deliver deliver;
    void *user;
    bool delivered; /* something reached it in this poll */
};

static void sink_put(struct sink *sink, int from, const uint8_t *bytes, size_t len)
{
    sink->delivered = true;
    sink->deliver(sink->user, from, bytes, len);
}

static bool is_from(const void *value, const void *from)
{
    return ((const struct assembly *)value)->from == *(const int *)from;
}

/* What is here of a sender's long message; NULL: nothing. */
static struct assembly *assembly_find(const struct fabric_transport *t, int from)
{
    return t->assemblies.count == 0
            ? NULL
            : map_find(&t->assemblies, hash_u64(0, (uint64_t)from), is_from, &from);
}

/* Room for a message of a sender; NULL: no memory. */
static struct assembly *assembly_begin(
        struct fabric_transport *t, int from, size_t bytes)
{
    struct assembly *a = assembly_find(t, from);

    if (a == NULL) {
        a = mem_calloc(1, sizeof *a);
        if (a == NULL || !map_insert(&t->assemblies, hash_u64(0, (uint64_t)from), a)) {
            mem_free(a);
            return NULL;
        }
        a->from = from;
    }
    if (!wire_writer_reserve(&a->here, bytes)) {
        wire_writer_reset(&a->here);
        return NULL;
    }
    a->total = bytes;
    return a;
}

/* Takes one frame of `from`; delivers the message that it completes. */
static tutti_status take_frame(struct fabric_transport *t, int from,
        const uint8_t *bytes, size_t len, struct sink *sink)
{
    struct assembly *a = assembly_find(t, from);
    const bool is_first = a == NULL || a->total == 0;
    size_t part = len - HEADER_BYTES;
    size_t left = len < HEADER_BYTES ? 0 : header_get(bytes);
    size_t expected = is_first ? left : a->total - a->here.len;

    if (len < HEADER_BYTES || left != expected || left > MESSAGE_MAX || part > left ||
            (part < left && part != PAYLOAD_BYTES)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank %d sent a control frame of %zu bytes that says %zu are left of "
                "%zu",
                from, len, left, expected);
    }
    if (is_first && part == left) {
        sink_put(sink, from, bytes + HEADER_BYTES, part);
        return TUTTI_OK;
    }
    a = is_first ? assembly_begin(t, from, left) : a;
    if (a == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "no memory for a control message of %zu bytes", left);
    }
    wire_put_bytes(&a->here, bytes + HEADER_BYTES, part);
    if (a->here.len == a->total) {
        sink_put(sink, from, a->here.data, a->total);
        assembly_end(a);
    }
    return TUTTI_OK;
}

static tutti_status control_poll(void *state, transport_deliver deliver, void *user)
{
    struct fabric_transport *t = state;
    const struct fabric *fabric = t->fabric;
    struct sink sink = { .deliver = deliver, .user = user };
    tutti_status status = frames_reclaim(t, RECLAIM_TESTS);

    while (status == TUTTI_OK) {
        struct fabric_arrival arrival;

        status = fabric->ops->test(fabric->state, t->ring->requests, t->head, &arrival);
        if (status == TUTTI_AGAIN) {
            return sink.delivered ? TUTTI_OK : TUTTI_AGAIN;
        }
        if (status == TUTTI_OK) {
            status = take_frame(
                    t, arrival.from, t->ring->bytes[t->head], arrival.bytes, &sink);
        }
        if (status == TUTTI_OK) {
            status = ring_post(t, t->head);
            t->head = (t->head + 1) % RING_SLOTS;
        }
    }
    return status;
}

/* True when the fabric has let go of the ring's memory. */
static bool ring_cancel(struct fabric_transport *t)
{
    const struct fabric *fabric = t->fabric;
    void *requests = t->ring->requests;
    int done[RING_SLOTS];
    int count;

    fabric->ops->cancel(fabric->state, requests, RING_SLOTS);
    for (int tries = 0;
            tries < CANCEL_POLLS && !fabric->ops->are_free(requests, RING_SLOTS);
            tries++) {
        (void)!fabric->ops->poll(
                fabric->state, requests, RING_SLOTS, RING_SLOTS, done, &count);
    }
    return fabric->ops->let_go(fabric->state, requests, RING_SLOTS);
}

static void assemblies_free(struct fabric_transport *t)
{
    size_t position = 0;
    struct assembly *a;

    while ((a = map_next(&t->assemblies, &position)) != NULL) {
        wire_writer_fini(&a->here);
        mem_free(a);
    }
    map_fini(&t->assemblies);
}

/*
 * Nothing here waits for a peer: in a failed context it may be gone. Memory that the
 * fabric may still touch (a receive that matched a lost sender, a frame never taken) is left
 * to it; after an orderly end there is none.
 */
static void control_close(void *state)
{
    struct fabric_transport *t = state;
    const struct fabric *fabric = t->fabric;

    if (ring_cancel(t)) {
        mem_free(t->ring);
    }
    (void)frames_reclaim(t, t->flying_count);
    for (size_t i = 0; i < t->flying_count; i++) {
        (void)fabric->ops->let_go(fabric->state, t->flying[i]->request, 1);
    }
    mem_free(t->flying);
    while (t->free != NULL) {
        struct frame *frame = t->free;

        t->free = frame->next;
        mem_free(frame);
    }
    assemblies_free(t);
    mem_free(t);
}

static const struct transport_ops transport_fabric_ops = {
    .name = "fabric",
    .wakes = false,
    .send = control_send,
    .poll = control_poll,
    .flushed = control_flushed,
    .wake = control_wake,
    .close = control_close,
};

/* Over a fabric whose messages ring. */
static const struct transport_ops transport_ringing_ops = {
    .name = "fabric",
    .wakes = true,
    .send = control_send,
    .poll = control_poll,
    .flushed = control_flushed,
    .wake = control_wake,
    .listen = control_listen,
    .arm = control_arm,
    .close = control_close,
};

static struct fabric_transport *transport_create(const struct fabric *fabric)
{
    struct fabric_transport *t = mem_calloc(1, sizeof *t);

    if (t == NULL) {
        return NULL;
    }
    t->fabric = fabric;
    t->ring = mem_alloc(sizeof *t->ring + RING_SLOTS * fabric->ops->request_bytes);
    if (t->ring == NULL) {
        mem_free(t);
        return NULL;
    }
    fabric->ops->clear(t->ring->requests, RING_SLOTS);
    return t;
}

tutti_status transport_fabric_open(
        const struct fabric *fabric, struct transport *transport)
{
    struct fabric_transport *t = transport_create(fabric);
    tutti_status status = TUTTI_OK;

    if (t == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the control transport");
    }
    for (int i = 0; i < RING_SLOTS && status == TUTTI_OK; i++) {
        status = ring_post(t, i);
    }
    if (status != TUTTI_OK) {
        control_close(t);
        return status;
    }
    *transport = (struct transport){ .ops = fabric->ops->listen == NULL
                ? &transport_fabric_ops
                : &transport_ringing_ops,
        .state = t,
        .rank = fabric->rank,
        .size = fabric->size };
    return TUTTI_OK;
}

void transport_fabric_bells(
        struct transport *transport, transport_bell_of bell_of, const void *user)
{
    struct fabric_transport *t = transport->state;

    t->bell_of = bell_of;
    t->bell_user = user;
}
