#include "run/capture.h"

#include "agree/meta.h"
#include "base/error.h"
#include "run/batch.h"
#include "run/context.h"
#include "run/operation.h"

tutti_status capture_refuse(const struct tutti *t, const char *name,
        tutti_stream stream, const char *way_out)
{
    return error_set(TUTTI_ERR_INVALID,
            "\"%s\": rank %d: stream %p is being captured in a CUDA graph, and only "
            "tutti_wait_stream() waits for operations of a graph: %s",
            name, t->rank, stream, way_out);
}

tutti_status capture_enter(struct tutti *t, tutti_stream stream)
{
    struct captures *captures = &t->captures;
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&t->lock);
    if (captures->threads > 0 && captures->stream != stream) {
        status = error_set(TUTTI_ERR_INVALID,
                "rank %d: another thread waits on stream %p for operations of a CUDA "
                "graph: wait on %p when it has returned",
                t->rank, captures->stream, stream);
    } else {
        captures->stream = stream;
        captures->threads++;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

void capture_leave(struct tutti *t)
{
    pthread_mutex_lock(&t->lock);
    t->captures.threads--;
    pthread_mutex_unlock(&t->lock);
}

bool capture_is_idle(void *t)
{
    const struct tutti *context = t;

    /* Acquire: pairs with capture_end(). */
    return atomic_load_explicit(&context->captures.issuing, memory_order_acquire) ==
            0 ||
            atomic_load_explicit(&context->failure.is_set, memory_order_acquire) != 0;
}

static void count(struct tutti *t, uint32_t change)
{
    /* Release: whoever sees that there is none may end the capture. */
    (void)atomic_fetch_add_explicit(&t->captures.issuing, change, memory_order_release);
}

tutti_status capture_begin(struct tutti *t, struct batch *batch)
{
    bool is_awaited;

    /* Counted under the lock: a thread that has left waits for it. */
    pthread_mutex_lock(&t->lock);
    is_awaited = t->captures.threads > 0;
    batch->op.stream = t->captures.stream;
    count(t, is_awaited ? 1 : 0);
    pthread_mutex_unlock(&t->lock);
    if (is_awaited) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "rank %d: %s \"%s\" was submitted while its stream was captured in a CUDA "
            "graph, and comes before what is waited for now: call tutti_wait_stream() "
            "for all operations of a capture before it ends, and before other waits",
            t->rank, meta_collective_name(batch->operations[0]->request.collective),
            batch->operations[0]->request.name);
}

void capture_end(struct tutti *t)
{
    count(t, UINT32_MAX);
}
