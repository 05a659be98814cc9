/*
 * Making communicators. Everything is done in steps that return when another rank has to go
 * on first, so that one thread can make several, and polls can bring them forward.
 */
#include "test/gpusim/nccl/arrive.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "test/gpusim/gpusim.h"
#include "test/gpusim/nccl/api.h"
#include "test/gpusim/nccl/job.h"

/* The steps of a communicator towards being ready, or of a parent towards that. */
struct arrive_job {
    struct job base;
    struct division division; /* by id: the child is its own parent */
    enum {
        PHASE_START,
        PHASE_COLOURS, /* the colours are being told */
        PHASE_CHILD /* the child's ranks arrive   */
    } phase;
    unsigned char id[SEGMENT_ID_BYTES]; /* of the child */
    bool has_started; /* faults were looked for              */
    bool is_lost; /* a fault: it never gets ready        */
};

/* ---- who a rank is ---- */

static uint64_t hash(const char *text, uint64_t value)
{
    for (; text[0] != '\0'; text++) {
        value = (value ^ (unsigned char)text[0]) * UINT64_C(0x100000001b3);
    }
    return value;
}

static struct {
    pthread_once_t once;
    uint64_t hash;
} host = { .once = PTHREAD_ONCE_INIT };

/* As NCCL, once in the life of a process. */
static void find_host(void)
{
    const char *id = getenv("NCCL_HOSTID");
    char name[256] = "";
    char boot[64] = "";
    FILE *file;

    if (id == NULL) {
        (void)gethostname(name, sizeof name - 1);
        file = fopen("/proc/sys/kernel/random/boot_id", "re");
        if (file != NULL) {
            boot[fread(boot, 1, sizeof boot - 1, file)] = '\0';
            (void)fclose(file);
        }
        id = name;
    }
    host.hash = hash(boot, hash(id, UINT64_C(0xcbf29ce484222325)));
}

static void tell_who(nccl_comm comm)
{
    struct segment_rank *here = segment_rank(&comm->segment, comm->rank);
    const char *bus = gpusim_device_pci(comm->device);

    (void)pthread_once(&host.once, find_host);
    here->pid = getpid();
    here->ranks = comm->ranks;
    here->ids = comm->ids;
    here->host = host.hash;
    (void)snprintf(here->bus, sizeof here->bus, "%s", bus == NULL ? "" : bus);
    segment_advance(&comm->segment, SEGMENT_TOLD);
}

/* ---- finding each other ---- */

static bool all_have(nccl_comm comm, enum segment_state state)
{
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        if (segment_state(&comm->segment, rank) < state) {
            return false;
        }
    }
    return true;
}

/* What NCCL checks when all ranks are there. */
static void check_ranks(nccl_comm comm)
{
    const struct segment_rank *here = segment_rank(&comm->segment, comm->rank);
    const struct segment_rank *there;
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        there = segment_rank(&comm->segment, rank);
        if (there->ranks != here->ranks) {
            comm_report_fatal("ncclCommInitRank: rank %d has %d ranks, rank %d %lld",
                    comm->rank, comm->ranks, rank, (long long)there->ranks);
        }
        if (there->ids != here->ids) {
            comm_report_fatal(
                    "ncclCommInitRankScalable: rank %d was given other ids", rank);
        }
        if (rank != comm->rank && there->host == here->host &&
                strcmp(there->bus, here->bus) == 0) {
            comm_report_fatal("ncclCommInitRank: Duplicate GPU detected: rank %d and "
                              "rank %d both on CUDA device %s",
                    comm->rank, rank, here->bus);
        }
    }
}

static void finish(nccl_comm comm)
{
    segment_id_release(comm->segment.id);
    (void)pthread_mutex_lock(&comm->lock);
    comm->life = COMM_LIVE;
    (void)pthread_mutex_unlock(&comm->lock);
}

/* As far as it goes now; what could not go on ends the process. */
static nccl_result go_on(struct arrive_job *self)
{
    nccl_comm comm = self->division.child;
    long value;

    if (!self->has_started) {
        self->has_started = true;
        self->is_lost = fault_at(comm->rank, "init", &value);
    }
    if (self->is_lost || !load_kernels(comm)) {
        return NCCL_IN_PROGRESS;
    }
    if (comm->segment.shared == NULL) {
        comm_open_segment(comm, self->id);
        tell_who(comm);
    }
    if (segment_state(&comm->segment, comm->rank) == SEGMENT_TOLD) {
        if (!all_have(comm, SEGMENT_TOLD)) {
            return NCCL_IN_PROGRESS;
        }
        check_ranks(comm);
        segment_advance(&comm->segment, SEGMENT_READY);
    }
    if (!all_have(comm, SEGMENT_READY)) {
        return NCCL_IN_PROGRESS;
    }
    finish(comm);
    return NCCL_SUCCESS;
}

