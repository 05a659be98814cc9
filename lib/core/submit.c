/*
 * Queueing submissions.
 */
#include "core/submit.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "core/check.h"
#include "core/context.h"
#include "core/driver.h"

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

/* Below, the context's lock is held. */

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
    if (group == NULL || group->first == NULL) {
        return TUTTI_OK;
    }
    if (group->first->set->id != s->set) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": its group uses process set %u, not %u (rank %d); a group "
                "stays "
                "within one set",
                s->name, group->first->set->id, s->set, t->rank);
    }
    return TUTTI_OK;
}

/* The numbers behind the metadata: the shape, and what a collective on rows adds. */
static bool fill_numbers(struct work *work, const struct submission *s)
{
    const struct op_set *set = &work->set->op;
    struct meta *meta = &work->request.meta;
    const size_t ndim = (size_t)s->meta.ndim;
    const size_t more = rows_apply(s->collective) ? rows_numbers(s, set) : 0;
    int64_t *numbers = work_numbers(work, ndim + more);

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

    if (!work_parts(work, 2 * (size_t)set->size)) {
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
    const struct tensor *tensor = work->tensor;

    work->request = (struct request){ .collective = s->collective,
        .name = tensor->name,
        .name_len = tensor->name_len,
        .hash = tensor->hash,
        .meta = s->meta,
        .cookie = work };
    work->input = s->input;
    work->output = s->output;
    work->owns_output = rows_own_output(s, &work->set->op);
    work->callback = s->callback;
    work->user = s->user;
    work->priority = s->priority;
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

static void queue_push(struct tutti *t, struct work *work)
{
    if (t->queue_last != NULL) {
        t->queue_last->next = work;
    } else {
        t->queue_first = work;
    }
    t->queue_last = work;
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

static tutti_status take_work(struct tutti *t, struct process_set *set,
        struct tensor *tensor, struct work **taken)
{
    struct work *work;

    if (tensor->work != NULL) {
        return in_flight_already(t, tensor);
    }
    work = work_take(&t->works);
    if (work == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for \"%s\"", tensor->name);
    }
    work->set = set;
    work->tensor = tensor;
    tensors_hold(&set->tensors, tensor, work);
    set->in_flight++;
    *taken = work;
    return TUTTI_OK;
}

/* The tensor is known; the rest cannot be refused but for being in flight. */
static tutti_status queue_tensor(struct tutti *t, struct process_set *set,
        struct tensor *tensor, const struct submission *s, tutti_request *request)
{
    const bool is_public = s->collective < META_SET_CREATE;
    struct open_group *group = is_public ? group_of_thread(&t->groups) : NULL;
    struct work *work = NULL;
    tutti_status status = check_group(t, group, s);

    if (status == TUTTI_OK) {
        status = take_work(t, set, tensor, &work);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = fill(work, s);
    if (status != TUTTI_OK) {
        tensors_let_go(&set->tensors, tensor);
        set->in_flight--;
        work_release(&t->works, work);
        return status;
    }
    set->joined = set->joined || s->collective == META_JOIN;
    if (group != NULL) {
        group_add(group, work);
    } else {
        queue_push(t, work);
        t->submitted++;
        (void)atomic_fetch_add_explicit(&t->in_flight, 1, memory_order_seq_cst);
    }
    if (work->callback == NULL) {
        *request = work_handle(work);
    }
    return TUTTI_OK;
}

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

tutti_status submit_queue(
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

static bool handle_matches(const void *value, const void *key)
{
    const struct tensor *tensor = value;
    const tutti_tensor *handle = key;

    return tensor->handle == *handle;
}

static tutti_status registered_locked(struct tutti *t, tutti_tensor handle,
        const struct submission *buffers, tutti_request *request)
{
    struct tensor *tensor =
            map_find(&t->handles, hash_u64(0, handle), handle_matches, &handle);
    struct submission s = *buffers;
    struct process_set *set = NULL;
    tutti_status status;

    if (tensor == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "%" PRIu64 " is no registered tensor", handle);
    }
    s.collective = tensor->collective;
    s.name = tensor->name;
    s.set = tensor->set->id;
    s.meta = tensor->meta;
    s.rows = tensor->rows;
    if (s.collective == TUTTI_BROADCAST) {
        s.input = s.output;
    }
    if (s.rows.owns_output) {
        s.output = NULL;
    }
    status = check_open(t);
    if (status == TUTTI_OK) {
        status = find_set(t, &s, &set);
    }
    return status == TUTTI_OK ? queue_tensor(t, set, tensor, &s, request) : status;
}

tutti_status submit_registered(struct tutti *t, tutti_tensor tensor,
        const struct submission *buffers, tutti_request *request)
{
    tutti_status status;

    pthread_mutex_lock(&t->lock);
    status = registered_locked(t, tensor, buffers, request);
    pthread_mutex_unlock(&t->lock);
    if (status == TUTTI_OK) {
        driver_notify(t);
    }
    return status;
}
