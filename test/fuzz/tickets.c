/*
 * Orders and questions about the launch of device batches (device/tickets.h), at the sequencer
 * and at another rank. The input: who, then lengths and messages.
 */
#include "device/tickets.h"

#include "fuzz.h"

enum {
    RANKS = 3,
    MESSAGES_MAX = 32,
    USES_MAX = 64 /* of tickets after a message */
};

static const int members[RANKS] = { 0, 1, 2 };
static struct op_set world = { .size = RANKS, .world_ranks = members };

static const struct op_set *find(void *user, tutti_process_set set)
{
    (void)user;
    return set == 0 ? &world : NULL;
}

static bool is_idle(void *user)
{
    (void)user;
    return true;
}

static void make_token(void *user, uint8_t token[OP_TOKEN_BYTES])
{
    (void)user;
    for (int i = 0; i < OP_TOKEN_BYTES; i++) {
        token[i] = (uint8_t)i;
    }
}

static tutti_status meet(void *user, const struct op_set *set,
        const uint8_t token[OP_TOKEN_BYTES], bool everyone, bool *moved)
{
    (void)user;
    (void)token;
    (void)everyone;
    REQUIRE(set != NULL);
    *moved = true;
    return TUTTI_OK;
}

static void created(void *user, tutti_process_set set)
{
    (void)user;
    (void)set;
}

static tutti_status send(
        void *user, int to, bool is_question, const void *bytes, size_t len)
{
    (void)user;
    (void)is_question;
    REQUIRE(to >= 0 && to < RANKS && bytes != NULL && len > 0);
    return TUTTI_OK;
}

static const struct tickets_ops ops = { find, is_idle, make_token, meet, created,
    send };

/* Launches what may be. */
static tutti_status go_on(struct tickets *tickets)
{
    tutti_status status = TUTTI_OK;
    bool moved = true;

    for (int i = 0; i < USES_MAX && moved && status == TUTTI_OK; i++) {
        moved = false;
        status = tickets_advance(tickets, &moved);
        if (status == TUTTI_OK && tickets_allow(tickets, &world)) {
            tickets_use(tickets, true);
            moved = true;
        }
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    const int rank = fuzz_byte(&input) % RANKS;
    static struct tickets tickets;
    tutti_status status = TUTTI_OK;

    tickets = (struct tickets){ .rank = 0 };
    world.rank = rank;
    tickets_init(&tickets, &ops, NULL, rank, RANKS, 2);
    tickets_listed(&tickets, &world);
    for (int i = 0; i < MESSAGES_MAX && input.size > 0 && status == TUTTI_OK; i++) {
        const uint8_t head = fuzz_byte(&input);
        size_t len;
        uint8_t *bytes = fuzz_bytes(&input, head & 63, &len);

        if ((head & 64) != 0) {
            tickets_queued(&tickets, &world, (head & 128) != 0);
        }
        status = tickets_receive(&tickets, (rank + 1) % RANKS, rank == 0, bytes, len);
        free(bytes);
        status = status == TUTTI_OK ? go_on(&tickets) : status;
    }
    REQUIRE(status == TUTTI_OK || status == TUTTI_ERR_PROTOCOL);
    tickets_fini(&tickets);
    return 0;
}
