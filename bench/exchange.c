/*
 * Batches as the planner makes them, moved by the backend alone.
 */
#include "bench/exchange.h"

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "api/limits.h"
#include "base/error.h"
#include "fabric/mpi/mpi_fabric.h"
#include "ops/p2p/p2p.h"

/* A batch of the layout. */
struct piece {
    size_t *tensors; /* within exchange.tensors */
    size_t count; /* of them, in the order of submission */
    size_t elements;
};

/* A batch in flight, or a free place for one. */
struct flight {
    const struct piece *piece; /* NULL: free */
    struct op_batch batch;
    struct op_run run;
    unsigned char *buffer; /* owned; for what is packed */
    void *task; /* owned */
};

struct exchange {
    struct config config;
    struct op_env env;
    struct op_set set;
    int *ranks; /* owned; of the set */
    MPI_Comm comm; /* owned */
    struct fabric fabric; /* over it */
    struct mpi_fabric over; /* its state */
    void *state; /* of the backend; NULL: not open */
    struct planner_limits limits;
    size_t *tensors; /* owned; of all pieces, one piece behind the other */
    struct piece *pieces; /* owned */
    size_t piece_count;
    struct flight flights[OP_INFLIGHT_MAX];
    uint64_t sequence; /* of the next batch */
};

/* -------------------------------------------------------------------- layout */

static size_t place_to_tensor(const struct work *work, size_t place)
{
    return work->tensors->count - 1 - place;
}

static size_t bytes_of(const struct work *work, size_t tensor)
{
    return (size_t)work->tensors->tensors[tensor].count * work->pattern.element_bytes;
}

/* Adds the tensors of a batch to an empty piece; `batches` is in the order of submission. */
static void take_piece(struct piece *piece, const struct work *work,
        const size_t *batches, size_t batch)
{
    for (size_t i = 0; i < work->tensors->count; i++) {
        const size_t tensor = place_to_tensor(work, i);

        if (batches[i] == batch) {
            piece->tensors[piece->count++] = tensor;
            piece->elements += work->tensors->tensors[tensor].count;
        }
    }
}

/* Batches become pieces, but for those that move nothing, which no backend takes. */
static void take_pieces(struct exchange *exchange, const struct work *work,
        const size_t *batches, size_t count)
{
    size_t used = 0;

    for (size_t b = 0; b < count; b++) {
        struct piece piece = { .tensors = exchange->tensors + used };

        take_piece(&piece, work, batches, b);
        used += piece.count;
        if (piece.elements > 0) {
            exchange->pieces[exchange->piece_count++] = piece;
        }
    }
}

static tutti_status lay_out(struct exchange *exchange, const struct work *work)
{
    const size_t count = work->tensors->count;
    const struct meta meta = { .dtype = work->operation.dtype,
        .op = work->operation.op,
        .prescale = 1,
        .postscale = 1 };
    size_t *batches = calloc(count, sizeof *batches);
    struct planner planner = { .count = 0 };
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    exchange->tensors = calloc(count, sizeof *exchange->tensors);
    exchange->pieces = calloc(count, sizeof *exchange->pieces);
    if (batches != NULL && exchange->tensors != NULL && exchange->pieces != NULL) {
        status = TUTTI_OK;
        for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
            batches[i] = planner_add(&planner, &exchange->limits, TUTTI_ALLREDUCE,
                    &meta, bytes_of(work, place_to_tensor(work, i)), 0);
            status = batches[i] == SIZE_MAX ? TUTTI_ERR_NO_MEMORY : TUTTI_OK;
        }
    }
    if (status == TUTTI_OK) {
        take_pieces(exchange, work, batches, planner.count);
    }
    planner_fini(&planner);
    free(batches);
    return status;
}

/* ------------------------------------------------------------------- opening */

