/*
 * Sparse gradients: rows of a table, merged over ranks in one order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/layers.h>

#include "error.h"
#include "state/agree.h"

enum {
    NAME_MAX_BYTES = 200
};

/* A row and where it stands: rows of one index are added in this order. */
struct entry {
    int64_t index;
    int64_t at;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;

    if (x->index != y->index) {
        return x->index < y->index ? -1 : 1;
    }
    return (x->at > y->at) - (x->at < y->at);
}

void tutti_sparse_free(tutti_sparse *sparse)
{
    if (sparse != NULL) {
        free(sparse->indices);
        free(sparse->rows);
        *sparse = (tutti_sparse){ .count = 0 };
    }
}

static struct entry *sort_entries(const int64_t *ids, int64_t n)
{
    struct entry *entries = calloc((size_t)n + 1, sizeof *entries);

    for (int64_t i = 0; entries != NULL && i < n; i++) {
        entries[i] = (struct entry){ .index = ids[i], .at = i };
    }
    if (entries != NULL) {
        qsort(entries, (size_t)n, sizeof *entries, compare_entries);
    }
    return entries;
}

static tutti_status out_of_memory(tutti_sparse *sparse, int64_t n)
{
    tutti_sparse_free(sparse);
    return error_set(TUTTI_ERR_NO_MEMORY,
            "out of memory for a sparse gradient of %lld rows", (long long)n);
}

/* Sorts n rows by index and adds up those of the same. */
static tutti_status merge(const int64_t *ids, const float *rows, int64_t n,
        int64_t width, tutti_sparse *sparse)
{
    struct entry *entries = sort_entries(ids, n);
    int64_t distinct = 0;

    *sparse = (tutti_sparse){ .width = width };
    if (entries == NULL) {
        return out_of_memory(sparse, n);
    }
    for (int64_t i = 0; i < n; i++) {
        distinct += i == 0 || entries[i].index != entries[i - 1].index ? 1 : 0;
    }
    sparse->indices = calloc((size_t)distinct + 1, sizeof *sparse->indices);
    sparse->rows = calloc((size_t)distinct * (size_t)width + 1, sizeof *sparse->rows);
    if (sparse->indices == NULL || sparse->rows == NULL) {
        free(entries);
        return out_of_memory(sparse, n);
    }
    for (int64_t i = 0; i < n; i++) {
        const float *row = rows + entries[i].at * width;
        float *sum;

        if (i == 0 || entries[i].index != entries[i - 1].index) {
            sparse->indices[sparse->count++] = entries[i].index;
            memcpy(sparse->rows + (sparse->count - 1) * width, row,
                    (size_t)width * sizeof *row);
            continue;
        }
        sum = sparse->rows + (sparse->count - 1) * width;
        for (int64_t j = 0; j < width; j++) {
            sum[j] += row[j];
        }
    }
    free(entries);
    return TUTTI_OK;
}

/* `of` is whose rows they are, for the message. */
static tutti_status check_rows(
        const char *of, const int64_t *ids, const float *rows, int64_t n, int64_t width)
{
    if (n < 0 || width < 1 || n > INT64_MAX / 64 || width > INT64_MAX / 64 / (n + 1) ||
            (n > 0 && (ids == NULL || rows == NULL))) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: %lld rows of the width %lld, and %s indices and rows", of,
                (long long)n, (long long)width,
                ids == NULL || rows == NULL ? "no" : "their");
    }
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0) {
            return error_set(
                    TUTTI_ERR_INVALID, "%s: an index is %lld", of, (long long)ids[i]);
        }
    }
    return TUTTI_OK;
}

tutti_status tutti_embedding_gradient(const int64_t *ids, const float *gradients,
        int64_t n, int64_t width, tutti_sparse *sparse)
{
    static const char call[] = "tutti_embedding_gradient()";
    tutti_status status = sparse != NULL
            ? check_rows(call, ids, gradients, n, width)
            : error_set(TUTTI_ERR_INVALID, "%s: no place for the result", call);

    return status == TUTTI_OK ? merge(ids, gradients, n, width, sparse) : status;
}

/* Everyone's indices and rows, in memory of tutti_alloc(). */
struct gathered {
    void *indices;
    void *rows;
    int64_t *rows_of; /* how many came from each rank */
};

static tutti_status start(tutti *t, const char *name, const char *part,
        const void *input, int64_t rows, int64_t width, tutti_dtype dtype,
        const tutti_options *options, tutti_request *request)
{
    char full[NAME_MAX_BYTES + 16];

    (void)snprintf(full, sizeof full, "%.*s.%s", NAME_MAX_BYTES, name, part);
    return tutti_allgather_async(
            t, full, input, NULL, rows, width, NULL, dtype, options, request);
}

