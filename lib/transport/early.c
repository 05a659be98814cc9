/*
 * A transport in front of another one: its first poll delivers what was put here, all
 * else passes through. It stays in place when it is empty: the engine has copied it.
 */
#include "transport/early.h"

#include "base/error.h"
#include "base/mem.h"
#include "transport/mail.h"

struct early {
    struct transport inner; /* the transport behind; owned */
    struct transport_ops ops; /* name and wakes of the inner one */
    struct wire_writer mail; /* undelivered messages; owned */
};

static tutti_status early_send(void *state, int to, const void *bytes, size_t len)
{
    const struct early *early = state;

    return early->inner.ops->send(early->inner.state, to, bytes, len);
}

static tutti_status early_poll(void *state, transport_deliver deliver, void *user)
{
    struct early *early = state;

    if (early->mail.len == 0) {
        return early->inner.ops->poll(early->inner.state, deliver, user);
    }
    mail_deliver(&early->mail, deliver, user);
    wire_writer_fini(&early->mail);
    return TUTTI_OK;
}

static bool early_flushed(void *state)
{
    const struct early *early = state;

    return early->inner.ops->flushed(early->inner.state);
}

static void early_wake(void *state, int rank)
{
    const struct early *early = state;

    early->inner.ops->wake(early->inner.state, rank);
}

static void early_close(void *state)
{
    struct early *early = state;

    early->inner.ops->close(early->inner.state);
    wire_writer_fini(&early->mail);
    mem_free(early);
}

tutti_status transport_early_put(struct transport *transport, struct wire_writer *mail)
{
    struct early *early;

    if (mail->len == 0) {
        return TUTTI_OK;
    }
    early = mem_calloc(1, sizeof *early);
    if (early == NULL) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "out of memory for messages that came early");
    }
    early->inner = *transport;
    early->mail = *mail;
    /* Not one constant table: name and wakes are those of the inner transport. */
    early->ops = (struct transport_ops){
        .name = transport->ops->name,
        .wakes = transport->ops->wakes,
        .send = early_send,
        .poll = early_poll,
        .flushed = early_flushed,
        .wake = early_wake,
        .close = early_close,
    };
    transport->ops = &early->ops;
    transport->state = early;
    *mail = (struct wire_writer){ .data = NULL };
    return TUTTI_OK;
}
