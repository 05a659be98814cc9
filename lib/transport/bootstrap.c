/*
 * The allgather that everything starts with: every rank sends its block to rank 0,
 * which sends all of them to everybody.
 *
 * No message of a later phase is lost. A rank that is done may start its engine and
 * send to a rank that still waits here, and no exchange of messages can rule that out:
 * of two ranks one always leaves first, and what it then sends may overtake the other's
 * last message from rank 0, or come in the same poll. But each rank knows exactly what
 * it waits for, one message from rank 0 (rank 0: one from each other rank), and links
 * keep their order, so whatever else arrives is for later: transport_poll() delivers it
 * first.
 *
 * A rank leaves when its own messages have left its memory, so that nobody depends on
 * its polling while the application does something else. When rank 0 fails it sends an
 * empty message instead of the blocks, so that the others fail too instead of waiting.
 */
#include <sched.h>
#include <string.h>

#include "base/bitset.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/wire.h"
#include "transport/mail.h"
#include "transport/transport.h"

enum {
    YIELDS = 16,
    SLEEP_MIN_NS = 10000,
    SLEEP_MAX_NS = 1000000
};

/* One rank's part in an allgather. */
struct gathering {
    struct transport *transport; /* its early mail grows */
    struct bitset expected; /* ranks whose message is still to come */
    int missing; /* members of expected */
    struct wire_writer blocks; /* mail of all ranks' blocks, complete at the end */
    bool no_memory; /* a message could not be kept */
};

static bool is_expected(const struct gathering *gathering, int from)
{
    if (gathering->transport->rank == 0) {
        return bitset_has(&gathering->expected, from);
    }
    return from == 0 && gathering->missing > 0;
}

static void gathering_deliver(void *user, int from, const void *bytes, size_t len)
{
    struct gathering *gathering = user;
    bool kept;

    if (!is_expected(gathering, from)) {
        kept = mail_put(&gathering->transport->early, from, bytes, len);
    } else if (gathering->transport->rank == 0) {
        bitset_remove(&gathering->expected, from);
        gathering->missing--;
        kept = mail_put(&gathering->blocks, from, bytes, len);
    } else {
        gathering->missing--;
        wire_put_bytes(&gathering->blocks, bytes, len);
        kept = !gathering->blocks.failed;
    }
    gathering->no_memory = gathering->no_memory || !kept;
}

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the data of all ranks");
}

/* Yields first, then sleeps longer each time: others may need this core. */
static void wait_a_little(int64_t *sleep_ns, int *yields)
{
    if (*yields < YIELDS) {
        (*yields)++;
        (void)sched_yield();
        return;
    }
    clock_sleep_ns(*sleep_ns);
    *sleep_ns = *sleep_ns * 2 > SLEEP_MAX_NS ? SLEEP_MAX_NS : *sleep_ns * 2;
}

