/*
 * At MASTER_ADDR:MASTER_PORT listens a TCPStore of PyTorch: that of torchrun's agent
 * (TORCHELASTIC_USE_AGENT_STORE=True), or the one that rank 0 made when the program called
 * torch.distributed.init_process_group() before. Where there is none, rank 0 listens itself:
 * until all have come, and then no more, so that PyTorch may take the port.
 *
 * The store's protocol, from torch/csrc/distributed/c10d/TCPStore.cpp and TCPStoreBackend.cpp:
 * a byte says what is asked; texts and values follow their length, of 64 bits; numbers are the
 * host's.
 *
 *     SET   key value                  GET   key         answer: value, of a key that is there
 *     ADD   key number   answer: sum   WAIT  count keys  answer: a byte, when they are there
 *
 * Since 2.1 a client begins with VALIDATE and a magic number, and with it all numbers of
 * queries are one higher. A store that is older takes this for a text of absurd length and
 * closes the connection: then we come back and speak as it does.
 *
 * The first query, ADD, is answered by rank 0, where it listens itself, with RANK_ZERO. Then
 * the exchange needs no store: each sends who it is, and its bytes each time.
 */
#include "boot/torchrun.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/wire.h"
#include "boot/stream.h"

#define MAGIC UINT32_C(0x3C85F7CE)
#define RANK_ZERO INT64_C(-1)
#define KEY_MAX 160
#define RANKS_MAX 1000000

enum query {
    QUERY_VALIDATE,
    QUERY_SET,
    QUERY_GET = 3,
    QUERY_ADD,
    QUERY_WAIT = 6
};

/* What a rank says to rank 0. */
struct caller {
    int32_t rank;
    int32_t size;
};

struct torchrun {
    int rank;
    int size;
    const char *host; /* of the environment */
    const char *port;
    char prefix[KEY_MAX / 2]; /* of this job's keys */
    int store; /* the connection to it, or to rank 0; -1: this is rank 0 and it listens */
    bool is_old; /* the store is */
    int *ranks; /* [size] connections of rank 0 to the others; NULL: there is a store */
    bool has_store;
    unsigned round; /* exchanges so far */
};

/* Contexts of a process start one after the other, in the same order on all ranks. */
static _Atomic unsigned starts;

/* ------------------------------------------------------------------ the store */

static void put_text(struct wire_writer *out, const void *text, size_t len)
{
    const uint64_t bytes = len;

    wire_put_bytes(out, &bytes, sizeof bytes);
    wire_put_bytes(out, text, len);
}

static void put_query(struct wire_writer *out, const struct torchrun *t,
        enum query query, const char *key)
{
    const uint64_t one = 1;

    wire_put_u8(out, (uint8_t)(t->is_old ? query - 1 : query));
    if (query == QUERY_WAIT) {
        wire_put_bytes(out, &one, sizeof one);
    }
    put_text(out, key, strlen(key));
}

/* Sends what was put, and frees it. */
static bool tell(const struct torchrun *t, struct wire_writer *out)
{
    const bool told = !out->failed && stream_write(t->store, out->data, out->len);

    wire_writer_fini(out);
    return told;
}

/* The beginning of a connection: "here is a rank". */
static void put_hello(struct wire_writer *out, const struct torchrun *t)
{
    const uint32_t magic = MAGIC;
    const int64_t one = 1;
    char key[KEY_MAX];

    (void)snprintf(key, sizeof key, "%s/ranks", t->prefix);
    if (!t->is_old) {
        wire_put_u8(out, QUERY_VALIDATE);
        wire_put_bytes(out, &magic, sizeof magic);
    }
    put_query(out, t, QUERY_ADD, key);
    wire_put_bytes(out, &one, sizeof one);
}