/* ---- by a parent ---- */

static const char *meeting_name(int64_t kind)
{
    return kind == MEETING_SPLIT ? "ncclCommSplit" : "ncclCommDestroy";
}

void arrive_check(nccl_comm comm, uint64_t members)
{
    int64_t kind = segment_word(&comm->segment, comm->rank)->kind;
    int64_t other;
    int rank;

    for (rank = 0; rank < comm->ranks; rank++) {
        other = segment_word(&comm->segment, rank)->kind;
        if ((members >> rank & 1) != 0 && other != kind) {
            comm_report_fatal("MISMATCH in communicator %04llx: rank %d calls %s; rank "
                              "%d calls %s",
                    (unsigned long long)comm->number, comm->rank, meeting_name(kind),
                    rank, meeting_name(other));
        }
    }
}

static bool is_of_colour(const struct division *division, int rank)
{
    return segment_word(&division->parent->segment, rank)->first == division->colour;
}

/* Whether a rank comes before another in the child: by key, then by rank in the parent. */
static bool is_before(const struct segment *segment, int a, int b)
{
    int64_t key_a = segment_word(segment, a)->second;
    int64_t key_b = segment_word(segment, b)->second;

    return key_a != key_b ? key_a < key_b : a < b;
}

/* This rank's place in the child, and how many there are. @return who is first */
static int find_place(const struct division *division)
{
    const struct segment *segment = &division->parent->segment;
    int here = division->parent->rank;
    int leader = here;
    int rank;

    division->child->rank = 0;
    division->child->ranks = 0;
    for (rank = 0; rank < division->parent->ranks; rank++) {
        if (!is_of_colour(division, rank)) {
            continue;
        }
        division->child->ranks++;
        division->child->rank += is_before(segment, rank, here);
        if (is_before(segment, rank, leader)) {
            leader = rank;
        }
    }
    return leader;
}

/* Everybody's colour is known: the id of the first of each colour is the child's. */
static void child_begins(struct arrive_job *self)
{
    const struct division *division = &self->division;
    nccl_comm parent = division->parent;
    int leader;

    arrive_check(parent, UINT64_MAX);
    if (division->child != NULL) {
        leader = find_place(division);
        memcpy(self->id, segment_word(&parent->segment, leader)->id, SEGMENT_ID_BYTES);
        if (leader != parent->rank) {
            segment_id_release(segment_word(&parent->segment, parent->rank)->id);
        }
        self->base.waits = division->child;
    }
}

/* The phase that comes first now, and none after it. */
static nccl_result phase_step(struct arrive_job *self)
{
    const struct division *division = &self->division;
    struct segment *segment = &division->parent->segment;
    struct segment_word word = {
        .kind = MEETING_SPLIT,
        .first = division->colour,
        .second = division->key,
    };

    switch (self->phase) {
    case PHASE_START:
        if (division->child != NULL) {
            segment_id_make(word.id);
        }
        segment_meet(segment, &word);
        return NCCL_SUCCESS;
    case PHASE_COLOURS:
        if (segment_missing(segment, UINT64_MAX) != 0) {
            return NCCL_IN_PROGRESS;
        }
        child_begins(self);
        return NCCL_SUCCESS;
    case PHASE_CHILD:
        return division->child == NULL ? NCCL_SUCCESS : go_on(self);
    }
    return NCCL_INTERNAL_ERROR;
}

static nccl_result arrive_step(struct job *job)
{
    struct arrive_job *self = (struct arrive_job *)job;
    nccl_result result = phase_step(self);

    while (result == NCCL_SUCCESS && self->phase != PHASE_CHILD) {
        self->phase++;
        result = phase_step(self);
    }
    return result;
}

static void free_job(struct job *job)
{
    mem_free(job);
}

static struct arrive_job *create(nccl_comm comm, const char *function)
{
    struct arrive_job *self = must(mem_calloc(1, sizeof *self));

    self->base = (struct job){ .comm = comm,
        .waits = comm,
        .function = function,
        .step = arrive_step,
        .dispose = free_job };
    return self;
}

struct job *arrive_by_id(nccl_comm comm, const unsigned char *id)
{
    struct arrive_job *self = create(comm, "ncclCommInitRank");

    self->division = (struct division){ .parent = comm, .child = comm };
    self->phase = PHASE_CHILD;
    memcpy(self->id, id, SEGMENT_ID_BYTES);
    return &self->base;
}

struct job *arrive_by_parent(const struct division *division)
{
    struct arrive_job *self = create(division->parent, meeting_name(MEETING_SPLIT));

    self->division = *division;
    return &self->base;
}
