/*
 * How ranks tell each other what they need before the engine starts: along a binomial tree,
 * in which the ranks at or below one are a run. What ranks say is merged on its way up to
 * the first, which tells all of them what came of it. A rank has at most log2(ranks)
 * children, with each of which it exchanges two messages.
 *
 *   0 --+-- 1
 *       +-- 2 ---- 3
 *       +-- 4 --+-- 5
 *               +-- 6 ---- 7
 *
 * No message of a later phase is lost. A rank that is done may go on, and send to a rank
 * that still waits here, and no exchange of messages can rule that out: of two ranks one
 * always leaves first. But each rank knows exactly what it waits for, one message from each
 * child and then one from its parent, and links keep their order, so whatever else arrives
 * is for later: for the next meeting, which looks at it first, or for transport_poll().
 *
 * A rank leaves when its own messages have left its memory, so that nobody depends on
 * its polling while the application does something else. A rank that fails says so to its
 * parent and its children instead of what they wait for, and they pass it on, so that all
 * fail instead of waiting.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/wire.h"
#include "transport/mail.h"
#include "transport/transport.h"

enum {
    NAP_MAX_NS = 1000000,
    CHILDREN_MAX = 31
};

/* The first byte of a message. */
enum {
    SAYS_FAILED,
    SAYS_THIS
};

/* A rank that a message is awaited from. */
struct peer {
    int rank;
    bool is_awaited;
    struct wire_writer said; /* its message, first byte included; owned */
};

/* One rank's part in a meeting. */
struct meeting {
    struct transport *transport; /* its early mail grows */
    struct peer children[CHILDREN_MAX]; /* ascending */
    int child_count;
    struct peer parent; /* rank -1: none */
    bool no_memory; /* a message could not be kept */
};

static int rank_at(const struct transport_group *group, int place)
{
    return group->ranks == NULL ? place : group->ranks[place];
}

/* The tree by places in the group: the lowest bit that is set is how far the parent is. */
static void find_peers(struct meeting *meeting, const struct transport_group *group)
{
    const int me = group->me;

    meeting->parent.rank = me == 0 ? -1 : rank_at(group, me & (me - 1));
    for (int step = 1; step < group->size - me && (me & step) == 0; step *= 2) {
        meeting->children[meeting->child_count++].rank = rank_at(group, me + step);
    }
}

static struct peer *find_awaited(struct meeting *meeting, int from)
{
    for (int c = 0; c < meeting->child_count; c++) {
        struct peer *child = &meeting->children[c];

        if (child->rank == from && child->is_awaited) {
            return child;
        }
    }
    return meeting->parent.rank == from && meeting->parent.is_awaited ? &meeting->parent
                                                                      : NULL;
}

static void meeting_deliver(void *user, int from, const void *bytes, size_t len)
{
    struct meeting *meeting = user;
    struct peer *peer = find_awaited(meeting, from);
    bool kept;

    if (peer == NULL) {
        kept = mail_put(&meeting->transport->early, from, bytes, len);
    } else {
        peer->is_awaited = false;
        wire_put_bytes(&peer->said, bytes, len);
        kept = !peer->said.failed;
    }
    meeting->no_memory = meeting->no_memory || !kept;
}

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the data of all ranks");
}

/* Longer each time: others may need this core. */
static int64_t nap_length(int64_t waited_ns)
{
    return waited_ns / 4 < NAP_MAX_NS ? waited_ns / 4 : NAP_MAX_NS;
}

static bool has_heard_children(const struct meeting *meeting)
{
    for (int c = 0; c < meeting->child_count; c++) {
        if (meeting->children[c].is_awaited) {
            return false;
        }
    }
    return true;
}

static bool has_heard_parent(const struct meeting *meeting)
{
    return !meeting->parent.is_awaited;
}

/* Polls until the awaited messages are here and our own are gone. */
static tutti_status meeting_wait(
        struct meeting *meeting, bool (*is_complete)(const struct meeting *meeting))
{
    const struct transport *transport = meeting->transport;
    const int64_t since = clock_ns();