/* Both gathers; a request that is left is taken too, so that its memory is freed. */
static tutti_status gather(tutti *t, const char *name, const tutti_sparse *mine,
        const tutti_options *options, struct gathered *all)
{
    tutti_request requests[2] = { TUTTI_REQUEST_NULL, TUTTI_REQUEST_NULL };
    void **outputs[2] = { &all->indices, &all->rows };
    tutti_status status = start(t, name, "indices", mine->indices, mine->count, 1,
            TUTTI_INT64, options, &requests[0]);

    if (status == TUTTI_OK) {
        status = start(t, name, "rows", mine->rows, mine->count, mine->width,
                TUTTI_FLOAT32, options, &requests[1]);
        if (status != TUTTI_OK) { /* the others wait for these rows */
            (void)tutti_abort(t, tutti_last_error());
        }
    }
    for (int i = 0; i < 2; i++) {
        tutti_status taken = requests[i] == TUTTI_REQUEST_NULL
                ? status
                : tutti_request_take_output(
                          t, &requests[i], outputs[i], all->rows_of, TUTTI_FOREVER);

        status = status == TUTTI_OK ? taken : status;
    }
    return group_heard(t, status);
}

/* With room for what comes; what is wrong on one rank is known to all before they gather. */
static tutti_status gather_checked(const struct state_group *group, const char *name,
        const tutti_sparse *mine, tutti_reduce_op op, const tutti_options *options,
        struct gathered *all)
{
    const struct setting settings[] = { text_setting("op", tutti_reduce_name(op)),
        number_setting("the width", (double)mine->width) };
    char of[NAME_MAX_BYTES + 32];
    tutti_status status;

    (void)snprintf(of, sizeof of, "sparse gradient '%s'", name);
    all->rows_of = calloc((size_t)group->ranks, sizeof *all->rows_of);
    status = all->rows_of != NULL
            ? check_rows(of, mine->indices, mine->rows, mine->count, mine->width)
            : error_set(TUTTI_ERR_NO_MEMORY, "%s: out of memory", of);
    status = group_same(group, status, settings, 2, NULL);
    return status == TUTTI_OK ? gather(group->t, name, mine, options, all) : status;
}

tutti_status tutti_sparse_reduce(tutti *t, const char *name, const tutti_sparse *mine,
        tutti_reduce_op op, const tutti_options *options, tutti_sparse *merged)
{
    struct gathered all = { .indices = NULL };
    struct state_group group;
    int64_t total = 0;
    tutti_status status;

    if (t == NULL || name == NULL || strlen(name) > NAME_MAX_BYTES || mine == NULL ||
            merged == NULL || mine->width < 1 || mine->width > INT32_MAX ||
            (op != TUTTI_SUM && op != TUTTI_AVERAGE)) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_sparse_reduce(): no context, gradient or result, a name of more "
                "than %d bytes, a width of less than 1, or no sum or average",
                NAME_MAX_BYTES);
    }
    *merged = (tutti_sparse){ .width = mine->width };
    status =
            group_init(&group, t, options == NULL ? TUTTI_WORLD : options->process_set);
    if (status != TUTTI_OK) {
        return status;
    }
    status = gather_checked(&group, name, mine, op, options, &all);
    for (int r = 0; status == TUTTI_OK && r < group.ranks; r++) {
        total += all.rows_of[r];
    }
    if (status == TUTTI_OK) {
        status = group_heard(
                t, merge(all.indices, all.rows, total, mine->width, merged));
    }
    for (int64_t i = 0; status == TUTTI_OK && op == TUTTI_AVERAGE &&
            i < merged->count * merged->width;
            i++) {
        merged->rows[i] /= (float)group.ranks;
    }
    (void)tutti_free(t, all.indices);
    (void)tutti_free(t, all.rows);
    free(all.rows_of);
    return status;
}

tutti_status tutti_sparse_apply(
        const tutti_sparse *sparse, float *table, int64_t table_rows, double rate)
{
    if (sparse == NULL || table == NULL) {
        return error_set(
                TUTTI_ERR_INVALID, "tutti_sparse_apply(): no gradient, or no table");
    }
    for (int64_t i = 0; i < sparse->count; i++) {
        if (sparse->indices[i] < 0 || sparse->indices[i] >= table_rows) {
            return error_set(TUTTI_ERR_INVALID,
                    "tutti_sparse_apply(): index %lld is outside of a table of %lld "
                    "rows",
                    (long long)sparse->indices[i], (long long)table_rows);
        }
    }
    for (int64_t i = 0; i < sparse->count; i++) {
        float *row = table + sparse->indices[i] * sparse->width;

        for (int64_t j = 0; j < sparse->width; j++) {
            row[j] -= (float)rate * sparse->rows[i * sparse->width + j];
        }
    }
    return TUTTI_OK;
}
