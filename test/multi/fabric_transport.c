/*
 * The control transport over MPI and the life cycle of MPI, between real processes.
 */
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "fabric/mpi/mpi_job.h"
#include "meet.h"
#include "transport/fabric.h"

/* Longest message of the tests. */
#define LONGEST ((size_t)5 << 20)

/* Byte i of message m from one rank to another; distinct in every argument. */
static uint8_t expected_byte(int from, int to, int message, size_t i)
{
    size_t mix = i * 31 + (size_t)from * 7919 + (size_t)to * 104729 +
            (size_t)message * 1299709;

    return (uint8_t)(mix ^ (mix >> 8) ^ (mix >> 16));
}

/* Lengths around the frame size and beyond it, in an order that mixes them. */
static const size_t lengths[] = { 0, 1, LONGEST, 7, 4027, 4028, 4029, 0, 8056, 8057,
    100000, 3, 1 << 20, 4032, 2, 12085 };
#define LENGTHS ((int)(sizeof lengths / sizeof *lengths))

/* What a rank expects next from each other. */
struct inbox {
    int rank;
    int size;
    int *next; /* [size] messages taken */
    int total;
};

static void take_expected(void *user, int from, const void *bytes, size_t len)
{
    struct inbox *inbox = user;
    const uint8_t *data = bytes;
    int message = inbox->next[from];

    CHECK(from >= 0 && from < inbox->size && from != inbox->rank);
    CHECK_SAYS(message < LENGTHS, "message %d from rank %d", message, from);
    CHECK_SAYS(len == lengths[message], "%zu bytes in message %d of rank %d", len,
            message, from);
    for (size_t i = 0; i < len; i++) {
        CHECK_SAYS(data[i] == expected_byte(from, inbox->rank, message, i),
                "byte %zu of message %d of rank %d", i, message, from);
    }
    inbox->next[from]++;
    inbox->total++;
}

static void poll_once(
        const struct transport *transport, transport_deliver deliver, void *user)
{
    tutti_status status = transport->ops->poll(transport->state, deliver, user);

    CHECK(status == TUTTI_OK || status == TUTTI_AGAIN);
    if (status == TUTTI_AGAIN) {
        (void)sched_yield();
    }
}

/* Ends a test: what this rank sent is gone, and no rank is in the next test yet. */
static void settle(const struct transport *transport)
{
    while (!transport->ops->flushed(transport->state)) {
        (void)sched_yield();
    }
    meet(MPI_COMM_WORLD);
}

static void send_numbered(
        const struct transport *transport, int to, int message, uint8_t *buffer)
{
    size_t len = lengths[message];

    for (size_t i = 0; i < len; i++) {
        buffer[i] = expected_byte(transport->rank, to, message, i);
    }
    CHECK(transport->ops->send(transport->state, to, buffer, len) == TUTTI_OK);
    memset(buffer, 0xee, len);
}

/* Every rank sends every message to every other, then takes them all. */
static void test_all_pairs_keep_order_and_content(const struct transport *transport)
{
    struct inbox inbox = { .rank = transport->rank, .size = transport->size };
    uint8_t *buffer = mem_alloc(LONGEST);

    inbox.next = mem_calloc((size_t)transport->size, sizeof *inbox.next);
    CHECK(buffer != NULL && inbox.next != NULL);
    for (int m = 0; m < LENGTHS; m++) {
        for (int i = 1; i < transport->size; i++) {
            send_numbered(
                    transport, (transport->rank + i) % transport->size, m, buffer);
        }
        poll_once(transport, take_expected, &inbox);
    }
    while (inbox.total < LENGTHS * (transport->size - 1)) {
        poll_once(transport, take_expected, &inbox);
    }
    settle(transport);
    mem_free(inbox.next);
    mem_free(buffer);
}

static void count_message(void *user, int from, const void *bytes, size_t len)
{
    (void)from;
    (void)bytes;
    (void)len;
    (*(int *)user)++;
}