    while (!is_complete(meeting) || !transport->ops->flushed(transport->state)) {
        tutti_status status =
                transport->ops->poll(transport->state, meeting_deliver, meeting);

        if (meeting->no_memory) {
            return no_memory();
        }
        if (status == TUTTI_AGAIN) {
            clock_pause(since, nap_length(clock_ns() - since));
        } else if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* Looks at what came while this rank waited for something else. */
static tutti_status look_at_early(struct meeting *meeting)
{
    struct wire_writer early = meeting->transport->early;

    meeting->transport->early = (struct wire_writer){ .data = NULL };
    mail_deliver(&early, meeting_deliver, meeting);
    wire_writer_fini(&early);
    return meeting->no_memory ? no_memory() : TUTTI_OK;
}

/* ----------------------------------------------------------------------- a meeting */

static tutti_status heard_of_failure(const struct peer *peer)
{
    return error_set(TUTTI_ERR_PROTOCOL,
            "rank %d could not gather the data of all ranks; the message of the rank "
            "that failed says why",
            peer->rank);
}

static bool has_failed(const struct peer *peer)
{
    return peer->said.len == 0 || peer->said.data[0] != SAYS_THIS;
}

static void say_failed(const struct transport *transport, int rank)
{
    const uint8_t failed = SAYS_FAILED;

    (void)transport->ops->send(transport->state, rank, &failed, 1);
}

/* Merges what comes from below. */
static tutti_status hear_children(
        struct meeting *meeting, const struct transport_merge *merge)
{
    tutti_status status;

    for (int c = 0; c < meeting->child_count; c++) {
        meeting->children[c].is_awaited = true;
    }
    /* If it fails, it says so at any time. */
    meeting->parent.is_awaited = meeting->parent.rank >= 0;
    status = look_at_early(meeting);
    if (status == TUTTI_OK) {
        status = meeting_wait(meeting, has_heard_children);
    }
    for (int c = 0; c < meeting->child_count && status == TUTTI_OK; c++) {
        struct peer *child = &meeting->children[c];

        status = has_failed(child)
                ? heard_of_failure(child)
                : merge->take(merge->user, child->said.data + 1, child->said.len - 1);
        wire_writer_fini(&child->said);
    }
    return status;
}

/* What this rank and those below it say, which for the first is what all say. */
static tutti_status write_said(
        const struct transport_merge *merge, bool is_all, struct wire_writer *out)
{
    tutti_status status;

    wire_writer_reset(out);
    wire_put_u8(out, SAYS_THIS);
    status = merge->put(merge->user, is_all, out);
    return status == TUTTI_OK && out->failed ? no_memory() : status;
}

/* Tells the parent, and waits for what came of it. */
static tutti_status ask_parent(struct meeting *meeting, struct wire_writer *said)
{
    const struct transport *transport = meeting->transport;
    struct peer *parent = &meeting->parent;
    tutti_status status =
            transport->ops->send(transport->state, parent->rank, said->data, said->len);

    wire_writer_fini(said);
    if (status != TUTTI_OK) {
        say_failed(transport, parent->rank);
        return status;
    }
    status = meeting_wait(meeting, has_heard_parent);
    if (status == TUTTI_OK && has_failed(parent)) {
        status = heard_of_failure(parent);
    }
    if (status == TUTTI_OK) {
        *said = parent->said;
        parent->said = (struct wire_writer){ .data = NULL };
    }
    return status;
}

/* The largest part of the tree first. @return the first error; who cannot be told hears that */
static tutti_status tell_children(
        const struct meeting *meeting, const struct wire_writer *result)
{
    const struct transport *transport = meeting->transport;
    tutti_status first = TUTTI_OK;

    for (int c = meeting->child_count - 1; c >= 0; c--) {
        const int rank = meeting->children[c].rank;
        const tutti_status status =
                transport->ops->send(transport->state, rank, result->data, result->len);

        if (status != TUTTI_OK) {
            say_failed(transport, rank);
        }
        first = first == TUTTI_OK ? status : first;
    }
    return first;
}

/* Lets nobody wait for this rank. The error stays the last one. */
static tutti_status fail(
        const struct meeting *meeting, bool tells_parent, tutti_status status)
{
    struct error error;

    error_fill(&error, status, meeting->transport->rank, "%s", tutti_last_error());
    if (tells_parent) {
        say_failed(meeting->transport, meeting->parent.rank);
    }
    for (int c = 0; c < meeting->child_count; c++) {
        say_failed(meeting->transport, meeting->children[c].rank);
    }
    return error_raise(&error);
}

static tutti_status meet(struct meeting *meeting, tutti_status status,
        const struct transport_merge *merge, struct wire_writer *said)
{
    const bool is_first = meeting->parent.rank < 0;
    bool has_told = false; /* the parent */

    if (status == TUTTI_OK) {
        status = hear_children(meeting, merge);
    }
    if (status == TUTTI_OK) {
        status = write_said(merge, is_first, said);
    }
    if (status == TUTTI_OK && !is_first) {
        has_told = true;
        status = ask_parent(meeting, said);
    }
    if (status == TUTTI_OK) {
        status = tell_children(meeting, said);
        return status == TUTTI_OK ? meeting_wait(meeting, has_heard_parent) : status;
    }
    return fail(meeting, !is_first && !has_told, status);
}

tutti_status transport_meet(struct transport *transport,
        const struct transport_group *group, tutti_status mine,
        const struct transport_merge *merge, struct wire_writer *result)
{
    const struct transport_group all = { .size = transport->size,
        .me = transport->rank };
    struct meeting meeting = { .transport = transport };
    struct wire_writer said = { .data = NULL };
    tutti_status status;

    find_peers(&meeting, group == NULL ? &all : group);
    status = meet(&meeting, mine, merge, &said);
    if (status == TUTTI_OK && said.len > 0) {
        said.len--;
        memmove(said.data, said.data + 1, said.len);
        *result = said;
    } else {
        wire_writer_fini(&said);
    }
    wire_writer_fini(&meeting.parent.said);
    for (int c = 0; c < meeting.child_count; c++) {
        wire_writer_fini(&meeting.children[c].said);
    }
    return status;
}

/* ---------------------------------------------------------------- mail of all ranks */

static tutti_status mail_take(void *user, const uint8_t *bytes, size_t len)
{
    struct wire_writer *mail = user;

    wire_put_bytes(mail, bytes, len);
    return mail->failed ? no_memory() : TUTTI_OK;
}

static tutti_status mail_hand_on(void *user, bool is_all, struct wire_writer *out)
{
    const struct wire_writer *mail = user;

    (void)is_all;
    wire_put_bytes(out, mail->data, mail->len);
    return TUTTI_OK;
}

tutti_status transport_collect(struct transport *transport,
        const struct transport_group *group, tutti_status mine,
        const struct wire_writer *block, struct wire_writer *result)
{
    struct wire_writer mail = { .data = NULL };
    const struct transport_merge append = {
        .take = mail_take, .put = mail_hand_on, .user = &mail
    };
    tutti_status status = mine;

    if (status == TUTTI_OK &&
            (block->failed ||
                    (block->len > 0 &&
                            !mail_put(&mail, transport->rank, block->data,
                                    block->len)))) {
        status = no_memory();
    }
    status = transport_meet(transport, group, status, &append, result);
    wire_writer_fini(&mail);
    return status;
}

/* ------------------------------------------------------------ after the start */

tutti_status transport_deliver_early(
        struct transport *transport, transport_deliver deliver, void *user)
{
    mail_deliver(&transport->early, deliver, user);
    wire_writer_fini(&transport->early);
    return TUTTI_OK;
}

void transport_close(struct transport *transport)
{
    transport->ops->close(transport->state);
    wire_writer_fini(&transport->early);
}
