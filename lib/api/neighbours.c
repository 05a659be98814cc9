/*
 * Sharing memory takes three steps: each rank makes its reservation and tells its neighbours
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
    int *ranks; /* of this node; owned */
    bool all; /* no rank of any node has trouble */
    bool is_said; /* a rank of this node has */
    char trouble[ERROR_TEXT_MAX]; /* why this rank cannot share memory; "": it can */
};

static int node_size(const struct context_spec *spec)
{
    return nodes_ranks(&spec->nodes, nodes_of(&spec->nodes, spec->rank));
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

static void prepare_meeting(struct meeting *meeting)
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

/* Takes in the introductions of the ranks of this node, of which each has one. */
static tutti_status take_introductions(
        struct meeting *meeting, const struct wire_writer *mail)
{
    struct wire_reader in;

    wire_reader_init(&in, mail->data, mail->len);
    for (int i = 0; i < node_size(meeting->spec); i++) {
        const int rank = (int)wire_get_varint(&in);
        size_t len = 0;
        const char *bytes = wire_get_str(&in, SIZE_MAX, &len);
        const tutti_status status =
                take_introduction(meeting, rank, (const uint8_t *)bytes, len);

        if (status != TUTTI_OK) {
            return status;
        }
        meeting->me = rank == meeting->spec->rank ? i : meeting->me;
        meeting->count++;
    }
    return TUTTI_OK;
}

static tutti_status introduce(struct meeting *meeting)
{
    struct context_spec *spec = meeting->spec;
    const struct transport_group group = { .ranks = meeting->ranks,
        .size = node_size(spec),
        .me = nodes_local(&spec->nodes, spec->rank) };
    struct wire_writer out = { 0 };
    struct wire_writer mail = { 0 };
    tutti_status status;

    put_introduction(&out, meeting);
    status = setup_collect(spec, &group, TUTTI_OK, &out, &mail);
    if (status == TUTTI_OK) {
        status = take_introductions(meeting, &mail);
    }
    wire_writer_fini(&mail);
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
static tutti_status refuse_neighbours(const struct context_spec *spec, const char *why)
{
    if (spec->config.backend != CONFIG_BACKEND_SHM) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_CONFIG,
            "backend=shm needs shared memory between all %d ranks, but %s; "
            "backend=auto uses it where it can",
            spec->size, why);
}

/** Takes the trouble of a rank in: its node shares no memory. */
static tutti_status take_trouble(
        struct meeting *meeting, int rank, const char *text, size_t len)
{
    const struct context_spec *spec = meeting->spec;
    const struct nodes *nodes = &spec->nodes;
    const bool is_here = nodes_of(nodes, rank) == nodes_of(nodes, spec->rank);
    char why[ERROR_TEXT_MAX + 64];

    meeting->all = false;
    (void)snprintf(why, sizeof why, "rank %d says: %.*s", rank,
            (int)size_min(len, ERROR_TEXT_MAX - 1), text);
    if (is_here && !meeting->is_said && nodes_local(nodes, spec->rank) == 0) {
        log_warn(&spec->log,
                "the %d ranks of this node exchange data over MPI, because they "
                "cannot share memory; %s",
                node_size(spec), why);
    }
    if (is_here) {
        meeting->is_said = true;
        shm_domain_destroy(meeting->domain);
        meeting->domain = NULL;
    }
    return refuse_neighbours(spec, why);
}

/** All hear of all trouble, of which there mostly is none. */
static tutti_status agree_on_neighbours(struct meeting *meeting)
{
    struct wire_writer mail = { 0 };
    struct wire_writer out = { 0 };
    struct wire_reader in;
    tutti_status status;

    wire_put_bytes(&out, meeting->trouble, strlen(meeting->trouble));
    status = setup_collect(meeting->spec, NULL, TUTTI_OK, &out, &mail);
    meeting->all = status == TUTTI_OK;
    wire_reader_init(&in, mail.data, mail.len);
    while (status == TUTTI_OK && wire_left(&in) > 0) {
        const int rank = (int)wire_get_varint(&in);
        size_t len = 0;
        const char *text = wire_get_str(&in, SIZE_MAX, &len);

        status = take_trouble(meeting, rank, text, len);
    }
    wire_writer_fini(&mail);
    return status;
}

/** True when some node has several ranks; equal on all ranks. */
static bool has_neighbours(const struct nodes *nodes)
{
    return nodes->count < nodes->size;
}

/* A rank that cannot list its neighbours cannot tell them so: all hear it first. */
static tutti_status list_neighbours(struct meeting *meeting)
{
    const struct context_spec *spec = meeting->spec;
    const size_t count = (size_t)node_size(spec);
    tutti_status status = TUTTI_OK;

    meeting->parties = mem_calloc(count, sizeof *meeting->parties);
    meeting->cards = mem_calloc(count, sizeof *meeting->cards);
    meeting->ranks = mem_calloc(count, sizeof *meeting->ranks);
    if (meeting->parties == NULL || meeting->cards == NULL || meeting->ranks == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to start");
    } else {
        nodes_list(&spec->nodes, nodes_of(&spec->nodes, spec->rank), meeting->ranks);
    }
    return context_spec_agree(spec, status);
}

static tutti_status meet(struct meeting *meeting)
{
    tutti_status status = list_neighbours(meeting);

    if (status != TUTTI_OK) {
        return status;
    }
    prepare_meeting(meeting);
    status = introduce(meeting);
    if (status == TUTTI_OK) {
        exchange(meeting);
        status = agree_on_neighbours(meeting);
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
        status = refuse_neighbours(spec, why);
    }
    if (status != TUTTI_OK || !has_neighbours(&spec->nodes) ||
            (spec->config.backend != CONFIG_BACKEND_AUTO &&
                    spec->config.backend != CONFIG_BACKEND_SHM)) {
        return status;
    }
    status = meet(&meeting);
    mem_free(meeting.parties);
    mem_free(meeting.cards);
    mem_free(meeting.ranks);
    if (status != TUTTI_OK) {
        shm_domain_destroy(meeting.domain);
        meeting.domain = NULL;
    }
    *domain = meeting.domain;
    *all = meeting.all;
    return status;
}
