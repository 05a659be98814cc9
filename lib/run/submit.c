/*
 * Submission, on the caller's thread: from a checked call to the intake.
 */
#include "run/submit.h"

#include <string.h>

#include "base/mem.h"
#include "run/admit.h"
#include "run/buffers.h"
#include "run/check.h"
#include "run/context.h"
#include "run/failure.h"
#include "run/persistent.h"

/* The first published size of tutti_options: smaller ones cannot be. */
#define OPTIONS_SIZE_MIN (offsetof(tutti_options, user) + sizeof(void *))

void tutti_options_default_sized(tutti_options *options, size_t size)
{
    const tutti_options defaults = { .size = size,
        .process_set = TUTTI_WORLD,
        .prescale = 1,
        .postscale = 1,
        .step = TUTTI_NO_STEP };

    if (options != NULL) {
        memset(options, 0, size);
        memcpy(options, &defaults, size_min(size, sizeof defaults));
    }
}

tutti_status submit_options(const tutti_options *given, tutti_options *options)
{
    tutti_options_default(options);
    if (given == NULL) {
        return TUTTI_OK;
    }
    if (given->size < OPTIONS_SIZE_MIN) {
        return error_set(TUTTI_ERR_INVALID,
                "options of size %zu; fill them with tutti_options_default() first",
                given->size);
    }
    memcpy(options, given, size_min(given->size, sizeof *options));
    options->size = sizeof *options;
    return TUTTI_OK;
}

/* ---------------------------------------------------------------- queueing */

static tutti_status no_memory(const struct submission *s)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
}

/* The shape, and what a collective on rows adds. */
static size_t number_count(const struct submission *s, const struct op_set *set)
{
    return (size_t)s->meta.ndim +
            (meta_has_rows(s->collective) ? rows_numbers(s, set) : 0);
}

/* Of the input and of the output. */
static size_t part_count(const struct op_set *set)
{
    return 2 * (size_t)set->size;
}

/* The numbers behind the metadata. */
static bool fill_numbers(struct operation *operation, const struct submission *s)
{
    const struct op_set *set = &operation->set->op;
    struct meta *meta = &operation->request.meta;
    const size_t ndim = (size_t)s->meta.ndim;
    int64_t *numbers = operation_numbers(operation, number_count(s, set));

    if (numbers == NULL) {
        return false;
    }
    if (ndim > 0) {
        memcpy(numbers, s->meta.dims, ndim * sizeof *numbers);
    }
    meta->dims = numbers;
    if (meta_has_rows(s->collective)) {
        rows_describe(s, set, meta, numbers, numbers + ndim);
    }
    return true;
}

/* Where the parts lie that a collective on rows moves. */
static tutti_status fill_parts(struct operation *operation, const struct submission *s)
{
    const struct op_set *set = &operation->set->op;
    struct rows_layout layout;

    if (!operation_parts(operation, part_count(set))) {
        return no_memory(s);
    }
    layout.sends = operation->parts;
    layout.recvs = operation->parts + set->size;
    operation->part_members = set->size;
    rows_lay_out(s, set, &layout);
    operation->bytes = layout.input_bytes;
    return rows_check_buffers(s, set, &layout);
}

static tutti_status fill(struct operation *operation, const struct submission *s)
{
    struct tensor *tensor = operation->tensor;

    operation->request = (struct request){ .collective = s->collective,
        .name = tensor->name,
        .name_len = tensor->name_len,
        .hash = tensor->hash,
        .memo = &tensor->memo,
        .meta = s->meta,
        .cookie = operation,
        .priority = s->priority };
    operation->request.meta.step = s->step;
    operation->input = s->input;
    operation->output = s->output;
    operation->owns_output = rows_own_output(s, &operation->set->op);
    if (s->collective >= META_SET_CREATE) {
        return TUTTI_OK;
    }
    if (!fill_numbers(operation, s)) {
        return no_memory(s);
    }
    if (meta_has_rows(s->collective)) {
        return fill_parts(operation, s);
    }
    operation->bytes = (size_t)s->meta.count * tutti_dtype_size(s->meta.dtype);
    return TUTTI_OK;
}

bool submit_prepare(struct operation *operation, const struct submission *s)
{
    const struct op_set *set = &operation->set->op;

    return meta_has_rows(s->collective)
            ? operation_numbers(operation, number_count(s, set)) != NULL &&
                    operation_parts(operation, part_count(set))
            : fill(operation, s) == TUTTI_OK;
}

/* From here on the operation is as it will be queued. */
static void fill_streams(struct operation *operation, const struct submission *s)
{
    operation->stream = s->stream;
    operation->after = s->after;
}

