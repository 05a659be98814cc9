/*
 * Sharing memory takes three steps: each rank makes its reservation and tells all ranks
 * how to reach it; the ranks of a node pass each other descriptors; all tell all whether
 * that went well. So all know the same, and nobody uses memory that a neighbour lacks.
 */
#include "api/neighbours.h"

#include <stdio.h>
#include <string.h>

#include "api/setup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/wire.h"
#include "ops/shm/handover.h"

/* How long the ranks of a node wait for each other. */
#define HANDOVER_NS INT64_C(10000000000)

/** A rank's way to its neighbours. */
struct meeting {
    struct context_spec *spec;
    struct shm_domain *domain; /* NULL: this rank shares nothing */
    struct handover handover;
    struct handover_party *parties; /* the ranks of this node; owned */
    struct shm_card *cards; /* theirs; owned */
    int count; /* of them */
    int me; /* this rank's index among them */
    bool all; /* no rank of any node has trouble */
    char trouble[ERROR_TEXT_MAX]; /* why this rank cannot share memory; "": it can */
};

static int node_size(const struct context_spec *spec)
{
    return spec->nodes.local_size[spec->nodes.node_of[spec->rank]];
}

/** Notes the last error as what is in the way. */
static void note_trouble(struct meeting *meeting)
{
    (void)snprintf(meeting->trouble, sizeof meeting->trouble, "%s", tutti_last_error());
}

/* --------------------------------------------------------------- reservations */

/** Makes this rank's reservation; without memfd as POSIX shared memory. */
static tutti_status reserve(struct meeting *meeting)
{
    const struct context_spec *spec = meeting->spec;
    const size_t bytes = reservation_size(node_size(spec));
    tutti_status status = shm_domain_open(&meeting->domain, spec->size, spec->rank,
            node_size(spec), bytes, RESERVATION_MEMFD);

    if (status == TUTTI_ERR_SYSTEM) {
        char why[ERROR_TEXT_MAX];

        (void)snprintf(why, sizeof why, "%s", tutti_last_error());
        status = shm_domain_open(&meeting->domain, spec->size, spec->rank,
                node_size(spec), bytes, RESERVATION_POSIX);
        if (status == TUTTI_OK) {
            log_warn(&spec->log,
                    "shared memory is limited by the size of /dev/shm, because an "
                    "anonymous file cannot be used: %s",
                    why);
        }
    }
    return status;
}

static void prepare(struct meeting *meeting)
{
    meeting->handover.socket = -1;
    if (node_size(meeting->spec) > 1 &&
            (handover_open(&meeting->handover) != TUTTI_OK ||
                    reserve(meeting) != TUTTI_OK)) {
        note_trouble(meeting);
    }
}

/* -------------------------------------------------------------- introductions */

static void put_introduction(struct wire_writer *out, const struct meeting *meeting)
{
    struct shm_card card = { 0 };

    if (meeting->domain != NULL) {
        card = shm_domain_card(meeting->domain, meeting->spec->rank);
    }
    wire_put_str(out, meeting->trouble, strlen(meeting->trouble));
    wire_put_bytes(out, meeting->handover.name, sizeof meeting->handover.name);
    wire_put_bytes(out, card.nonce, sizeof card.nonce);
    wire_put_u64(out, card.bytes);
    wire_put_u32(out, card.kind);
}

/** Reads a neighbour's introduction; its trouble is this rank's too. */
static tutti_status take_introduction(
        struct meeting *meeting, int rank, const uint8_t *bytes, size_t len)
{
    struct handover_party *party = &meeting->parties[meeting->count];
    struct shm_card *card = &meeting->cards[meeting->count];
    struct wire_reader in;
    char trouble[ERROR_TEXT_MAX];
    const uint8_t *name;
    const uint8_t *nonce;

    wire_reader_init(&in, bytes, len);
    wire_get_text(&in, trouble, sizeof trouble);
    name = wire_get_bytes(&in, sizeof party->name);
    nonce = wire_get_bytes(&in, sizeof card->nonce);
    card->bytes = wire_get_u64(&in);
    card->kind = wire_get_u32(&in);
    if (!wire_ok(&in)) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed introduction of rank %d", rank);
    }
    party->rank = rank;
    memcpy(party->name, name, sizeof party->name);
    memcpy(party->secret, nonce, sizeof party->secret);
    memcpy(card->nonce, nonce, sizeof card->nonce);
    if (trouble[0] != '\0' && meeting->trouble[0] == '\0') {
        (void)snprintf(meeting->trouble, sizeof meeting->trouble, "rank %d: %.*s", rank,
                ERROR_TEXT_MAX - 32, trouble);
    }
    return TUTTI_OK;
}

static tutti_status introduce(struct meeting *meeting, tutti_status status)
{
    struct context_spec *spec = meeting->spec;
    const int *node_of = spec->nodes.node_of;
    struct wire_writer out = { 0 };
    const uint8_t **blocks = NULL;
    size_t *lengths = NULL;

    put_introduction(&out, meeting);
    status = setup_gather(spec, status, &out, &blocks, &lengths);
    /* Without room for them this rank has failed, and so has the gathering. */
    for (int rank = 0; rank < spec->size && status == TUTTI_OK; rank++) {
        if (node_of[rank] != node_of[spec->rank] || meeting->cards == NULL ||
                meeting->parties == NULL) {
            continue;
        }
        meeting->me = rank == spec->rank ? meeting->count : meeting->me;
        status = take_introduction(meeting, rank, blocks[rank], lengths[rank]);
        meeting->count++;
    }
    mem_free(blocks);
    return status;
}