static tutti_status say_lost(const struct torchrun *t, const char *whom)
{
    if (errno == EMSGSIZE) {
        return error_set(TUTTI_ERR_CONFIG,
                "rank %d, with WORLD_SIZE=%d, has met at MASTER_ADDR=%s, "
                "MASTER_PORT=%s a rank with another WORLD_SIZE or another version of "
                "tutti",
                t->rank, t->size, t->host, t->port);
    }
    if (errno == EAGAIN) {
        return error_set(TUTTI_ERR_SYSTEM,
                "waited %d s at MASTER_ADDR=%s, MASTER_PORT=%s for %s to call "
                "tutti_init()",
                BOOT_PATIENCE_S, t->host, t->port, whom);
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "the connection to MASTER_ADDR=%s, MASTER_PORT=%s has ended; is torchrun's "
            "agent or rank 0 still there?",
            t->host, t->port);
}

static bool store_set(
        const struct torchrun *t, const char *key, const void *value, size_t bytes)
{
    struct wire_writer out = { 0 };

    put_query(&out, t, QUERY_SET, key);
    put_text(&out, value, bytes);
    return tell(t, &out);
}

/* Waits for the key, whose value has so many bytes. */
static bool store_get(
        const struct torchrun *t, const char *key, void *value, size_t bytes)
{
    struct wire_writer wait = { 0 };
    struct wire_writer get = { 0 };
    uint8_t is_there;
    uint64_t len = 0;

    put_query(&wait, t, QUERY_WAIT, key);
    if (!tell(t, &wait) ||
            !stream_read(t->store, &is_there, sizeof is_there, BOOT_PATIENCE_S)) {
        return false;
    }
    put_query(&get, t, QUERY_GET, key);
    if (!tell(t, &get) || !stream_read(t->store, &len, sizeof len, BOOT_PATIENCE_S)) {
        return false;
    }
    errno = EMSGSIZE;
    return len == bytes && stream_read(t->store, value, bytes, BOOT_PATIENCE_S);
}

/* Rank 0 takes what each has set, and sets it for all. */
static tutti_status gather_by_store(
        const struct torchrun *t, const void *mine, uint8_t *all, size_t bytes)
{
    char key[KEY_MAX];
    char whom[32] = "rank 0";

    (void)snprintf(key, sizeof key, "%s/%u/%d", t->prefix, t->round, t->rank);
    if (t->rank > 0 && !store_set(t, key, mine, bytes)) {
        return say_lost(t, whom);
    }
    for (int r = 1; t->rank == 0 && r < t->size; r++) {
        (void)snprintf(key, sizeof key, "%s/%u/%d", t->prefix, t->round, r);
        if (!store_get(t, key, all + (size_t)r * bytes, bytes)) {
            (void)snprintf(whom, sizeof whom, "rank %d", r);
            return say_lost(t, whom);
        }
    }
    (void)snprintf(key, sizeof key, "%s/%u/all", t->prefix, t->round);
    if (t->rank == 0) {
        memcpy(all, mine, bytes);
    }
    return (t->rank == 0 ? store_set(t, key, all, bytes * (size_t)t->size)
                         : store_get(t, key, all, bytes * (size_t)t->size))
            ? TUTTI_OK
            : say_lost(t, whom);
}

/* ------------------------------------------------------------ without a store */

static tutti_status gather_at_zero(
        const struct torchrun *t, const void *mine, uint8_t *all, size_t bytes)
{
    const size_t total = bytes * (size_t)t->size;

    if (t->rank > 0) {
        return stream_write(t->store, mine, bytes) &&
                        stream_read(t->store, all, total, BOOT_PATIENCE_S)
                ? TUTTI_OK
                : say_lost(t, "rank 0 and all others");
    }
    memcpy(all, mine, bytes);
    for (int r = 1; r < t->size; r++) {
        if (!stream_read(
                    t->ranks[r], all + (size_t)r * bytes, bytes, BOOT_PATIENCE_S)) {
            return error_set(TUTTI_ERR_SYSTEM,
                    "rank %d has ended, or said nothing for %d s, before all had "
                    "started",
                    r, BOOT_PATIENCE_S);
        }
    }
    for (int r = 1; r < t->size; r++) {
        (void)stream_write(t->ranks[r], all, total);
    }
    return TUTTI_OK;
}