/* One message to the next rank and one from the rank before, per round. */
static void test_steady_state_allocates_nothing(const struct transport *transport)
{
    enum {
        WARM_UP = 200,
        ROUNDS = 1000
    };
    int next = (transport->rank + 1) % transport->size;
    uint8_t text[300] = { 1 };
    uint64_t before = 0;
    int taken = 0;

    if (transport->size == 1) {
        return;
    }
    for (int round = 0; round < WARM_UP + ROUNDS; round++) {
        if (round == WARM_UP) {
            before = mem_alloc_count();
        }
        CHECK(transport->ops->send(transport->state, next, text, sizeof text) ==
                TUTTI_OK);
        while (taken <= round) {
            poll_once(transport, count_message, &taken);
        }
    }
    CHECK_SAYS(mem_alloc_count() == before, "%d allocations in %d rounds",
            (int)(mem_alloc_count() - before), ROUNDS);
    settle(transport);
}

static void test_meetings_bring_every_block(struct transport *transport)
{
    struct wire_writer mine = { 0 };
    struct wire_writer mail = { 0 };
    struct wire_reader in;

    for (size_t i = 0; i < ((size_t)transport->rank + 1) * 3000; i++) {
        wire_put_u8(&mine, expected_byte(transport->rank, 0, 0, i));
    }
    CHECK(transport_collect(transport, NULL, TUTTI_OK, &mine, &mail) == TUTTI_OK);
    wire_reader_init(&in, mail.data, mail.len);
    for (int from = 0; from < transport->size; from++) {
        size_t len = 0;
        const char *bytes;

        CHECK(wire_get_varint(&in) == (uint64_t)from);
        bytes = wire_get_str(&in, SIZE_MAX, &len);
        CHECK(len == ((size_t)from + 1) * 3000);
        for (size_t i = 0; i < len; i++) {
            CHECK((uint8_t)bytes[i] == expected_byte(from, 0, 0, i));
        }
    }
    wire_writer_fini(&mail);
    wire_writer_fini(&mine);
    settle(transport);
}

static void test_a_message_beyond_the_limit_is_refused(
        const struct transport *transport)
{
    uint8_t byte = 0;

    if (transport->size > 1) {
        CHECK(transport->ops->send(transport->state,
                      (transport->rank + 1) % transport->size, &byte,
                      ((size_t)1 << 30) + 1) == TUTTI_ERR_NO_MEMORY);
    }
}

enum {
    FRAME_BYTES = 4032, /* of transport/fabric.c, with the header */
    HEADER_BYTES = 4
};

/* A frame as another version, or a broken peer, might send it. */
static void send_frame(const struct mpi_job *job, uint32_t left, size_t len)
{
    uint8_t bytes[FRAME_BYTES] = { 0 };

    for (int i = 0; i < HEADER_BYTES; i++) {
        bytes[i] = (uint8_t)(left >> (8 * i));
    }
    CHECK(MPI_Send(bytes, (int)len, MPI_BYTE, 0, 0, job->control) == MPI_SUCCESS);
}

static void test_frames_of_another_length_are_refused(struct mpi_job *job)
{
    static const struct {
        uint32_t before; /* bytes of a message whose first frame is well; 0: none */
        uint32_t left; /* what the frame says is left of its message          */
        size_t len; /* of the frame                                          */
    } frames[] = { { 0, 0, 3 }, { 0, 1, HEADER_BYTES }, { 0, 1, HEADER_BYTES + 2 },
        { 0, (1U << 30) + 1, FRAME_BYTES }, { 10000, 10000, FRAME_BYTES },
        { 10000, 5972, HEADER_BYTES + 5 } };
    struct transport transport;
    tutti_status status;
    int taken = 0;

    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        CHECK(transport_fabric_open(&job->job.fabric, &transport) == TUTTI_OK);
        meet(MPI_COMM_WORLD);
        if (transport.rank == 1 && frames[i].before > 0) {
            send_frame(job, frames[i].before, FRAME_BYTES);
        }
        if (transport.rank == 1) {
            send_frame(job, frames[i].left, frames[i].len);
        }
        do {
            status = transport.rank == 0 && transport.size > 1
                    ? transport.ops->poll(transport.state, count_message, &taken)
                    : TUTTI_ERR_PROTOCOL;
        } while (status == TUTTI_AGAIN);
        CHECK_SAYS(status == TUTTI_ERR_PROTOCOL && taken == 0, "frame %zu", i);
        meet(MPI_COMM_WORLD);
        transport.ops->close(transport.state);
    }
}

