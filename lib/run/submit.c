/*
 * Submission, on the caller's thread: from a checked call to the intake.
 */
#include "run/submit.h"

#include <string.h>

#include "agree/names.h"
#include "base/mem.h"
#include "observe/observe.h"
#include "run/buffers.h"
#include "run/check.h"
#include "run/context.h"
#include "run/failure.h"
#include "run/persistent.h"
#include "run/tensor_use.h"

/* The first published size of tutti_options: smaller ones cannot be. */
#define OPTIONS_SIZE_MIN (offsetof(tutti_options, user) + sizeof(void *))

static const tutti_options default_options = { .size = sizeof default_options,
    .process_set = TUTTI_WORLD,
    .prescale = 1,
    .postscale = 1,
    .step = TUTTI_NO_STEP };

void tutti_options_default_sized(tutti_options *options, size_t size)
{
    if (options != NULL) {
        memset(options, 0, size);
        memcpy(options, &default_options, size_min(size, sizeof default_options));
        options->size = size;
    }
}

tutti_status submit_options(const tutti_options **options, tutti_options *older)
{
    const tutti_options *given = *options;

    if (given == NULL) {
        *options = &default_options;
        return TUTTI_OK;
    }
    if (given->size < OPTIONS_SIZE_MIN) {
        return error_set(TUTTI_ERR_INVALID,
                "options of size %zu; fill them with tutti_options_default() first",
                given->size);
    }
    if (given->size < sizeof *older) {
        tutti_options_default(older);
        memcpy(older, given, given->size);
        *options = older;
    }
    return TUTTI_OK;
}

/* ---------------------------------------------------------------- queueing */

tutti_status submit_no_memory(const struct submission *s)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
}

/* The shape, and what a collective on rows adds. */
static size_t number_count(const struct submission *s, const struct op_set *set)
{
    return (size_t)s->meta.ndim +
            (meta_has_rows(s->collective) ? rows_numbers(s, set) : 0);
}

static bool reserve_numbers(struct operation *operation, const struct submission *s)
{
    return mem_grow(&operation->numbers.list, &operation->numbers.capacity,
            number_count(s, &operation->set->op), sizeof *operation->numbers.list);
}

/* Of the input and of the output. */
static bool reserve_parts(struct operation *operation)
{
    return mem_grow(&operation->parts.list, &operation->parts.capacity,
            2 * (size_t)operation->set->op.size, sizeof *operation->parts.list);
}

/* Of collectives to a root the output of others is not used. */
static void lend(struct operation *operation, size_t input_bytes, size_t output_bytes)
{
    const int collective = operation->request.collective;
    const bool has_root = collective == TUTTI_REDUCE || collective == TUTTI_GATHER;

    operation_lend(operation, 0, operation->memory.input, input_bytes);
    operation_lend(operation, 1, operation->memory.output,
            has_root && operation->request.meta.root != operation->set->op.rank
                    ? 0
                    : output_bytes);
}

/* The numbers behind the metadata. */
static bool fill_numbers(struct operation *operation, const struct submission *s)
{
    const struct op_set *set = &operation->set->op;
    struct meta *meta = &operation->request.meta;
    const size_t ndim = (size_t)s->meta.ndim;
    int64_t *numbers;

    if (!reserve_numbers(operation, s)) {
        return false;
    }
    numbers = operation->numbers.list;
    if (ndim > 0) {
        memcpy(numbers, s->meta.dims, ndim * sizeof *numbers);
    }
    meta->dims = numbers;
    if (meta_has_rows(s->collective)) {
        rows_describe(s, set, meta, numbers, ndim > 0 ? numbers + ndim : numbers);
    }
    return true;
}