/* Whoever begins in another way is not of this job. */
static bool hear(const struct torchrun *t, int fd, struct caller *caller)
{
    const int64_t answer = RANK_ZERO;
    struct wire_writer expected = { 0 };
    uint8_t heard[2 * KEY_MAX];
    bool right;

    put_hello(&expected, t);
    right = !expected.failed &&
            stream_read(fd, heard, expected.len, BOOT_CALLER_PATIENCE_S) &&
            memcmp(heard, expected.data, expected.len) == 0 &&
            stream_write(fd, &answer, sizeof answer) &&
            stream_read(fd, caller, sizeof *caller, BOOT_CALLER_PATIENCE_S);
    wire_writer_fini(&expected);
    return right;
}

static tutti_status take_in(struct torchrun *t, int fd, int *here)
{
    struct caller caller;

    if (!hear(t, fd, &caller)) {
        (void)close(fd);
        return TUTTI_OK;
    }
    if (caller.size == t->size && caller.rank > 0 && caller.rank < t->size &&
            t->ranks[caller.rank] < 0) {
        t->ranks[caller.rank] = fd;
        (*here)++;
        return TUTTI_OK;
    }
    (void)close(fd);
    return error_set(TUTTI_ERR_CONFIG,
            "a process with RANK=%d and WORLD_SIZE=%d has come to rank 0 of %d%s",
            (int)caller.rank, (int)caller.size, t->size,
            caller.size == t->size ? ", where that rank is already" : "");
}

static tutti_status await_ranks(struct torchrun *t, int listening)
{
    tutti_status status = TUTTI_OK;
    int here = 1;

    t->ranks = mem_calloc((size_t)t->size, sizeof *t->ranks);
    if (t->ranks == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", t->size);
    }
    memset(t->ranks, -1, (size_t)t->size * sizeof *t->ranks);
    while (here < t->size && status == TUTTI_OK) {
        const int fd = stream_accept(listening);

        if (fd < 0) {
            break;
        }
        status = take_in(t, fd, &here);
    }
    for (int r = 1; r < t->size && status == TUTTI_OK; r++) {
        if (t->ranks[r] < 0) {
            return error_set(TUTTI_ERR_SYSTEM,
                    "rank %d of %d did not come to MASTER_ADDR=%s, MASTER_PORT=%s "
                    "within "
                    "%d s",
                    r, t->size, t->host, t->port, BOOT_PATIENCE_S);
        }
    }
    return status;
}

/* ------------------------------------------------------------------- the start */

static tutti_status say_nobody(const struct torchrun *t)
{
    if (errno == 0) {
        return error_set(TUTTI_ERR_SYSTEM,
                "rank %d finds no address of MASTER_ADDR=%s, after %d s", t->rank,
                t->host, BOOT_NAME_PATIENCE_S);
    }
    return error_set_errno(TUTTI_ERR_SYSTEM,
            "rank %d finds nobody to meet at MASTER_ADDR=%s, MASTER_PORT=%s", t->rank,
            t->host, t->port);
}

static tutti_status say_stranger(const struct torchrun *t)
{
    return error_set(TUTTI_ERR_SYSTEM,
            "what listens at MASTER_ADDR=%s, MASTER_PORT=%s is neither PyTorch nor "
            "rank 0 of this job",
            t->host, t->port);
}

/* TUTTI_AGAIN: who listens there does not understand, and has closed the connection. */
static tutti_status greet(struct torchrun *t, int64_t *answer)
{
    struct wire_writer hello = { 0 };

    t->store = stream_connect(t->host, t->port);
    if (t->store < 0) {
        return say_nobody(t);
    }
    put_hello(&hello, t);
    if (tell(t, &hello) &&
            stream_read(t->store, answer, sizeof *answer, BOOT_HELLO_PATIENCE_S)) {
        return TUTTI_OK;
    }
    if (errno == EAGAIN) {
        return say_stranger(t);
    }
    (void)close(t->store);
    t->store = -1;
    return TUTTI_AGAIN;
}

