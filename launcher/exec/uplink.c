#include "launcher/exec/uplink.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "launcher/session/link.h"
#include "launcher/session/sockets.h"

enum {
    HOST_BYTES = 256,
    REFUSAL_MAX = 200 /* bytes of what a stranger says that are shown */
};

static const int64_t millisecond = 1000000;
static const int64_t again_ns = 20000000;
/*
 * More time for the WELCOME: from HELLO on tuttirun counts on us, and giving up would end the job, although
 * it may only be busy with thousands of others.
 */
static const int64_t welcome_ns = 20000000000;

static tutti_status fail_to_reach(const struct link_address *address, int reason)
{
    char list[LINK_JOIN_MAX] = "";

    for (size_t i = 0; i < address->count; i++) {
        text_append(
                list, sizeof list, "%s%s", i == 0 ? "" : ", ", address->addresses[i]);
    }
    errno = reason;
    return error_set_errno(TUTTI_ERR_SYSTEM,
            "cannot reach tuttirun at %s, port %d (choose a network that all hosts "
            "share with --nic)",
            list, address->port);
}

static tutti_status reach(
        const struct link_address *address, int64_t deadline, struct session *session)
{
    struct connect_addresses addresses = { .count = 0 };
    char port[16];

    (void)snprintf(port, sizeof port, "%d", address->port);
    errno = EADDRNOTAVAIL;
    for (size_t i = 0; i < address->count; i++) {
        (void)connect_add(&addresses, address->addresses[i], port,
                AI_NUMERICHOST | AI_NUMERICSERV);
    }
    *session = session_of(
            connect_any(&addresses, deadline), address->token, LINK_TOKEN_BYTES);
    return session_is_lost(session) ? fail_to_reach(address, errno) : TUTTI_OK;
}

static void put_hello(struct wire_writer *out, const struct rank_place *rank)
{
    char host[HOST_BYTES] = "";
    struct link_message message = {
        .type = LINK_HELLO,
        .hello = { .rank = rank->rank,
                .size = rank->size,
                .local_rank = rank->local_rank,
                .local_size = rank->local_size,
                .pid = (uint64_t)getpid() },
    };

    (void)gethostname(host, sizeof host - 1);
    message.hello.host = link_text_of(host);
    link_put_body(out, &message);
}

static bool copy_text(char *to, size_t capacity, struct link_text text)
{
    return snprintf(to, capacity, "%.*s", (int)text.len, text.text) < (int)capacity;
}

static tutti_status take_orders(const struct frame *frame, struct orders *orders)
{
    struct link_message message;
    const struct link_welcome *welcome = &message.welcome;
    struct wire_reader in;

    wire_reader_init(&in, frame->body, frame->len);
    if (!link_get_body(&in, LINK_WELCOME, &message)) {
        return error_set(TUTTI_ERR_PROTOCOL, "what tuttirun wants is malformed");
    }
    *orders = (struct orders){
        .beat_ns = (int64_t)welcome->beat_ms * millisecond,
        .silent_ns = (int64_t)welcome->silent_ms * millisecond,
        .kill_ms = welcome->kill_ms,
        .output_rate = welcome->output_rate,
        .forward = { welcome->forward[0], welcome->forward[1] },
        .generation = welcome->generation,
        .keeper_port = (uint16_t)welcome->keeper_port,
        .tells = welcome->tells,
        .waits = welcome->waits,
        .metrics = { .port = (int)welcome->metrics_port,
                .interval_ns = (int64_t)welcome->metrics_ms * millisecond },
    };
    if (!copy_text(orders->job, sizeof orders->job, welcome->job) ||
            !copy_text(orders->log_folder, sizeof orders->log_folder,
                    welcome->log_folder) ||
            !copy_text(orders->metrics.address, sizeof orders->metrics.address,
                    welcome->metrics_address) ||
            !copy_text(orders->metrics.file, sizeof orders->metrics.file,
                    welcome->metrics_file)) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "the job's name or the path of its logs is too long");
    }
    return TUTTI_OK;
}

/* Nobody knows yet who says so: only what does a terminal no harm is shown. */
static tutti_status explain_refusal(const struct frame *refusal)
{
    char why[REFUSAL_MAX];

    (void)snprintf(
            why, sizeof why, "%.*s", (int)refusal->len, (const char *)refusal->body);
    for (char *c = why; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            *c = '?';
        }
    }
    return error_set(TUTTI_ERR_INVALID, "this host is refused: %s", why);
}

static tutti_status explain(enum meet_outcome outcome, const struct frame *frame)
{
    static const char *const what[] = {
        [MEET_CLOSED] = "tuttirun has closed the connection",
        [MEET_SILENT] = "tuttirun accepts a connection but says nothing",
        [MEET_OTHER] = "tuttirun says something else than was expected",
    };

    switch (outcome) {
    case MEET_UNPROVEN:
        return error_set(TUTTI_ERR_PROTOCOL,
                "what answers at the address of tuttirun does not know the secret of "
                "the job");
    case MEET_FAILED:
        return TUTTI_ERR_SYSTEM;
    case MEET_REFUSED:
        return explain_refusal(frame);
    case MEET_CLOSED:
    case MEET_SILENT:
    case MEET_OTHER:
        return error_set(outcome == MEET_SILENT ? TUTTI_ERR_SYSTEM : TUTTI_ERR_PROTOCOL,
                "%s: is the same version of tutti installed on all hosts? (here %s)",
                what[outcome], tutti_version());
    case MEET_OK:
        break;
    }
    return TUTTI_OK;
}