/* Where the parts lie that a collective on rows moves. */
static tutti_status fill_parts(struct operation *operation, const struct submission *s)
{
    const struct op_set *set = &operation->set->op;
    struct rows_layout layout;

    if (!reserve_parts(operation)) {
        return submit_no_memory(s);
    }
    layout.sends = operation->parts.list;
    layout.recvs = operation->parts.list + set->size;
    operation->parts.members = set->size;
    rows_lay_out(s, set, &layout);
    operation->memory.bytes = layout.input_bytes;
    lend(operation, layout.input_bytes, layout.output_bytes);
    return rows_check_buffers(s, set, &layout);
}

static tutti_status fill(struct operation *operation, const struct submission *s)
{
    struct tensor_state *tensor = operation->request.tensor;

    operation->request = (struct request){ .collective = s->collective,
        .name = tensor->name,
        .name_len = tensor->name_len,
        .hash = tensor->hash,
        .tensor = tensor,
        .meta = s->meta,
        .cookie = operation,
        .priority = s->priority };
    operation->request.meta.step = s->step;
    operation->memory.input = s->input;
    operation->memory.output = s->output;
    operation->memory.owns_output =
            s->rows.owns_output && rows_own_output(s, &operation->set->op);
    if (s->collective >= META_SET_CREATE) {
        lend(operation, 0, sizeof(int));
        return TUTTI_OK;
    }
    if (!fill_numbers(operation, s)) {
        return submit_no_memory(s);
    }
    if (meta_has_rows(s->collective)) {
        return fill_parts(operation, s);
    }
    operation->memory.bytes = (size_t)s->meta.count * tutti_dtype_size(s->meta.dtype);
    lend(operation, operation->memory.bytes, operation->memory.bytes);
    return TUTTI_OK;
}

bool submit_prepare(struct operation *operation, const struct submission *s)
{
    return meta_has_rows(s->collective)
            ? reserve_numbers(operation, s) && reserve_parts(operation)
            : fill(operation, s) == TUTTI_OK;
}

/* From here on the operation is as it will be queued. */
static void fill_streams(struct operation *operation, const struct submission *s)
{
    operation->on_device.stream = s->stream;
    operation->on_device.after = s->after;
}

/* Hands an operation over. It may be over before this returns. */
static void push(struct tutti *t, struct operation *operation, tutti_request *request)
{
    observe_operation(t, operation, EVENT_SUBMITTED,
            atomic_load_explicit(&t->work.intake.count, memory_order_relaxed));
    if (operation->callback.call == NULL) {
        *request = operation_handle(operation);
    }
    intake_push(&t->work.intake, operation, operation, 1);
}

static tutti_status in_flight_already(
        const struct tutti *t, const struct tensor_state *tensor)
{
    if (tensor->collective == META_JOIN) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "rank %d has joined already; wait for that join", t->rank);
    }
    return error_set(TUTTI_ERR_DUPLICATE,
            "%s \"%s\" is in flight already on rank %d; wait for it, or use another "
            "name",
            meta_collective_name(tensor->collective), tensor->name, t->rank);
}

/* An operation of the pool becomes one of the tensor, whose name is in flight from then on. */
static tutti_status begin_named(struct tutti *t, struct operation *operation,
        struct tensor_state *tensor, const struct submission *s)
{
    tutti_status status;

    operation->request.tensor = tensor;
    operation_begin(operation, s->callback, s->user);
    status = fill(operation, s);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!tensor_use_begin(tensor->user)) {
        return in_flight_already(t, tensor);
    }
    operation->record = tensor_use_record(operation->set, tensor);
    operation->set->in_flight++;
    fill_streams(operation, s);
    return TUTTI_OK;
}

/*
 * Lock held. The tensor is known; the rest cannot be refused but for being in flight, and
 * for its buffers.
 */