/* Hands an operation over. It may be over before this returns. */
static void push(struct tutti *t, struct operation *operation, tutti_request *request)
{
    if (operation->callback == NULL) {
        *request = operation_handle(operation);
    }
    intake_push(&t->intake, operation, operation, 1);
}

/*
 * Lock held. The tensor is known; the rest cannot be refused but for being in flight, and
 * for its buffers.
 */
static tutti_status queue_tensor(struct tutti *t, struct process_set *set,
        struct tensor *tensor, const struct submission *s, tutti_request *request)
{
    const bool is_public = s->collective < META_SET_CREATE;
    struct open_group *group = is_public ? group_of_thread(&t->groups) : NULL;
    struct operation *operation = NULL;
    tutti_status status = admit_take(t, group, set, tensor, s, &operation);

    if (status != TUTTI_OK) {
        return status;
    }
    status = fill(operation, s);
    if (status != TUTTI_OK) {
        admit_withdraw(t, operation);
        return status;
    }
    fill_streams(operation, s);
    if (s->collective == META_JOIN) {
        set->joined = true;
        persistent_gate_all(t);
    }
    if (group == NULL) {
        push(t, operation, request);
        return TUTTI_OK;
    }
    group_add(group, operation);
    if (operation->callback == NULL) {
        *request = operation_handle(operation);
    }
    return TUTTI_OK;
}

/* Lock held. */
static tutti_status queue_locked(
        struct tutti *t, const struct submission *s, tutti_request *request)
{
    struct process_set *set = NULL;
    struct tensor *tensor;
    tutti_status status;

    if (s->collective == META_JOIN && group_of_thread(&t->groups) != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "a join inside a group (rank %d); end the group first", t->rank);
    }
    status = admit_find_set(t, s, &set);
    if (status != TUTTI_OK) {
        return status;
    }
    tensor = tensors_get(&set->tensors, s->collective, s->name, strlen(s->name));
    if (tensor == NULL) {
        return no_memory(s);
    }
    return queue_tensor(t, set, tensor, s, request);
}

