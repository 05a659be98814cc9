/*
 * Queueing submissions.
 */
#include "core/submit.h"

#include <string.h>

#include "base/mem.h"
#include "core/check.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/failure.h"
#include "core/lease.h"
#include "core/placement.h"
#include "core/registration.h"

/* The first published size of tutti_options: smaller ones cannot be. */
#define OPTIONS_SIZE_MIN (offsetof(tutti_options, user) + sizeof(void *))

void tutti_options_default_sized(tutti_options *options, size_t size)
{
    const tutti_options defaults = {
        .size = size, .process_set = TUTTI_WORLD, .prescale = 1, .postscale = 1
    };

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

/* Lock held. */
static tutti_status check_open(struct tutti *t)
{
    if (t->failure.status != TUTTI_OK) {
        return error_raise(&t->failure);
    }
    if (t->closing) {
        return error_set(
                TUTTI_ERR_FINALIZED, "rank %d has called tutti_finalize()", t->rank);
    }
    return TUTTI_OK;
}

/* Lock held. */
static tutti_status find_set(
        struct tutti *t, const struct submission *s, struct process_set **found)
{
    struct process_set *set = process_sets_find(&t->sets, s->set);

    if (set == NULL || (set->closing && s->collective < META_SET_CREATE)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": there is no process set %u",
                s->name, s->set);
    }
    if (set->op.rank < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rank %d is no member of process set %u", s->name, t->rank,
                s->set);
    }
    if (set->joined && s->collective != META_FINALIZE && s->collective != META_JOIN) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": rank %d has joined process set %u; wait for the join first",
                s->name, t->rank, s->set);
    }
    *found = set;
    return check_in_set(s, &set->op);
}

static tutti_status check_group(const struct tutti *t, const struct open_group *group,
        const struct submission *s)
{
    if (group == NULL || group->newest == NULL) {
        return TUTTI_OK;
    }
    if (group->newest->set->id != s->set) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": its group uses process set %u, not %u (rank %d); a group "
                "stays "
                "within one set",
                s->name, group->newest->set->id, s->set, t->rank);
    }
    return TUTTI_OK;
}

/* The shape, and what a collective on rows adds. */
static size_t number_count(const struct submission *s, const struct op_set *set)
{
    return (size_t)s->meta.ndim +
            (rows_apply(s->collective) ? rows_numbers(s, set) : 0);
}

/* Of the input and of the output. */
static size_t part_count(const struct op_set *set)
{
    return 2 * (size_t)set->size;
}

bool submit_reserve(struct work *work, const struct submission *s)
{
    const struct op_set *set = &work->set->op;

    return work_numbers(work, number_count(s, set)) != NULL &&
            (!rows_apply(s->collective) || work_parts(work, part_count(set)));
}

/* The numbers behind the metadata. */
static bool fill_numbers(struct work *work, const struct submission *s)
{
    const struct op_set *set = &work->set->op;
    struct meta *meta = &work->request.meta;
    const size_t ndim = (size_t)s->meta.ndim;
    int64_t *numbers = work_numbers(work, number_count(s, set));

    if (numbers == NULL) {
        return false;
    }
    if (ndim > 0) {
        memcpy(numbers, s->meta.dims, ndim * sizeof *numbers);
    }
    meta->dims = numbers;
    if (rows_apply(s->collective)) {
        rows_describe(s, set, meta, numbers, numbers + ndim);
    }
    return true;
}

static tutti_status no_memory(const struct submission *s)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
}

/* Where the parts lie that a collective on rows moves. */
static tutti_status fill_parts(struct work *work, const struct submission *s)
{
    const struct op_set *set = &work->set->op;
    struct rows_layout layout;

    if (!work_parts(work, part_count(set))) {
        return no_memory(s);
    }
    layout.sends = work->parts;
    layout.recvs = work->parts + set->size;
    rows_lay_out(s, set, &layout);
    work->bytes = layout.input_bytes;
    return rows_check_buffers(s, set, &layout);
}