static tutti_status queue_tensor(struct tutti *t, struct open_group *group,
        struct process_set *set, struct tensor_state *tensor,
        const struct submission *s, tutti_request *request)
{
    struct operation *operation = operation_take(&t->work.operations);
    tutti_status status;

    if (operation == NULL) {
        return submit_no_memory(s);
    }
    operation->set = set;
    status = begin_named(t, operation, tensor, s);
    if (status != TUTTI_OK) {
        if (operation_end(operation)) {
            operation_put_back(&t->work.operations, operation);
        }
        return status;
    }
    if (s->collective == META_JOIN) {
        set->joined = true;
        persistent_gate_all(t);
    }
    if (group == NULL || s->collective >= META_SET_CREATE) {
        push(t, operation, request);
        return TUTTI_OK;
    }
    group_add(group, operation);
    if (operation->callback.call == NULL) {
        *request = operation_handle(operation);
    }
    return TUTTI_OK;
}

/*
 * What is submitted in the name of a registered tensor. Field by field: to build it aside
 * and to copy it takes longer than all else that submits it.
 */
static void describe_registered(const struct operation *own, struct submission *s)
{
    const struct tensor_use *use = own->request.tensor->user;
    const struct submission *all = &use->registration->all;

    s->collective = all->collective;
    s->name = all->name;
    s->set = all->set;
    s->meta = all->meta;
    s->rows = all->rows;
    s->input = all->collective == TUTTI_BROADCAST ? s->output : s->input;
    s->output = all->rows.owns_output ? NULL : s->output;
    s->priority = all->priority;
    s->stream = all->stream;
}

/*
 * Lock held. The tensor of a handle, which may have been unregistered since anybody looked; its
 * description holds as long as the lock. NULL: unknown.
 */
static struct tensor_state *find_registered(
        struct tutti *t, tutti_tensor handle, struct submission *s)
{
    const struct operation *own = persistent_find(&t->work.operations, handle);
    const enum op_space space = s->meta.space;
    const uint64_t spot = s->meta.spot;

    if (own == NULL) {
        return NULL;
    }
    describe_registered(own, s);
    s->meta.space = space;
    s->meta.spot = spot;
    return own->request.tensor;
}

/* Lock held. The pair of a message to or from a member of a set. */
static tutti_status find_pair(
        struct tutti *t, const struct submission *s, struct process_set **set)
{
    const int peer = (*set)->world_ranks[s->peer];

    return s->sends ? pairs_get(t, t->rank, peer, set)
                    : pairs_get(t, peer, t->rank, set);
}