/* The place of this rank in a set; false: it has none, which queue_locked() refuses. */
static bool find_place(struct tutti *t, tutti_process_set id, struct op_set *place)
{
    const struct process_set *set;
    bool found;

    pthread_mutex_lock(&t->lock);
    set = process_sets_find(&t->sets, id);
    found = set != NULL && set->op.rank >= 0;
    if (found) {
        *place = set->op;
        place->world_ranks = NULL; /* they may go */
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

static tutti_status queue(
        struct tutti *t, const struct submission *s, tutti_request *request)
{
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    status = queue_locked(t, s, request);
    pthread_mutex_unlock(&t->lock);
    if (status == TUTTI_OK) {
        context_notify(t);
    }
    return status;
}

/* What calls the driver of the device comes before the lock. */
static tutti_status place_and_queue(
        struct tutti *t, const struct submission *submission, tutti_request *request)
{
    struct submission s = *submission;
    struct op_set set;
    tutti_status status = TUTTI_OK;

    if (find_place(t, s.set, &set)) {
        status = failure_of_device(t, buffers_place(t, &s, &set, !group_is_open(t)));
    }
    if (status == TUTTI_OK) {
        status = queue(t, &s, request);
    }
    if (status != TUTTI_OK) {
        buffers_drop(t, &s);
    }
    return status;
}

tutti_status submit_queue(
        struct tutti *t, const struct submission *submission, tutti_request *request)
{
    return t->device.state != NULL ? place_and_queue(t, submission, request)
                                   : queue(t, submission, request);
}

/*
 * What is submitted in the name of a registered tensor. Field by field: to build it aside
 * and to copy it takes longer than all else that submits it.
 */
static void submission_of(const struct tensor *tensor, const struct submission *buffers,
        struct submission *s)
{
    const bool broadcasts = tensor->collective == TUTTI_BROADCAST;

    s->collective = tensor->collective;
    s->name = tensor->name;
    s->set = tensor->set->id;
    s->meta = tensor->meta;
    s->step = buffers->step;
    s->rows = tensor->rows;
    s->input = broadcasts ? buffers->output : buffers->input;
    s->output = tensor->rows.owns_output ? NULL : buffers->output;
    s->callback = buffers->callback;
    s->user = buffers->user;
    s->priority = tensor->priority;
    s->stream = tensor->stream;
    s->after = NULL;
}

/*
 * Where there is a device: finds the place of what is submitted the slow way. Whatever of
 * the tensor it looks at is a copy, because the tensor may be unregistered meanwhile.
 */
static tutti_status place_registered(struct tutti *t, tutti_tensor handle,
        const struct submission *buffers, struct submission *placed)
{
    char name[TUTTI_NAME_MAX + 1];
    struct op_set set = { .rank = -1 };
    const struct operation *own;
    tutti_status status;

    if (t->device.state == NULL) {
        return TUTTI_OK;
    }
    pthread_mutex_lock(&t->lock);
    own = persistent_find(&t->operations, handle);
    if (own != NULL) {
        submission_of(own->tensor, buffers, placed);
        set = own->set->op;
        memcpy(name, placed->name, strlen(placed->name) + 1);
    }
    pthread_mutex_unlock(&t->lock);
    if (own == NULL) {
        return persistent_unknown(handle);
    }
    placed->name = name;
    status = buffers_place(t, placed, &set, !group_is_open(t));
    placed->name = NULL;
    return status;
}

/* Lock held: finds the reason why it could not be taken, or does without. */
static tutti_status registered_locked(struct tutti *t, tutti_tensor handle,
        const struct submission *buffers, const struct submission *placed,
        tutti_request *request)
{
    const struct operation *own = persistent_find(&t->operations, handle);
    struct process_set *set = NULL;
    struct submission s;
    tutti_status status;

    if (own == NULL) {
        return persistent_unknown(handle);
    }
    submission_of(own->tensor, buffers, &s);
    s.meta.space = placed->meta.space;
    s.after = placed->after;
    status = admit_find_set(t, &s, &set);
    return status == TUTTI_OK ? queue_tensor(t, set, own->tensor, &s, request) : status;
}

static tutti_status queue_slowly(struct tutti *t, tutti_tensor handle,
        const struct submission *buffers, tutti_request *request)
{
    struct submission placed = { 0 };
    tutti_status status = place_registered(t, handle, buffers, &placed);

    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&t->lock);
    status = registered_locked(t, handle, buffers, &placed, request);
    pthread_mutex_unlock(&t->lock);
    if (status != TUTTI_OK) {
        buffers_drop(t, &placed);
    }
    return status;
}

/*
 * All but the buffers is as it was prepared.
 * @return false, and nothing is done: there is more to look at
 */
static bool refill(const struct tutti *t, struct operation *operation,
        const struct submission *buffers)
{
    const int collective = operation->tensor->collective;
    struct meta *meta = &operation->request.meta;
    const void *input =
            collective == TUTTI_BROADCAST ? buffers->output : buffers->input;

    if (t->device.state != NULL || meta_has_rows(collective) || input == NULL ||
            buffers->output == NULL) {
        return false;
    }
    operation_begin(operation, buffers->callback, buffers->user);
    meta->step = buffers->step;
    operation->input = input;
    operation->output = buffers->output;
    operation->bytes = (size_t)meta->count * tutti_dtype_size(meta->dtype);
    operation->stream = operation->tensor->stream;
    return true;
}

/* It is taken: nobody else touches the operation, nor unregisters its tensor. */
static tutti_status queue_persistent(struct tutti *t, struct operation *operation,
        const struct submission *buffers, tutti_request *request)
{
    struct submission s;
    tutti_status status;

    if (refill(t, operation, buffers)) {
        push(t, operation, request);
        persistent_filled(operation);
        return TUTTI_OK;
    }
    submission_of(operation->tensor, buffers, &s);
    operation_begin(operation, s.callback, s.user);
    status = check_in_set(&s, &operation->set->op);
    if (status == TUTTI_OK) {
        status = buffers_place(t, &s, &operation->set->op, true);
    }
    if (status == TUTTI_OK) {
        status = fill(operation, &s);
    }
    if (status == TUTTI_OK) {
        fill_streams(operation, &s);
        push(t, operation, request);
    } else {
        buffers_drop(t, &s);
        /* It cannot have been unregistered, so it is not for the pool. */
        (void)!operation_end(operation);
    }
    persistent_filled(operation);
    return status;
}

tutti_status submit_registered(struct tutti *t, tutti_tensor tensor,
        const struct submission *buffers, tutti_request *request)
{
    struct operation *operation = NULL;
    tutti_status status;

    /* Relaxed: a group of this thread is seen, and others are none of its business. */
    if (atomic_load_explicit(&t->groups.open, memory_order_relaxed) == 0) {
        operation = persistent_take(&t->operations, tensor);
    }
    status = failure_of_device(t,
            operation != NULL ? queue_persistent(t, operation, buffers, request)
                              : queue_slowly(t, tensor, buffers, request));
    if (status == TUTTI_OK) {
        context_notify(t);
    }
    return status;
}
