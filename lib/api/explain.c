/*
 * Which way an operation would take. Backends are asked as the engine asks them, by the thread
 * that has it.
 */
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "base/error.h"
#include "run/context.h"
#include "run/driver.h"

struct question {
    tutti_process_set set;
    struct op_batch batch;
    struct op_set members; /* of the batch */
    char *text;
    size_t size;
    tutti_status status;
};

static void write_answer(const struct tutti *t, struct question *question)
{
    for (int b = 0; b < t->dispatcher.backend_count; b++) {
        const struct dispatcher_backend *backend = &t->dispatcher.backends[b];
        size_t used;

        if (backend->ops->space != OP_HOST ||
                !backend->ops->accepts(backend->state, &question->batch)) {
            continue;
        }
        (void)snprintf(question->text, question->size, "%s", backend->ops->name);
        used = strlen(question->text);
        if (backend->ops->explain != NULL && used + 2 < question->size) {
            memcpy(question->text + used, ": ", 3);
            backend->ops->explain(backend->state, &question->batch,
                    question->text + used + 2, question->size - used - 2);
        }
        return;
    }
    question->status = error_set(TUTTI_ERR_UNSUPPORTED,
            "tutti_explain_allreduce: there is no such reduction of this type");
}

/* The calling thread has the engine. */
static void answer(struct tutti *t, void *arg)
{
    struct question *question = arg;
    const struct process_set *found;

    pthread_mutex_lock(&t->lock);
    found = process_sets_find(&t->sets, question->set);
    if (found == NULL || found->op.rank < 0) {
        question->status = error_set(TUTTI_ERR_INVALID,
                "tutti_explain_allreduce: rank %d is no member of a process set %u",
                t->rank, question->set);
    } else {
        question->members = found->op;
        question->batch.set = &question->members;
        question->batch.divisor = found->op.size;
        write_answer(t, question);
    }
    pthread_mutex_unlock(&t->lock);
}

tutti_status tutti_explain_allreduce(tutti *t, tutti_process_set set, uint64_t count,
        tutti_dtype dtype, tutti_reduce_op op, char *text, size_t size)
{
    struct question question = {
        .set = set,
        .batch = { .collective = TUTTI_ALLREDUCE,
                .dtype = dtype,
                .op = meta_backend_op(op),
                .prescale = 1,
                .postscale = 1,
                .run_count = 1,
                .count = (size_t)count,
                .sizes_known = true },
        .text = text,
        .size = size,
    };
    tutti_status status = call_check_context(t);

    if (status != TUTTI_OK) {
        return status;
    }
    if (text == NULL || size == 0 || count == 0 || tutti_dtype_size(dtype) == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_explain_allreduce: it needs elements of a known type, and room "
                "for "
                "the text");
    }
    text[0] = '\0';
    if (!driver_borrow(t, answer, &question)) {
        return error_set(TUTTI_ERR_THREAD,
                "tutti_explain_allreduce: MPI's thread level lets only the thread call "
                "it that "
                "called tutti_init");
    }
    return question.status;
}