/* ------------------------------------------------------------------- exchange */

static tutti_status admit(void *user, int party, int fd, pid_t pid)
{
    struct meeting *meeting = user;

    return shm_domain_admit(meeting->domain, meeting->parties[party].rank, fd, pid,
            &meeting->cards[party]);
}

static void exchange(struct meeting *meeting)
{
    tutti_status status;

    if (meeting->domain == NULL || meeting->trouble[0] != '\0') {
        return;
    }
    status = handover_exchange(&meeting->handover,
            shm_domain_fd(meeting->domain, meeting->spec->rank), meeting->parties,
            meeting->count, meeting->me, clock_ns() + HANDOVER_NS, admit, meeting);
    if (status != TUTTI_OK) {
        note_trouble(meeting);
    }
}

/* ------------------------------------------------------------------ agreement */

/** backend=shm and not all ranks share memory: an error, the same on all ranks. */
static tutti_status refuse(const struct context_spec *spec, const char *why)
{
    if (spec->config.backend != CONFIG_BACKEND_SHM) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_CONFIG,
            "backend=shm needs shared memory between all %d ranks, but %s; "
            "backend=auto uses it where it can",
            spec->size, why);
}

/** Takes the outcome of a rank in: its node shares no memory when it has trouble. */
static tutti_status take_outcome(
        struct meeting *meeting, int rank, const uint8_t *bytes, size_t len)
{
    const struct context_spec *spec = meeting->spec;
    const struct nodes *nodes = &spec->nodes;
    char why[ERROR_TEXT_MAX + 64];

    if (len == 0) {
        return TUTTI_OK;
    }
    meeting->all = false;
    (void)snprintf(why, sizeof why, "rank %d says: %.*s", rank,
            (int)size_min(len, ERROR_TEXT_MAX - 1), (const char *)bytes);
    if (nodes->node_of[rank] == nodes->node_of[spec->rank] && meeting->domain != NULL) {
        shm_domain_destroy(meeting->domain);
        meeting->domain = NULL;
    }
    return refuse(spec, why);
}

/** The first trouble on this rank's node is said once. */
static void say_trouble(const struct context_spec *spec, const uint8_t *const *blocks,
        const size_t *lengths)
{
    const int *node_of = spec->nodes.node_of;

    for (int rank = 0; rank < spec->size && spec->nodes.local_of[spec->rank] == 0;
            rank++) {
        if (node_of[rank] == node_of[spec->rank] && lengths[rank] > 0) {
            log_warn(&spec->log,
                    "the %d ranks of this node exchange data over MPI, because they "
                    "cannot share memory; rank %d says: %.*s",
                    node_size(spec), rank, (int)lengths[rank],
                    (const char *)blocks[rank]);
            return;
        }
    }
}

static tutti_status agree(struct meeting *meeting)
{
    struct context_spec *spec = meeting->spec;
    const uint8_t **blocks = NULL;
    size_t *lengths = NULL;
    struct wire_writer out = { 0 };
    tutti_status status;

    wire_put_bytes(&out, meeting->trouble, strlen(meeting->trouble));
    status = setup_gather(spec, TUTTI_OK, &out, &blocks, &lengths);
    if (status != TUTTI_OK) {
        return status;
    }
    meeting->all = true;
    say_trouble(spec, blocks, lengths);
    for (int rank = 0; rank < spec->size && status == TUTTI_OK; rank++) {
        status = take_outcome(meeting, rank, blocks[rank], lengths[rank]);
    }
    mem_free(blocks);
    return status;
}

/** True when some node has several ranks; equal on all ranks. */
static bool has_neighbours(const struct nodes *nodes)
{
    return nodes->count < nodes->size;
}

static tutti_status meet(struct meeting *meeting)
{
    tutti_status status = TUTTI_OK;

    meeting->parties =
            mem_calloc((size_t)node_size(meeting->spec), sizeof *meeting->parties);
    meeting->cards =
            mem_calloc((size_t)node_size(meeting->spec), sizeof *meeting->cards);
    if (meeting->parties == NULL || meeting->cards == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to start");
    }
    prepare(meeting);
    status = introduce(meeting, status);
    if (status == TUTTI_OK) {
        exchange(meeting);
        status = agree(meeting);
    }
    handover_close(&meeting->handover);
    return status;
}

tutti_status neighbours_meet(
        struct context_spec *spec, struct shm_domain **domain, bool *all)
{
    struct meeting meeting = { .spec = spec };
    char why[64];
    tutti_status status = TUTTI_OK;

    *domain = NULL;
    *all = false;
    if (spec->nodes.count > 1) {
        (void)snprintf(why, sizeof why, "they are on %d nodes", spec->nodes.count);
        status = refuse(spec, why);
    }
    if (status != TUTTI_OK || !has_neighbours(&spec->nodes) ||
            (spec->config.backend != CONFIG_BACKEND_AUTO &&
                    spec->config.backend != CONFIG_BACKEND_SHM)) {
        return status;
    }
    status = meet(&meeting);
    mem_free(meeting.parties);
    mem_free(meeting.cards);
    if (status != TUTTI_OK) {
        shm_domain_destroy(meeting.domain);
        meeting.domain = NULL;
    }
    *domain = meeting.domain;
    *all = meeting.all;
    return status;
}