static tutti_status fill(struct work *work, const struct submission *s)
{
    struct tensor *tensor = work->tensor;

    work->request = (struct request){ .collective = s->collective,
        .name = tensor->name,
        .name_len = tensor->name_len,
        .hash = tensor->hash,
        .memo = &tensor->memo,
        .meta = s->meta,
        .cookie = work,
        .priority = s->priority };
    work->input = s->input;
    work->output = s->output;
    work->owns_output = rows_own_output(s, &work->set->op);
    if (s->collective >= META_SET_CREATE) {
        return TUTTI_OK;
    }
    if (!fill_numbers(work, s)) {
        return no_memory(s);
    }
    if (rows_apply(s->collective)) {
        return fill_parts(work, s);
    }
    work->bytes = (size_t)s->meta.count * tutti_dtype_size(s->meta.dtype);
    return TUTTI_OK;
}

static tutti_status in_flight_already(
        const struct tutti *t, const struct tensor *tensor)
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

/* Lock held. */
static tutti_status take_work(struct tutti *t, struct process_set *set,
        struct tensor *tensor, const struct submission *s, struct work **taken)
{
    struct work *work = work_take(&t->works);

    if (work == NULL) {
        return no_memory(s);
    }
    if (!tensors_hold(&set->tensors, tensor, work)) {
        work_put_back(&t->works, work);
        return in_flight_already(t, tensor);
    }
    work->set = set;
    work->tensor = tensor;
    set->in_flight++;
    work_begin(work, s->callback, s->user);
    *taken = work;
    return TUTTI_OK;
}

void submit_withdraw(struct tutti *t, struct work *work)
{
    tensors_let_go(&work->set->tensors, work->tensor);
    work->set->in_flight--;
    if (work->after != NULL) {
        t->device.release(t->device.state, work->after);
        work->after = NULL;
    }
    if (work_end(work)) {
        work_put_back(&t->works, work);
    }
}

/* From here on the work is as it will be queued. */
static void fill_streams(struct work *work, const struct submission *s)
{
    work->stream = s->stream;
    work->after = s->after;
}

/* Hands a work over. It may be over before this returns. */
static void push(struct tutti *t, struct work *work, tutti_request *request)
{
    if (work->callback == NULL) {
        *request = work_handle(work);
    }
    intake_push(&t->intake, work, work, 1);
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
    struct work *work = NULL;
    tutti_status status = check_group(t, group, s);

    if (status == TUTTI_OK) {
        status = take_work(t, set, tensor, s, &work);
    }
    if (work == NULL) {
        return status; /* the reason */
    }
    status = fill(work, s);
    if (status != TUTTI_OK) {
        submit_withdraw(t, work);
        return status;
    }
    fill_streams(work, s);
    if (s->collective == META_JOIN) {
        set->joined = true;
        registration_gate(t);
    }
    if (group == NULL) {
        push(t, work, request);
        return TUTTI_OK;
    }
    group_add(group, work);
    if (work->callback == NULL) {
        *request = work_handle(work);
    }
    return TUTTI_OK;
}

/* Lock held. */
static tutti_status queue_locked(
        struct tutti *t, const struct submission *s, tutti_request *request)
{
    struct process_set *set = NULL;
    struct tensor *tensor;
    tutti_status status = s->collective == META_FINALIZE ? TUTTI_OK : check_open(t);

    if (s->collective == META_JOIN && group_of_thread(&t->groups) != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "a join inside a group (rank %d); end the group first", t->rank);
    }
    if (status == TUTTI_OK) {
        status = find_set(t, s, &set);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    tensor = tensors_get(&set->tensors, s->collective, s->name, strlen(s->name));
    if (tensor == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", s->name);
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
        driver_notify(t);
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
        status = failure_of_device(
                t, placement_find(t, &s, &set, !group_is_open(t)));
    }
    if (status == TUTTI_OK) {
        status = queue(t, &s, request);
    }
    if (status != TUTTI_OK) {
        placement_drop(t, &s);
    }
    return status;
}

