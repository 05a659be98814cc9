/*
 * Checking and queueing submissions.
 */
#include "core/submit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
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

/* ------------------------------------------------------------------ checks */

static tutti_status check_name(const char *name)
{
    size_t len;

    if (name == NULL) {
        return error_set(TUTTI_ERR_INVALID, "the name is NULL");
    }
    len = strnlen(name, TUTTI_NAME_MAX + 1);
    if (len == 0) {
        return error_set(TUTTI_ERR_INVALID, "the name is empty");
    }
    if (len > TUTTI_NAME_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "the name \"%.40s...\" is longer than %d bytes", name, TUTTI_NAME_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            return error_set(TUTTI_ERR_INVALID,
                    "the name \"%.*s...\" has a control character at byte %zu", (int)i,
                    name, i);
        }
    }
    return TUTTI_OK;
}

static bool is_one(double factor)
{
    return !(factor < 1) && !(factor > 1);
}

static tutti_status check_scales(const struct submission *s)
{
    const struct meta *meta = &s->meta;

    if (!isfinite(meta->prescale) || !isfinite(meta->postscale)) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": prescale %g and postscale %g must be finite", s->name,
                meta->prescale, meta->postscale);
    }
    if (!dtype_is_float(meta->dtype) &&
            (!is_one(meta->prescale) || !is_one(meta->postscale))) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "\"%s\": %s cannot be scaled (prescale %g, postscale %g); use 1",
                s->name, tutti_dtype_name(meta->dtype), meta->prescale,
                meta->postscale);
    }
    return TUTTI_OK;
}

static tutti_status check_reduction(const struct submission *s)
{
    const struct meta *meta = &s->meta;
    const bool is_logic = meta->op == TUTTI_MIN || meta->op == TUTTI_MAX;

    if (!reduce_op_is_valid(meta->op)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": %d is no reduction", s->name,
                (int)meta->op);
    }
    if (dtype_is_opaque(meta->dtype)) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "\"%s\": %s can be moved but not reduced; convert to float16 or "
                "float32",
                s->name, tutti_dtype_name(meta->dtype));
    }
    if (meta->dtype == TUTTI_BOOL && !is_logic) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "\"%s\": %s of bool is not defined; use min (AND) or max (OR)", s->name,
                tutti_reduce_name(meta->op));
    }
    return check_scales(s);
}

static tutti_status check_shape(const struct submission *s)
{
    const struct meta *meta = &s->meta;
    int64_t product = 1;

    if (meta->ndim < 0 || meta->ndim > TUTTI_DIMS_MAX ||
            (meta->ndim > 0 && meta->dims == NULL)) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": a shape of %d dimensions (0 to %d are possible)%s", s->name,
                meta->ndim, TUTTI_DIMS_MAX, meta->dims == NULL ? " without dims" : "");
    }
    for (int i = 0; i < meta->ndim; i++) {
        if (meta->dims[i] < 0 ||
                __builtin_mul_overflow(product, meta->dims[i], &product)) {
            return error_set(TUTTI_ERR_INVALID,
                    "\"%s\": dimension %d of the shape is %" PRId64, s->name, i,
                    meta->dims[i]);
        }
    }
    if (meta->ndim > 0 && product != meta->count) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": the shape has %" PRId64 " elements but count is %" PRId64,
                s->name, product, meta->count);
    }
    return TUTTI_OK;
}

static tutti_status check_buffers(const struct submission *s)
{
    const struct meta *meta = &s->meta;
    size_t bytes;
    uintptr_t from;
    uintptr_t to;

    if (meta->count < 0) {
        return error_set(
                TUTTI_ERR_INVALID, "\"%s\": count is %" PRId64, s->name, meta->count);
    }
    if (!size_mul((size_t)meta->count, tutti_dtype_size(meta->dtype), &bytes) ||
            bytes > PTRDIFF_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": %" PRId64 " elements of %s do not fit into memory", s->name,
                meta->count, tutti_dtype_name(meta->dtype));
    }
    if (bytes > 0 && (s->input == NULL || s->output == NULL)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": the %s buffer is NULL", s->name,
                s->input == NULL ? "input" : "output");
    }
    from = (uintptr_t)s->input;
    to = (uintptr_t)s->output;
    if (from != to && from < to + bytes && to < from + bytes) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": input and output overlap without being equal", s->name);
    }
    return TUTTI_OK;
}

tutti_status submit_check(const struct submission *s)
{
    tutti_status status = check_name(s->name);

    if (status != TUTTI_OK || s->collective == TUTTI_BARRIER) {
        return status;
    }
    if (!dtype_is_valid(s->meta.dtype)) {
        return error_set(TUTTI_ERR_INVALID, "\"%s\": %d is no dtype", s->name,
                (int)s->meta.dtype);
    }
    status = check_buffers(s);
    if (status == TUTTI_OK) {
        status = check_shape(s);
    }
    if (status == TUTTI_OK && s->collective == TUTTI_ALLREDUCE) {
        status = check_reduction(s);
    }
    return status;
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
    if (s->meta.root < 0 || s->meta.root >= set->op.size) {
        return error_set(TUTTI_ERR_INVALID,
                "\"%s\": root %d is outside process set %u of %d ranks", s->name,
                s->meta.root, s->set, set->op.size);
    }
    *found = set;
    return TUTTI_OK;
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

static void fill(struct work *work, const struct submission *s)
{
    const struct tensor *tensor = work->tensor;

    work->request = (struct request){ .collective = s->collective,
        .name = tensor->name,
        .name_len = tensor->name_len,
        .hash = tensor->hash,
        .meta = s->meta,
        .cookie = work };
    if (s->collective < META_SET_CREATE && s->meta.ndim > 0) {
        memcpy(work->dims, s->meta.dims, (size_t)s->meta.ndim * sizeof work->dims[0]);
        work->request.meta.dims = work->dims;
    }
    work->input = s->input;
    work->output = s->output;
    work->callback = s->callback;
    work->user = s->user;
    work->priority = s->priority;
    if (s->collective < META_SET_CREATE) {
        work->bytes = (size_t)s->meta.count * tutti_dtype_size(s->meta.dtype);
    }
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

static tutti_status take_work(struct tutti *t, struct process_set *set,
        struct tensor *tensor, struct work **taken)
{
    struct work *work;

    if (tensor->work != NULL) {
        return error_set(TUTTI_ERR_DUPLICATE,
                "%s \"%s\" is in flight already on rank %d; wait for it, or use "
                "another "
                "name",
                meta_collective_name(tensor->collective), tensor->name, t->rank);
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
    fill(work, s);
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
    if (s.collective == TUTTI_BROADCAST) {
        s.input = s.output;
    }
    status = s.collective == TUTTI_BARRIER ? TUTTI_OK : check_buffers(&s);
    if (status == TUTTI_OK) {
        status = check_open(t);
    }
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