/* What the ranks of a context would agree on. */
static tutti_status choose_limits(struct exchange *exchange)
{
    struct machine machine;
    tutti_status status = machine_read(&machine);
    uint64_t smallest[3];

    if (status != TUTTI_OK) {
        return status;
    }
    limits_choose(
            &exchange->limits, &exchange->env.chunk_bytes, &exchange->config, &machine);
    smallest[0] = exchange->limits.batch_bytes;
    smallest[1] = exchange->limits.tensor_bytes;
    smallest[2] = exchange->env.chunk_bytes;
    MPI_Allreduce(MPI_IN_PLACE, smallest, 3, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    exchange->limits.batch_bytes = (size_t)smallest[0];
    exchange->limits.tensor_bytes = (size_t)smallest[1];
    exchange->env.chunk_bytes = (size_t)smallest[2];
    return TUTTI_OK;
}

/* The first rank of another host than rank 0's; 0: all are on one. */
static int find_peer(const struct job *job)
{
    MPI_Comm host;
    int first = job->rank; /* of this host */
    int peer;

    MPI_Comm_split_type(
            MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &host);
    MPI_Bcast(&first, 1, MPI_INT, 0, host);
    MPI_Comm_free(&host);
    peer = first == 0 ? job->size : first;
    MPI_Allreduce(MPI_IN_PLACE, &peer, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return peer == job->size ? 0 : peer;
}

/* What the library measures when it starts. */
static tutti_status measure_link(struct exchange *exchange, const struct job *job)
{
    struct op_link *link = &exchange->env.link;
    const int peer = find_peer(job);
    tutti_status status = TUTTI_OK;

    if (peer > 0 && (job->rank == 0 || job->rank == peer)) {
        status = p2p_link_measure(&exchange->fabric, job->rank == 0 ? peer : 0,
                job->rank == 0, exchange->env.chunk_bytes, link);
    }
    MPI_Bcast(link, (int)sizeof *link, MPI_BYTE, 0, MPI_COMM_WORLD);
    return status;
}

static tutti_status open_backend(struct exchange *exchange, const struct job *job)
{
    tutti_status status;

    MPI_Comm_dup(MPI_COMM_WORLD, &exchange->comm);
    /* As the backend expects it: it reports the errors itself. */
    MPI_Comm_set_errhandler(exchange->comm, MPI_ERRORS_RETURN);
    exchange->ranks = calloc((size_t)job->size, sizeof *exchange->ranks);
    if (exchange->ranks == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    for (int i = 0; i < job->size; i++) {
        exchange->ranks[i] = i;
    }
    exchange->set = (struct op_set){
        .rank = job->rank, .size = job->size, .world_ranks = exchange->ranks
    };
    exchange->env.config = &exchange->config;
    exchange->env.world_rank = job->rank;
    exchange->env.world_size = job->size;
    mpi_fabric_init(&exchange->fabric, &exchange->over, exchange->comm, exchange->comm);
    exchange->env.native = &exchange->fabric;
    status = measure_link(exchange, job);
    return status == TUTTI_OK ? op_p2p.open(&exchange->env, &exchange->state) : status;
}

static tutti_status open_flights(struct exchange *exchange)
{
    size_t elements = 0;
    size_t bytes;

    for (size_t i = 0; i < exchange->piece_count; i++) {
        const struct piece *piece = &exchange->pieces[i];

        if (piece->count > 1 && piece->elements > elements) {
            elements = piece->elements;
        }
    }
    bytes = (elements * sizeof(uint64_t) + 63) & ~(size_t)63;
    for (int i = 0; i < exchange->config.inflight; i++) {
        struct flight *flight = &exchange->flights[i];

        flight->task = calloc(1, op_p2p.task_bytes);
        flight->buffer = aligned_alloc(64, bytes + 64);
        if (flight->task == NULL || flight->buffer == NULL) {
            return TUTTI_ERR_NO_MEMORY;
        }
    }
    return TUTTI_OK;
}

/* Its errors are those of the program's own copy of the rooms, not of the library. */
static tutti_status failed(const struct job *job, tutti_status status, const char *what)
{
    (void)fprintf(stderr, "tutti-bench: rank %d: %s the exchange: %s: %s\n", job->rank,
            what, tutti_status_text(status), error_last());
    return status;
}

tutti_status exchange_open(struct exchange **exchange, const struct work *work)
{
    struct exchange *opened = calloc(1, sizeof *opened);
    char warnings[ERROR_TEXT_MAX]; /* tutti has logged them */
    tutti_status status;

    *exchange = opened;
    if (opened == NULL) {
        return failed(work->job, TUTTI_ERR_NO_MEMORY, "opening");
    }
    opened->comm = MPI_COMM_NULL;
    status = config_init(&opened->config);
    if (status == TUTTI_OK) {
        status = config_from_environment(&opened->config, warnings, sizeof warnings);
    }
    if (status == TUTTI_OK) {
        status = choose_limits(opened);
    }
    if (status == TUTTI_OK) {
        status = open_backend(opened, work->job);
    }
    if (status == TUTTI_OK) {
        status = lay_out(opened, work);
    }
    if (status == TUTTI_OK) {
        status = open_flights(opened);
    }
    return status == TUTTI_OK ? TUTTI_OK
                              : job_failed(work->job, status, "opening the exchange");
}

void exchange_close(struct exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    if (exchange->state != NULL) {
        op_p2p.close(exchange->state);
    }
    mpi_fabric_fini(&exchange->over);
    if (exchange->comm != MPI_COMM_NULL) {
        MPI_Comm_free(&exchange->comm);
    }
    for (int i = 0; i < OP_INFLIGHT_MAX; i++) {
        free(exchange->flights[i].task);
        free(exchange->flights[i].buffer);
    }
    config_fini(&exchange->config);
    free(exchange->pieces);
    free(exchange->tensors);
    free(exchange->ranks);
    free(exchange);
}

/* -------------------------------------------------------------------- moving */

/* What the dispatcher does: one tensor where it lies, several through the buffer. */
static void *pack(const struct work *work, const struct flight *flight)
{
    const struct piece *piece = flight->piece;
    unsigned char *to = flight->buffer;

    if (piece->count == 1) {
        return work->outputs[piece->tensors[0]];
    }
    for (size_t i = 0; i < piece->count; i++) {
        const size_t bytes = bytes_of(work, piece->tensors[i]);

        memcpy(to, work->inputs[piece->tensors[i]], bytes);
        to += bytes;
    }
    return flight->buffer;
}

static void unpack(const struct work *work, const struct flight *flight)
{
    const struct piece *piece = flight->piece;
    const unsigned char *from = flight->buffer;

    for (size_t i = 0; i < piece->count && piece->count > 1; i++) {
        const size_t bytes = bytes_of(work, piece->tensors[i]);

        memcpy(work->outputs[piece->tensors[i]], from, bytes);
        from += bytes;
    }
}

static tutti_status launch(const struct work *work, struct flight *flight)
{
    struct exchange *exchange = work->exchange;
    void *memory = pack(work, flight);

    flight->run = (struct op_run){
        .input = memory, .output = memory, .count = flight->piece->elements
    };
    flight->batch = (struct op_batch){ .set = &exchange->set,
        .sequence = exchange->sequence++,
        .collective = TUTTI_ALLREDUCE,
        .dtype = work->operation.dtype,
        .op = work->operation.op,
        .divisor = exchange->set.size,
        .prescale = 1,
        .postscale = 1,
        .runs = &flight->run,
        .run_count = 1,
        .count = flight->piece->elements };
    memset(flight->task, 0, op_p2p.task_bytes);
    return op_p2p.start(exchange->state, flight->task, &flight->batch);
}

/* Steps what is in flight; *left becomes less by what has ended. */
static tutti_status step_all(const struct work *work, bool *moved, size_t *left)
{
    struct exchange *exchange = work->exchange;

    for (int i = 0; i < exchange->config.inflight; i++) {
        struct flight *flight = &exchange->flights[i];
        tutti_status status;

        if (flight->piece == NULL) {
            continue;
        }
        status = op_p2p.step(exchange->state, flight->task, moved);
        if (status == TUTTI_AGAIN) {
            continue;
        }
        if (status != TUTTI_OK) {
            return status;
        }
        unpack(work, flight);
        flight->piece = NULL;
        *moved = true;
        (*left)--;
    }
    return TUTTI_OK;
}

/* Batches in flight are told apart by their slot: nothing overtakes one by so many. */
static bool slot_is_free(const struct exchange *exchange)
{
    for (int i = 0; i < exchange->config.inflight; i++) {
        const struct flight *flight = &exchange->flights[i];

        if (flight->piece != NULL &&
                exchange->sequence - flight->batch.sequence >= OP_INFLIGHT_MAX) {
            return false;
        }
    }
    return true;
}

static tutti_status launch_all(const struct work *work, size_t *next)
{
    struct exchange *exchange = work->exchange;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < exchange->config.inflight && status == TUTTI_OK; i++) {
        struct flight *flight = &exchange->flights[i];

        if (flight->piece == NULL && *next < exchange->piece_count &&
                slot_is_free(exchange)) {
            flight->piece = &exchange->pieces[(*next)++];
            status = launch(work, flight);
        }
    }
    return status;
}

tutti_status work_step_exchange(struct work *work)
{
    size_t left = work->exchange->piece_count;
    size_t next = 0;
    tutti_status status = TUTTI_OK;

    while (left > 0 && status == TUTTI_OK) {
        bool moved = false;

        status = launch_all(work, &next);
        if (status == TUTTI_OK) {
            status = step_all(work, &moved, &left);
        }
        if (!moved) {
            (void)sched_yield();
        }
    }
    work->result_in_front = false;
    return status == TUTTI_OK ? TUTTI_OK : failed(work->job, status, "moving");
}