/* The transport on a communicator of the caller whose ranks are in reverse order. */
static void test_a_callers_communicator_is_used_and_kept(void)
{
    struct mpi_job job;
    struct transport transport;
    MPI_Comm reversed = MPI_COMM_NULL;
    int rank = 0;
    int size = 0;
    int finalized = 1;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    (void)MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    CHECK(mpi_job_init(&job, reversed) == TUTTI_OK);
    CHECK(job.ends_mpi && job.job.any_thread);
    CHECK(MPI_Comm_free(&reversed) == MPI_SUCCESS);
    CHECK(transport_fabric_open(&job.job.fabric, &transport) == TUTTI_OK);
    CHECK(transport.rank == size - 1 - rank && transport.size == size);
    test_meetings_bring_every_block(&transport);
    transport.ops->close(transport.state);
    (void)mpi_job_fini(&job, JOB_ENDED);
    (void)MPI_Finalized(&finalized);
    CHECK(finalized == 0);
}

static void test_an_intercommunicator_is_refused(void)
{
    struct mpi_job job = { .job.name = "untouched" };
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    int rank = 0;
    int size = 0;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1) {
        return;
    }
    (void)MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    (void)MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
    CHECK(mpi_job_init(&job, inter) == TUTTI_ERR_INVALID);
    CHECK(strstr(tutti_last_error(), "inter-communicator") != NULL);
    CHECK(strcmp(job.job.name, "untouched") == 0);
    (void)MPI_Comm_free(&inter);
    (void)MPI_Comm_free(&half);
}

/* Receives are posted and messages under way: close must return all the same. */
static void test_close_returns_with_messages_under_way(struct mpi_job *job)
{
    struct transport transport;
    uint8_t bytes[20000] = { 0 };

    CHECK(transport_fabric_open(&job->job.fabric, &transport) == TUTTI_OK);
    for (int to = 0; to < transport.size; to++) {
        if (to != transport.rank) {
            CHECK(transport.ops->send(transport.state, to, bytes, sizeof bytes) ==
                    TUTTI_OK);
        }
    }
    transport.ops->close(transport.state);
    drain(job->control);
}

static void test_the_end_of_mpi_is_noticed(struct mpi_job *job)
{
    int finalized = 0;

    (void)mpi_job_fini(job, JOB_ENDED);
    (void)MPI_Finalized(&finalized);
    CHECK(finalized != 0);
    CHECK(mpi_job_init(job, MPI_COMM_NULL) == TUTTI_ERR_MPI);
    CHECK(strstr(tutti_last_error(), "finalized") != NULL);
}

int main(void)
{
    struct mpi_job unused;
    struct mpi_job job;
    struct transport transport;

    memset(&unused, 0, sizeof unused);
    (void)mpi_job_fini(&unused, JOB_ENDED);
    CHECK(mpi_job_init(&job, MPI_COMM_NULL) == TUTTI_OK);
    CHECK(job.ends_mpi);
    CHECK(transport_fabric_open(&job.job.fabric, &transport) == TUTTI_OK);
    test_all_pairs_keep_order_and_content(&transport);
    test_meetings_bring_every_block(&transport);
    test_steady_state_allocates_nothing(&transport);
    test_a_message_beyond_the_limit_is_refused(&transport);
    transport.ops->close(transport.state);

    test_frames_of_another_length_are_refused(&job);
    test_a_callers_communicator_is_used_and_kept();
    test_an_intercommunicator_is_refused();
    test_close_returns_with_messages_under_way(&job);
    test_the_end_of_mpi_is_noticed(&job);
    if (transport.rank == 0) {
        (void)printf("ok\n");
    }
    return 0;
}
