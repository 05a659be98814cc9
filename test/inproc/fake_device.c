/*
 * A device for tests.
 */
#include "test/inproc/fake_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct device_event {
    uint64_t number;
    int references;
};

static void lock(struct fake_device *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
}

static void unlock(struct fake_device *fake)
{
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_device_init(struct fake_device *fake)
{
    memset(fake, 0, sizeof *fake);
    (void)pthread_mutex_init(&fake->lock, NULL);
    (void)pthread_cond_init(&fake->changed, NULL);
}

void fake_device_fini(struct fake_device *fake)
{
    for (int i = 0; i < FAKE_BLOCKS_MAX; i++) {
        free(fake->blocks[i].memory);
    }
    (void)pthread_cond_destroy(&fake->changed);
    (void)pthread_mutex_destroy(&fake->lock);
}

int fake_get(struct fake_device *fake, const int *number)
{
    int value;

    lock(fake);
    value = *number;
    unlock(fake);
    return value;
}

uint64_t fake_made(struct fake_device *fake)
{
    uint64_t made;

    lock(fake);
    made = fake->made;
    unlock(fake);
    return made;
}

void fake_hold(struct fake_device *fake, bool held)
{
    lock(fake);
    fake->held = held;
    unlock(fake);
}

void fake_gate(struct fake_device *fake, bool gated)
{
    lock(fake);
    fake->gated = gated;
    unlock(fake);
}

void fake_need_quits(struct fake_device *fake, int quits)
{
    lock(fake);
    fake->quits_needed = quits;
    unlock(fake);
}

void fake_await_issued(struct fake_device *fake, int issued)
{
    lock(fake);
    while (fake->issued < issued) {
        (void)pthread_cond_wait(&fake->changed, &fake->lock);
    }
    unlock(fake);
}

/* ------------------------------------------------------------------- memory */

static void *give(struct fake_device *fake, size_t bytes)
{
    for (int i = 0; i < FAKE_BLOCKS_MAX; i++) {
        if (fake->blocks[i].memory == NULL) {
            fake->blocks[i].memory = calloc(1, bytes);
            fake->blocks[i].bytes = bytes;
            return fake->blocks[i].memory;
        }
    }
    return NULL;
}

void *fake_memory(struct fake_device *fake, size_t bytes)
{
    void *memory;

    lock(fake);
    memory = give(fake, bytes);
    unlock(fake);
    return memory;
}

static void *fake_alloc(void *state, size_t bytes)
{
    struct fake_device *fake = state;
    void *memory;

    lock(fake);
    memory = give(fake, bytes);
    fake->given += memory != NULL ? 1 : 0;
    unlock(fake);
    return memory;
}

static void fake_give_back(void *state, void *memory)
{
    struct fake_device *fake = state;

    lock(fake);
    for (int i = 0; i < FAKE_BLOCKS_MAX && memory != NULL; i++) {
        if (fake->blocks[i].memory == memory) {
            free(memory);
            fake->blocks[i].memory = NULL;
            fake->given--;
        }
    }
    unlock(fake);
}

static tutti_status fake_look(
        void *state, const void *memory, size_t bytes, enum op_space *space)
{
    struct fake_device *fake = state;
    tutti_status status = TUTTI_OK;
    const char *at = memory;

    *space = OP_HOST;
    lock(fake);
    for (int i = 0; i < FAKE_BLOCKS_MAX; i++) {
        const char *begin = fake->blocks[i].memory;
        const char *end = begin + fake->blocks[i].bytes;

        if (begin == NULL || at < begin || at >= end) {
            continue;
        }
        *space = OP_DEVICE;
        if (at + bytes > end) {
            status = error_set(TUTTI_ERR_INVALID, "the memory ends before");
        }
    }
    unlock(fake);
    return status;
}

static void *fake_host_alloc(void *state, size_t bytes)
{
    (void)state;
    return calloc(1, bytes);
}

static void fake_host_give_back(void *state, void *memory)
{
    (void)state;
    free(memory);
}

/* -------------------------------------------------------------------- events */

static struct device_event *make_event(struct fake_device *fake)
{
    struct device_event *event = calloc(1, sizeof *event);

    if (event != NULL) {
        event->number = ++fake->made;
        event->references = 1;
        fake->references++;
    }
    return event;
}

static tutti_status fake_record(
        void *state, tutti_stream stream, struct device_event **event, bool *captured)
{
    struct fake_device *fake = state;
    tutti_status status = TUTTI_OK;

    *captured = false;
    lock(fake);
    if (stream != NULL && stream == fake->foreign) {
        status = error_set(TUTTI_ERR_INVALID, "the stream is of another context");
    } else if (fake->full) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for an event");
    } else {
        *event = make_event(fake);
    }
    unlock(fake);
    return status;
}