/* Lock held. handle: of a registered tensor, or 0. */
static tutti_status queue_locked(struct tutti *t, struct submission *s,
        tutti_tensor handle, tutti_request *request)
{
    struct open_group *group =
            groups_are_open(&t->work.groups) ? group_of_thread(&t->work.groups) : NULL;
    struct process_set *set = NULL;
    struct tensor_state *tensor = NULL;
    tutti_status status;

    if (handle != 0) {
        tensor = find_registered(t, handle, s);
        if (tensor == NULL) {
            return persistent_unknown(handle);
        }
    }
    status = check_find_set(t, group, s, &set);
    if (status == TUTTI_OK && s->collective == TUTTI_MESSAGE) {
        status = find_pair(t, s, &set);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (tensor == NULL) {
        tensor = tensor_use_hold(set, s->collective, s->name);
    } else {
        tensor->holds++;
    }
    if (tensor == NULL) {
        return submit_no_memory(s);
    }
    status = queue_tensor(t, group, set, tensor, s, request);
    if (status != TUTTI_OK) {
        names_let_go(&set->negotiator, tensor);
    }
    return status;
}

/*
 * Where there is a device: where the buffers lie, and what is on their stream. This calls the
 * driver of the device, so it comes before the lock, and looks at a copy of what may go.
 */
static tutti_status place_buffers(
        struct tutti *t, struct submission *s, tutti_tensor handle)
{
    char name[TUTTI_NAME_MAX + 1];
    const struct process_set *set;
    struct op_set member;
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    if (handle != 0 && find_registered(t, handle, s) != NULL) {
        memcpy(name, s->name, strlen(s->name) + 1);
        s->name = name;
    }
    set = process_sets_find(&t->sets, s->set);
    if (s->name == NULL || set == NULL || set->op.rank < 0) {
        /* queue_locked() refuses it. */
        pthread_mutex_unlock(&t->lock);
        return TUTTI_OK;
    }
    member = set->op;
    member.world_ranks = NULL; /* they may go */
    pthread_mutex_unlock(&t->lock);
    status = failure_of_device(t,
            buffers_place(t, s, &member,
                    !groups_are_open(&t->work.groups) || !group_is_open(t)));
    if (handle != 0) {
        s->name = NULL;
    }
    return status;
}

static tutti_status queue(struct tutti *t, struct submission *s, tutti_tensor handle,
        tutti_request *request)
{
    tutti_status status =
            t->device.state != NULL ? place_buffers(t, s, handle) : TUTTI_OK;

    if (status == TUTTI_OK) {
        pthread_mutex_lock(&t->lock);
        status = queue_locked(t, s, handle, request);
        pthread_mutex_unlock(&t->lock);
    }
    if (status != TUTTI_OK) {
        buffers_drop(t, s);
        return status;
    }
    context_notify(t, s->callback != NULL ? 1 : 0);
    return TUTTI_OK;
}

tutti_status submit_queue(
        struct tutti *t, struct submission *submission, tutti_request *request)
{
    return queue(t, submission, 0, request);
}

/*
 * All but the buffers is as it was prepared.
 * @return false, and nothing is done: there is more to look at
 */
static bool refill(const struct tutti *t, struct operation *operation,
        const struct submission *buffers)
{
    const int collective = operation->request.tensor->collective;
    struct meta *meta = &operation->request.meta;
    const void *input =
            collective == TUTTI_BROADCAST ? buffers->output : buffers->input;

    if (t->device.state != NULL || meta_has_rows(collective) || input == NULL ||
            buffers->output == NULL) {
        return false;
    }
    operation_begin(operation, buffers->callback, buffers->user);
    meta->step = buffers->step;
    operation->memory.input = input;
    operation->memory.output = buffers->output;
    operation->memory.bytes = (size_t)meta->count * tutti_dtype_size(meta->dtype);
    lend(operation, operation->memory.bytes, operation->memory.bytes);
    return true;
}

static tutti_status fill_persistent(
        struct tutti *t, struct operation *operation, struct submission *s)
{
    tutti_status status;

    if (refill(t, operation, s)) {
        return TUTTI_OK;
    }
    describe_registered(operation, s);
    operation_begin(operation, s->callback, s->user);
    status = check_in_set(s, &operation->set->op);
    if (status != TUTTI_OK) {
        return status;
    }
    status = buffers_place(t, s, &operation->set->op, true);
    if (status != TUTTI_OK) {
        return status;
    }
    status = fill(operation, s);
    if (status == TUTTI_OK) {
        fill_streams(operation, s);
    }
    return status;
}

/* It is taken: nobody else touches the operation, nor unregisters its tensor. */
static tutti_status queue_persistent(struct tutti *t, struct operation *operation,
        struct submission *s, tutti_request *request)
{
    const tutti_status status = fill_persistent(t, operation, s);

    if (status == TUTTI_OK) {
        push(t, operation, request);
    } else {
        buffers_drop(t, s);
        /* It cannot have been unregistered, so it is not for the pool. */
        (void)!operation_end(operation);
    }
    persistent_filled(operation);
    return status;
}

tutti_status submit_registered(struct tutti *t, tutti_tensor tensor,
        struct submission *s, tutti_request *request)
{
    struct operation *operation = NULL;
    tutti_status status;

    if (!groups_are_open(&t->work.groups)) {
        operation = persistent_take(&t->work.operations, tensor);
    }
    if (operation == NULL) {
        return queue(t, s, tensor, request);
    }
    status = failure_of_device(t, queue_persistent(t, operation, s, request));
    if (status == TUTTI_OK) {
        context_notify(t, s->callback != NULL ? 1 : 0);
    }
    return status;
}