enum meet_outcome handshake_meet(const struct link_address *address,
        const struct handshake_offer *offer, int64_t deadline, struct session *session,
        struct frame *frame)
{
    enum meet_outcome outcome;

    *session = (struct session){ .fd = -1 };
    do {
        session_fini(session);
        if (reach(address, deadline, session) != TUTTI_OK) {
            return MEET_FAILED;
        }
        outcome = meet_wait(session, deadline);
        if (outcome == MEET_OK) {
            outcome = meet_join(session, offer->protocol, offer->hello, offer->len,
                    deadline + welcome_ns, frame);
        }
        clock_sleep_ns(outcome == MEET_CLOSED ? again_ns : 0);
    } while (outcome == MEET_CLOSED && clock_ns() < deadline);
    return outcome;
}

tutti_status handshake(const struct link_address *address,
        const struct rank_place *rank, int64_t deadline, struct session *session,
        struct orders *orders)
{
    struct wire_writer hello = { .data = NULL };
    struct handshake_offer offer = { .protocol = &link_protocol };
    enum meet_outcome outcome;
    struct frame frame = { .len = 0 };

    *session = (struct session){ .fd = -1 };
    put_hello(&hello, rank);
    offer.hello = hello.data;
    offer.len = hello.len;
    outcome = hello.failed ? MEET_CLOSED
                           : handshake_meet(address, &offer, deadline, session, &frame);
    wire_writer_fini(&hello);
    return outcome == MEET_OK ? take_orders(&frame, orders) : explain(outcome, &frame);
}

static const int64_t patience_ns = 10000000000;

const struct uplink uplink_none = { .session.fd = -1, .beat_due = INT64_MAX };

tutti_status uplink_join(
        struct uplink *uplink, const char *join, const struct rank_place *rank)
{
    tutti_status status;

    *uplink = uplink_none;
    uplink->rank = *rank;
    status = link_address_parse(&uplink->address, join);
    if (status != TUTTI_OK) {
        return status;
    }
    status = handshake(&uplink->address, rank, clock_ns() + patience_ns,
            &uplink->session, &uplink->orders);
    uplink->session.exchange.secret = NULL; /* it was borrowed */
    return status;
}

bool uplink_is_full(const struct uplink *uplink)
{
    return session_waiting(&uplink->session) > SESSION_FULL;
}

void uplink_lose(struct uplink *uplink)
{
    session_lose(&uplink->session);
    uplink->beat_due = INT64_MAX;
}

void uplink_fini(struct uplink *uplink)
{
    session_fini(&uplink->session);
}

/* Returns false where tuttirun sends what it should not. */
static bool take(struct uplink *uplink, const struct frame *frame, int64_t now)
{
    struct link_message message;

    if (link_read(frame, &message) != TUTTI_OK) {
        return false;
    }
    if (message.type == LINK_BEAT) {
        uplink->heard = now;
        uplink->echo = message.beat.sent;
    }
    uplink->obey(uplink->owner, &message, now);
    return true;
}

/* Called by the loop. */
static void receive(void *context, unsigned ready)
{
    struct uplink *uplink = context;
    const int64_t now = clock_ns();
    struct frame frame;
    bool lives;
    int got;

    if ((ready & ~(unsigned)EPOLLOUT) == 0) {
        return; /* uplink_step() sends */
    }
    lives = session_receive(&uplink->session);
    while ((got = session_next(&uplink->session, &frame)) > 0) {
        if (!take(uplink, &frame, now)) {
            got = -1;
            break;
        }
    }
    if (!lives || got < 0) {
        uplink_lose(uplink);
    }
}

void uplink_begin(struct uplink *uplink, struct loop *loop, int64_t now)
{
    uplink->heard = now;
    uplink->beat_due = now;
    if (!session_attach(&uplink->session, loop, receive, uplink)) {
        uplink_lose(uplink);
        return;
    }
    /* What came right after the welcome has been received with it. */
    receive(uplink, EPOLLIN);
}

static void beat(struct uplink *uplink, int64_t now, uint8_t state)
{
    const struct link_message message = {
        .type = LINK_BEAT,
        .beat = { .sent = (uint64_t)now,
                .echo = uplink->echo,
                .held = uplink->echo != 0 ? (uint64_t)(now - uplink->heard) : 0,
                .state = state },
    };

    link_put(uplink_out(uplink), &message);
    uplink->beat_due = now + uplink->orders.beat_ns;
}

void uplink_step(
        struct uplink *uplink, int64_t now, uint8_t (*state)(const void *owner))
{
    if (uplink_is_lost(uplink)) {
        uplink_lose(uplink); /* forgets what was put since */
        return;
    }
    if (now >= uplink->beat_due) {
        beat(uplink, now, state(uplink->owner));
    }
    if (!session_send(&uplink->session)) {
        uplink_lose(uplink);
    }
}