static tutti_status fake_follow(
        void *state, tutti_stream stream, struct device_event *event)
{
    struct fake_device *fake = state;
    tutti_status status = TUTTI_OK;

    lock(fake);
    if (stream != NULL && stream == fake->foreign) {
        status = error_set(TUTTI_ERR_INVALID, "the stream is of another context");
    } else {
        fake->follows[fake->follow_count++ % FAKE_FOLLOWS_MAX] =
                (struct fake_follow){ .stream = stream, .event = event->number };
    }
    unlock(fake);
    return status;
}

static tutti_status fake_alive(void *state)
{
    struct fake_device *fake = state;
    tutti_status status = TUTTI_OK;

    lock(fake);
    if (fake->lost) {
        status = error_set(TUTTI_ERR_SYSTEM, "the fake device is lost");
    }
    unlock(fake);
    return status;
}

static tutti_status fake_passed(void *state, struct device_event *event)
{
    struct fake_device *fake = state;
    tutti_status status;

    (void)event;
    lock(fake);
    status = fake->held ? TUTTI_AGAIN : TUTTI_OK;
    if (fake->lost) {
        status = error_set(TUTTI_ERR_SYSTEM, "the fake device is lost");
    }
    unlock(fake);
    return status;
}

static void fake_event_hold(void *state, struct device_event *event)
{
    struct fake_device *fake = state;

    lock(fake);
    event->references++;
    fake->references++;
    unlock(fake);
}

static void fake_event_release(void *state, struct device_event *event)
{
    struct fake_device *fake = state;

    if (event == NULL) {
        return;
    }
    lock(fake);
    fake->references--;
    event->references--;
    if (event->references == 0) {
        free(event);
    }
    unlock(fake);
}

static tutti_status fake_copy(void *state, enum device_way way,
        const struct device_copy *copies, size_t count,
        struct device_event *const *after, size_t after_count,
        struct device_event **done)
{
    struct fake_device *fake = state;

    (void)way;
    (void)after;
    (void)after_count;
    lock(fake);
    for (size_t i = 0; i < count; i++) {
        memcpy(copies[i].to, copies[i].from, copies[i].bytes);
    }
    *done = make_event(fake);
    unlock(fake);
    return TUTTI_OK;
}

struct device fake_device(struct fake_device *fake)
{
    return (struct device){ .state = fake,
        .look = fake_look,
        .record = fake_record,
        .follow = fake_follow,
        .passed = fake_passed,
        .alive = fake_alive,
        .hold = fake_event_hold,
        .release = fake_event_release,
        .copy = fake_copy,
        .alloc = fake_alloc,
        .give_back = fake_give_back,
        .host_alloc = fake_host_alloc,
        .host_give_back = fake_host_give_back };
}

/* ------------------------------------------------------------------ backend */

static tutti_status open_fake(const struct op_env *env, void **state)
{
    *state = env->native;
    return TUTTI_OK;
}

static void close_fake(void *state)
{
    (void)state;
}

static bool takes_known(const void *state, const struct op_batch *batch)
{
    (void)state;
    return batch->set->size == 1 && batch->sizes_known;
}

static tutti_status start_fake(void *state, void *task, const struct op_batch *batch)
{
    struct fake_device *fake = state;

    memcpy(task, &batch, sizeof batch);
    lock(fake);
    fake->started++;
    unlock(fake);
    return TUTTI_OK;
}

/* Of a set of one the result is the input. */
static void carry_out(const struct op_batch *batch)
{
    for (size_t i = 0; i < batch->run_count; i++) {
        const struct op_run *run = &batch->runs[i];
        const size_t bytes = run->recvs != NULL
                ? run->sends[0].bytes
                : run->count * tutti_dtype_size(batch->dtype);

        if (bytes > 0 && run->output != run->input && run->output != NULL) {
            memcpy(run->output, run->input, bytes);
        }
    }
}

static tutti_status step_fake(void *state, void *task, bool *moved)
{
    struct fake_device *fake = state;
    const struct op_batch *batch;
    bool gated;

    memcpy(&batch, task, sizeof batch);
    lock(fake);
    gated = fake->gated;
    if (!gated) {
        carry_out(batch);
        *batch->issued = make_event(fake);
        fake->events_of_last = batch->after_count;
        fake->runs_of_last = batch->run_count;
        fake->issued++;
        *moved = true;
    }
    unlock(fake);
    return gated ? TUTTI_AGAIN : TUTTI_OK;
}

/* As an abort does, it lets what is stuck pass. */
static bool quit_fake(void *state)
{
    struct fake_device *fake = state;
    bool quit;

    lock(fake);
    quit = ++fake->quits > fake->quits_needed;
    if (quit) {
        fake->held = false;
    }
    unlock(fake);
    return quit;
}

static bool cancel_fake(void *state, void *task)
{
    (void)task;
    return quit_fake(state);
}

const struct op_backend op_fake = { .name = "fake",
    .takes_runs = ~0u,
    .task_bytes = sizeof(void *),
    .space = OP_DEVICE,
    .open = open_fake,
    .close = close_fake,
    .accepts = takes_known,
    .start = start_fake,
    .step = step_fake,
    .cancel = cancel_fake,
    .quit = quit_fake };