/* Polls until the expected messages are here and our own are gone. */
static tutti_status gathering_wait(struct gathering *gathering)
{
    const struct transport *transport = gathering->transport;
    int64_t sleep_ns = SLEEP_MIN_NS;
    int yields = 0;

    while (gathering->missing > 0 || !transport->ops->flushed(transport->state)) {
        tutti_status status =
                transport->ops->poll(transport->state, gathering_deliver, gathering);

        if (gathering->no_memory) {
            return no_memory();
        }
        if (status == TUTTI_AGAIN) {
            wait_a_little(&sleep_ns, &yields);
        } else if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

/* Sends all blocks to everybody, or nothing at all to who cannot have them. */
static tutti_status send_to_all(
        const struct transport *transport, const void *blocks, size_t len)
{
    tutti_status first = TUTTI_OK;
    int rank;

    for (rank = 1; rank < transport->size; rank++) {
        tutti_status status = transport->ops->send(transport->state, rank, blocks, len);

        if (status != TUTTI_OK && first == TUTTI_OK) {
            first = status;
        }
        if (status != TUTTI_OK) {
            (void)transport->ops->send(transport->state, rank, "", 0);
        }
    }
    return first;
}

/* Takes the blocks of all other ranks. */
static tutti_status collect_blocks(
        struct gathering *gathering, const void *mine, size_t len)
{
    int rank;

    if (!bitset_init(&gathering->expected, gathering->transport->size) ||
            !mail_put(&gathering->blocks, 0, mine, len)) {
        return no_memory();
    }
    for (rank = 1; rank < gathering->transport->size; rank++) {
        bitset_add(&gathering->expected, rank);
    }
    gathering->missing = gathering->transport->size - 1;
    return gathering_wait(gathering);
}

static tutti_status gather_as_root(
        struct gathering *gathering, const void *mine, size_t len)
{
    const struct wire_writer *blocks = &gathering->blocks;
    tutti_status status = collect_blocks(gathering, mine, len);

    if (status != TUTTI_OK) {
        (void)send_to_all(gathering->transport, "", 0);
        return status;
    }
    status = send_to_all(gathering->transport, blocks->data, blocks->len);
    return status == TUTTI_OK ? gathering_wait(gathering) : status;
}

/*
 * Sends first: whatever fails here later, rank 0 does not wait for this rank. Nor when its
 * block cannot be sent.
 */
static tutti_status gather_as_leaf(
        struct gathering *gathering, const void *mine, size_t len)
{
    const struct transport *transport = gathering->transport;
    tutti_status status = transport->ops->send(transport->state, 0, mine, len);

    if (status != TUTTI_OK) {
        (void)transport->ops->send(transport->state, 0, "", 0);
        return status;
    }
    gathering->missing = 1;
    status = gathering_wait(gathering);
    if (status == TUTTI_OK && gathering->blocks.len == 0) {
        return error_set(TUTTI_ERR_PROTOCOL,
                "rank 0 could not gather the data of all ranks; its own message says "
                "why");
    }
    return status;
}

/* Copies the blocks into one allocation: pointers, lengths, bytes. */
static tutti_status blocks_unpack(const struct wire_writer *mail, int size,
        const uint8_t ***blocks, size_t **lengths)
{
    size_t ranks = (size_t)size;
    size_t table = ranks * (sizeof **blocks + sizeof **lengths);
    const uint8_t **pointers = mem_calloc(1, table + mail->len);
    struct wire_reader in;
    size_t *lens;
    uint8_t *bytes;
    size_t i;

    if (pointers == NULL) {
        return no_memory();
    }
    lens = (size_t *)(void *)(pointers + ranks);
    bytes = (uint8_t *)(void *)(lens + ranks);
    memcpy(bytes, mail->data, mail->len);
    wire_reader_init(&in, bytes, mail->len);
    for (i = 0; i < ranks; i++) {
        uint64_t rank = wire_get_varint(&in);
        size_t len;
        const char *block = wire_get_str(&in, SIZE_MAX, &len);

        if (!wire_ok(&in) || rank >= ranks || pointers[rank] != NULL) {
            mem_free(pointers);
            return error_set(TUTTI_ERR_PROTOCOL,
                    "rank 0 sent malformed data of all ranks (%zu bytes)", mail->len);
        }
        pointers[rank] = (const uint8_t *)block;
        lens[rank] = len;
    }
    *blocks = pointers;
    *lengths = lens;
    return TUTTI_OK;
}

tutti_status transport_allgather(struct transport *transport, const void *mine,
        size_t len, const uint8_t ***blocks, size_t **lengths)
{
    struct gathering gathering = { .transport = transport };
    tutti_status status = transport->rank == 0 ? gather_as_root(&gathering, mine, len)
                                               : gather_as_leaf(&gathering, mine, len);

    if (status == TUTTI_OK) {
        status = blocks_unpack(&gathering.blocks, transport->size, blocks, lengths);
    }
    wire_writer_fini(&gathering.blocks);
    bitset_fini(&gathering.expected);
    return status;
}

/* ------------------------------------------------------------ after the start */

tutti_status transport_poll(
        struct transport *transport, transport_deliver deliver, void *user)
{
    if (transport->early.len == 0) {
        return transport->ops->poll(transport->state, deliver, user);
    }
    mail_deliver(&transport->early, deliver, user);
    wire_writer_fini(&transport->early);
    return TUTTI_OK;
}

void transport_close(struct transport *transport)
{
    transport->ops->close(transport->state);
    wire_writer_fini(&transport->early);
}
