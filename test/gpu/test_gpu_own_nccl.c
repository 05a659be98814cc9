/*
 * Programs that have a communicator of NCCL's besides tutti's, on the same device. The
 * simulated device runs one collective at a time, so an order that differs between ranks is
 * one that hangs.
 */
#include <time.h>

#include "ops/gpu/nccl.h"
#include "test/gpu/ends.h"

GPUSIM_API nccl_result ncclGetUniqueId(struct nccl_id *id);
GPUSIM_API nccl_result ncclCommInitRank(
        nccl_comm *comm, int ranks, struct nccl_id id, int rank);
GPUSIM_API nccl_result ncclAllReduce(const void *input, void *output, size_t count,
        nccl_dtype dtype, nccl_op op, nccl_comm comm, cu_stream stream);
GPUSIM_API nccl_result ncclCommDestroy(nccl_comm comm);

enum {
    COUNT = 200,
    STEPS = 10
};

/** The program's own communicator, and a tensor for each library. */
struct own {
    nccl_comm comm;
    float *mine; /* summed by the program     */
    float *tensor; /* by tutti                */
    float *seen; /* pinned: COUNT of each, of each step */
};

static void own_init(struct ends_rank *r, struct own *own)
{
    static struct nccl_id id;

    if (r->rank == 0) {
        CHECK(ncclGetUniqueId(&id) == NCCL_SUCCESS);
    }
    ends_meet(r);
    CHECK(ncclCommInitRank(&own->comm, r->size, id, r->rank) == NCCL_SUCCESS);
    own->mine = ends_alloc(r, COUNT);
    own->tensor = ends_alloc(r, COUNT);
    own->seen = ends_pinned(r, (int64_t)2 * STEPS * COUNT);
    /* tutti's communicator is made before anything is timed. */
    ends_whole_sum(r, "first");
}

static void own_fini(struct ends_rank *r, struct own *own)
{
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(ncclCommDestroy(own->comm) == NCCL_SUCCESS);
    ends_free(r, own->mine);
    ends_free(r, own->tensor);
    ends_unpin(r, own->seen);
}

static void call_nccl(struct ends_rank *r, struct own *own, float value)
{
    ends_fill(r, own->mine, value, COUNT, r->stream);
    CHECK(ncclAllReduce(own->mine, own->mine, COUNT, NCCL_FLOAT32, NCCL_SUM, own->comm,
                  r->stream) == NCCL_SUCCESS);
}

/* Long enough for an engine to issue what nobody has asked for; ranks take turns. */
static void dawdle(const struct ends_rank *r, int step)
{
    const struct timespec time = { .tv_nsec = 5000000 };

    if ((r->rank + step) % r->size == 0) {
        (void)nanosleep(&time, NULL);
    }
}

/* The program's call is between its submission and its wait: on each rank it comes first. */
static void run_between(struct ends_rank *r)
{
    struct own own;

    own_init(r, &own);
    for (int step = 0; step < STEPS; step++) {
        float *seen = own.seen + (ptrdiff_t)(2 * step) * COUNT;
        tutti_request request;

        ends_fill(r, own.tensor, (float)(r->rank + 1 + step), COUNT, r->stream);
        request = ends_sum(r, "x", own.tensor, own.tensor, COUNT, r->stream);
        dawdle(r, step);
        call_nccl(r, &own, (float)(2 * (r->rank + 1)));
        ends_take(r, seen, own.mine, COUNT, r->stream);
        dawdle(r, step + 1);
        CHECK(tutti_wait_stream(r->t, &request, r->stream, ENDS_PATIENCE) == TUTTI_OK);
        ends_take(r, seen + COUNT, own.tensor, COUNT, r->stream);
        call_nccl(r, &own, 1);
    }
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        const float *seen = own.seen + (ptrdiff_t)(2 * step) * COUNT;

        ends_expect(r, seen, 2 * ends_total(r), COUNT);
        ends_expect(r, seen + COUNT, ends_total(r) + (float)(step * r->size), COUNT);
    }
    own_fini(r, &own);
}

const struct ends_case cases_own_nccl[] = {
    { .name = "between", .body = run_between, .parameters = "issue=caller" },
    { .name = NULL },
};
