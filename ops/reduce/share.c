/*
 * Cutting reductions in pieces. Elements are reduced each by itself (reduce.h), so where
 * they are cut changes no bit.
 */
#include "ops/reduce/share.h"

#include "base/clock.h"
#include "base/mem.h"

/*
 * A piece reads so much of all operands together, but of each at least so much: some
 * microseconds, against well under one for handing it over.
 */
#define PIECE_BYTES ((size_t)32 << 10)
#define PIECE_OPERAND_MIN ((size_t)4 << 10)
/* Most operands, and results, of shared work: their addresses are made on the stack. */
#define PIECE_POINTERS 64

/* A job, and how it is cut. */
struct shared_job {
    const struct reduce_job *job;
    size_t element_bytes;
    size_t length; /* elements of a piece but the last */
};

static void reduce_piece(void *arg, size_t index)
{
    const struct shared_job *shared = arg;
    const struct reduce_job *job = shared->job;
    const size_t first = index * shared->length;
    const size_t offset = first * shared->element_bytes;
    const void *inputs[PIECE_POINTERS];
    void *outputs[PIECE_POINTERS];

    for (int k = 0; k < job->n; k++) {
        inputs[k] = (const char *)job->inputs[k] + offset;
    }
    for (int k = 0; k < job->m; k++) {
        outputs[k] = (char *)job->outputs[k] + offset;
    }
    reduce_tree(job->spec, inputs, job->n, outputs, job->m,
            size_min(shared->length, job->count - first));
}

/* True when the job is done. */
static bool share(const struct op_env *env, const struct reduce_job *job)
{
    struct shared_job shared = { .job = job,
        .element_bytes = tutti_dtype_size(job->spec->dtype) };
    size_t pieces;

    if (job->n > PIECE_POINTERS || job->m > PIECE_POINTERS) {
        return false;
    }
    shared.length = size_max(size_align(PIECE_BYTES / (size_t)job->n, MEM_CACHE_LINE),
                            PIECE_OPERAND_MIN) /
            shared.element_bytes;
    pieces = job->count / shared.length;
    if (pieces < 2) {
        return false;
    }
    pieces += job->count % shared.length != 0;
    return env->share(env->share_user, reduce_piece, &shared, pieces);
}

int64_t reduce_clock(const struct op_env *env)
{
    return env->spent != NULL && env->spent->is_asked ? clock_ns() : 0;
}

void reduce_count(const struct op_env *env, int64_t begin_ns)
{
    if (begin_ns != 0) {
        env->spent->reduce_ns += clock_ns() - begin_ns;
    }
}

void reduce_shared(const struct op_env *env, const struct reduce_job *job)
{
    const size_t bytes = job->count * tutti_dtype_size(job->spec->dtype);
    /* What is small takes less than looking at the clock. */
    const int64_t begin_ns = bytes < 2 * PIECE_OPERAND_MIN ? 0 : reduce_clock(env);

    if (env->share == NULL || bytes < 2 * PIECE_OPERAND_MIN || !share(env, job)) {
        reduce_tree(job->spec, job->inputs, job->n, job->outputs, job->m, job->count);
    }
    reduce_count(env, begin_ns);
}