tutti_status submit_queue(
        struct tutti *t, const struct submission *submission, tutti_request *request)
{
    return t->device.state != NULL ? place_and_queue(t, submission, request)
                                   : queue(t, submission, request);
}

/* What is submitted in the name of a registered tensor. */
static struct submission submission_of(
        const struct tensor *tensor, const struct submission *buffers)
{
    struct submission s = *buffers;

    s.collective = tensor->collective;
    s.name = tensor->name;
    s.set = tensor->set->id;
    s.meta = tensor->meta;
    s.rows = tensor->rows;
    s.stream = tensor->stream;
    if (s.collective == TUTTI_BROADCAST) {
        s.input = s.output;
    }
    if (s.rows.owns_output) {
        s.output = NULL;
    }
    return s;
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
    const struct work *own;
    tutti_status status;

    if (t->device.state == NULL) {
        return TUTTI_OK;
    }
    pthread_mutex_lock(&t->lock);
    own = lease_find(&t->works, handle);
    if (own != NULL) {
        *placed = submission_of(own->tensor, buffers);
        set = own->set->op;
        memcpy(name, placed->name, strlen(placed->name) + 1);
    }
    pthread_mutex_unlock(&t->lock);
    if (own == NULL) {
        return registration_unknown(handle);
    }
    placed->name = name;
    status = placement_find(t, placed, &set, !group_is_open(t));
    placed->name = NULL;
    return status;
}

/* Lock held: finds the reason why the lease could not be taken, or does without it. */
static tutti_status registered_locked(struct tutti *t, tutti_tensor handle,
        const struct submission *buffers, const struct submission *placed,
        tutti_request *request)
{
    const struct work *own = lease_find(&t->works, handle);
    struct process_set *set = NULL;
    struct submission s;
    tutti_status status;

    if (own == NULL) {
        return registration_unknown(handle);
    }
    s = submission_of(own->tensor, buffers);
    s.meta.space = placed->meta.space;
    s.after = placed->after;
    status = check_open(t);
    if (status == TUTTI_OK) {
        status = find_set(t, &s, &set);
    }
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
        placement_drop(t, &placed);
    }
    return status;
}

/* The lease is taken: nobody else touches the work, nor unregisters its tensor. */
static tutti_status queue_leased(struct tutti *t, struct work *work,
        const struct submission *buffers, tutti_request *request)
{
    struct submission s = submission_of(work->tensor, buffers);
    tutti_status status;

    work_begin(work, s.callback, s.user);
    status = check_in_set(&s, &work->set->op);
    if (status == TUTTI_OK) {
        status = placement_find(t, &s, &work->set->op, true);
    }
    if (status == TUTTI_OK) {
        status = fill(work, &s);
    }
    if (status == TUTTI_OK) {
        fill_streams(work, &s);
        push(t, work, request);
    } else {
        placement_drop(t, &s);
        /* It cannot have been unregistered, so it is not for the pool. */
        (void)!work_end(work);
    }
    lease_filled(work);
    return status;
}

tutti_status submit_registered(struct tutti *t, tutti_tensor tensor,
        const struct submission *buffers, tutti_request *request)
{
    struct work *work = NULL;
    tutti_status status;

    /* Relaxed: a group of this thread is seen, and others are none of its business. */
    if (atomic_load_explicit(&t->groups.open, memory_order_relaxed) == 0) {
        work = lease_take(&t->works, tensor);
    }
    status = failure_of_device(t,
            work != NULL ? queue_leased(t, work, buffers, request)
                         : queue_slowly(t, tensor, buffers, request));
    if (status == TUTTI_OK) {
        driver_notify(t);
    }
    return status;
}
