/*
 * Loading of NCCL's kernels.
 */
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "test/gpusim/nccl/arrive.h"
#include "test/gpusim/nccl/calls.h"

/* Of a context; never freed, since a thread may be at it. */
struct load {
    struct load *next;
    cu_context context;
    unsigned long long id; /* tells it from a later one with the same handle */
    bool is_done;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a load has */
    struct load *first;
} loads = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

/* As NCCL, which ignores what fails here. */
static void *load(void *user)
{
    static const char image[] = "kernels of NCCL";
    struct load *self = user;
    cu_module module;

    (void)cuCtxSetCurrent(self->context);
    if (cuModuleLoadData(&module, image) == CU_SUCCESS) {
        (void)cuModuleUnload(module);
    }
    (void)pthread_mutex_lock(&loads.lock);
    self->is_done = true;
    (void)pthread_cond_broadcast(&loads.ended);
    (void)pthread_mutex_unlock(&loads.lock);
    return NULL;
}

static struct load *find_locked(cu_context context, unsigned long long id)
{
    struct load *at = loads.first;

    while (at != NULL && (at->context != context || at->id != id)) {
        at = at->next;
    }
    return at;
}

static struct load *begin_locked(cu_context context, unsigned long long id)
{
    struct load *begun = must(mem_calloc(1, sizeof *begun));
    pthread_t thread;

    *begun = (struct load){ .next = loads.first, .context = context, .id = id };
    loads.first = begun;
    if (pthread_create(&thread, NULL, load, begun) == 0) {
        (void)pthread_detach(thread);
    } else {
        begun->is_done = true;
    }
    return begun;
}

/* Waiting, if asked to; begins, if not. */
static bool look(nccl_comm comm, bool waits)
{
    unsigned long long id = 0;
    struct load *found;
    bool is_done;

    (void)cuCtxGetId(comm->context, &id);
    (void)pthread_mutex_lock(&loads.lock);
    found = find_locked(comm->context, id);
    if (found == NULL && !waits) {
        found = begin_locked(comm->context, id);
    }
    while (waits && found != NULL && !found->is_done) {
        (void)pthread_cond_wait(&loads.ended, &loads.lock);
    }
    is_done = found == NULL || found->is_done;
    (void)pthread_mutex_unlock(&loads.lock);
    return is_done;
}

bool load_kernels(nccl_comm comm)
{
    return look(comm, false);
}

void load_wait(nccl_comm comm)
{
    (void)look(comm, true);
}