static tutti_status come(struct torchrun *t)
{
    const struct caller self = { t->rank, t->size };
    int64_t answer = 0;
    tutti_status status = greet(t, &answer);

    if (status == TUTTI_AGAIN) {
        t->is_old = true;
        status = greet(t, &answer);
    }
    if (status == TUTTI_AGAIN) {
        return say_stranger(t);
    }
    t->has_store = answer != RANK_ZERO;
    if (status == TUTTI_OK && !t->has_store &&
            !stream_write(t->store, &self, sizeof self)) {
        return say_lost(t, "rank 0");
    }
    return status;
}

/* Whether rank 0 is to listen, where nobody else does. */
static int try_listen(const struct torchrun *t)
{
    const char *has_agent = config_foreign("TORCHELASTIC_USE_AGENT_STORE");

    return t->rank == 0 && (has_agent == NULL || strcmp(has_agent, "True") != 0)
            ? stream_listen(t->port, t->size)
            : -1;
}

static tutti_status meet(struct torchrun *t)
{
    const int listening = try_listen(t);
    tutti_status status;

    if (listening < 0) {
        return come(t);
    }
    status = await_ranks(t, listening);
    (void)close(listening);
    return status;
}

static tutti_status torchrun_allgather(
        void *user, const void *mine, void *all, size_t bytes)
{
    struct torchrun *t = user;

    t->round++;
    return t->has_store ? gather_by_store(t, mine, all, bytes)
                        : gather_at_zero(t, mine, all, bytes);
}

static void torchrun_close(void *user)
{
    struct torchrun *t = user;

    for (int r = 0; r < t->size && t->ranks != NULL; r++) {
        if (t->ranks[r] >= 0) {
            (void)close(t->ranks[r]);
        }
    }
    if (t->store >= 0) {
        (void)close(t->store);
    }
    mem_free(t->ranks);
    mem_free(t);
}

static tutti_status read_number(const char *variable, int least, int most, int *number)
{
    const char *text = config_foreign(variable);
    int64_t value = 0;

    if (text == NULL || !text_to_int64(text, &value) || value < least || value > most) {
        return error_set(TUTTI_ERR_CONFIG, "%s=%s is not a number from %d to %d",
                variable, text == NULL ? "" : text, least, most);
    }
    *number = (int)value;
    return TUTTI_OK;
}

static tutti_status read_job(struct torchrun *t)
{
    const char *attempt = config_foreign("TORCHELASTIC_RESTART_COUNT");
    tutti_status status = read_number("WORLD_SIZE", 1, RANKS_MAX, &t->size);
    int port;

    if (status == TUTTI_OK) {
        status = read_number("RANK", 0, t->size - 1, &t->rank);
    }
    if (status == TUTTI_OK) {
        status = read_number("MASTER_PORT", 1, UINT16_MAX, &port);
    }
    t->host = config_foreign("MASTER_ADDR");
    t->port = config_foreign("MASTER_PORT");
    (void)snprintf(t->prefix, sizeof t->prefix, "tutti/%.20s/%u",
            attempt == NULL ? "0" : attempt,
            atomic_fetch_add_explicit(&starts, 1, memory_order_relaxed));
    return status;
}

bool boot_torchrun_is_here(void)
{
    return config_foreign("RANK") != NULL && config_foreign("WORLD_SIZE") != NULL &&
            config_foreign("MASTER_ADDR") != NULL &&
            config_foreign("MASTER_PORT") != NULL;
}

tutti_status boot_torchrun_open(struct boot *boot)
{
    struct torchrun *t;
    tutti_status status;

    if (!boot_torchrun_is_here()) {
        return TUTTI_AGAIN;
    }
    t = mem_calloc(1, sizeof *t);
    if (t == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to meet other ranks");
    }
    t->store = -1;
    status = read_job(t);
    if (status == TUTTI_OK) {
        status = meet(t);
    }
    if (status != TUTTI_OK) {
        torchrun_close(t);
        return status;
    }
    *boot = (struct boot){ .name = "torchrun",
        .rank = t->rank,
        .size = t->size,
        .allgather = torchrun_allgather,
        .close = torchrun_close,
        .user = t };
    return TUTTI_OK;
}
