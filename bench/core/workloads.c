/*
 * The workloads: those of models.txt, and some that are made up.
 *
 * Tensors are appended to a list. A failed allocation sets list->failed and later tensors
 * are dropped.
 */
#include "bench/core/workloads.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/collective.h"

/* A line of models.txt. */
struct entry {
    enum {
        ENTRY_MODEL,
        ENTRY_LAYER,
        ENTRY_ONE,
        ENTRY_REPEAT,
        ENTRY_END
    } kind;
    const char *name; /* with # for the number of a repetition; NULL: none */
    const char *source; /* of a model */
    uint64_t first, second; /* elements; the numbers of a repetition */
};

static const struct entry entries[] = {
#define MODEL(name_of, source_of) \
    { .kind = ENTRY_MODEL, .name = (name_of), .source = (source_of) },
#define LAYER(name_of, weight, bias) \
    { .kind = ENTRY_LAYER, .name = (name_of), .first = (weight), .second = (bias) },
#define ONE(name_of, elements) \
    { .kind = ENTRY_ONE, .name = (name_of), .first = (elements) },
#define REPEAT(from, to) { .kind = ENTRY_REPEAT, .first = (from), .second = (to) },
#define END() { .kind = ENTRY_END },
#include "models.def"
#undef END
#undef REPEAT
#undef ONE
#undef LAYER
#undef MODEL
    { .kind = ENTRY_MODEL },
};

const char *const bench_workload_names[] = {
#define MODEL(name, source) name,
#define LAYER(name, weight, bias)
#define ONE(name, elements)
#define REPEAT(from, to)
#define END()
#include "models.def"
#undef END
#undef REPEAT
#undef ONE
#undef LAYER
#undef MODEL
    NULL,
};

struct list {
    struct bench_workload *workload;
    bool failed;
};

__attribute__((format(printf, 3, 4))) static void append(
        struct list *list, uint64_t count, const char *format, ...)
{
    struct bench_workload *workload = list->workload;
    struct bench_tensor *tensor;
    va_list arguments;
    size_t prefix;

    if (workload->count == workload->capacity) {
        size_t capacity = workload->capacity == 0 ? 64 : 2 * workload->capacity;
        struct bench_tensor *grown =
                reallocarray(workload->tensors, capacity, sizeof *grown);

        if (grown == NULL) {
            list->failed = true;
            return;
        }
        workload->tensors = grown;
        workload->capacity = capacity;
    }
    tensor = &workload->tensors[workload->count];
    prefix = (size_t)snprintf(
            tensor->name, sizeof tensor->name, "%.16s/", workload->name);
    va_start(arguments, format);
    (void)vsnprintf(
            tensor->name + prefix, sizeof tensor->name - prefix, format, arguments);
    va_end(arguments);
    tensor->count = count;
    workload->count++;
    workload->elements += count;
}

static void append_entry(struct list *list, const struct entry *entry, uint64_t number)
{
    const char *mark = strchr(entry->name, '#');
    char name[BENCH_TENSOR_NAME_MAX];

    if (mark == NULL) {
        (void)snprintf(name, sizeof name, "%s", entry->name);
    } else {
        (void)snprintf(name, sizeof name, "%.*s%" PRIu64 "%s",
                (int)(mark - entry->name), entry->name, number, mark + 1);
    }
    append(list, entry->first, "%s%s", name,
            entry->kind == ENTRY_LAYER ? ".weight" : "");
    if (entry->second > 0) {
        append(list, entry->second, "%s.bias", name);
    }
}

/* Appends the lines behind a repetition's, again and again; returns its END. */
static const struct entry *append_repeated(
        struct list *list, const struct entry *repetition)
{
    const struct entry *entry = repetition;

    for (uint64_t i = repetition->first; i <= repetition->second; i++) {
        for (entry = repetition + 1; entry->kind != ENTRY_END; entry++) {
            append_entry(list, entry, i);
        }
    }
    return entry;
}

static void append_model(struct list *list, const struct entry *model)
{
    for (const struct entry *entry = model + 1; entry->kind != ENTRY_MODEL; entry++) {
        if (entry->kind == ENTRY_REPEAT) {
            entry = append_repeated(list, entry);
        } else {
            append_entry(list, entry, 0);
        }
    }
}

/* The line of this name; NULL when there is none. */
static const struct entry *find_model(const char *name)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (entries[i].kind == ENTRY_MODEL && entries[i].name != NULL &&
                strcmp(entries[i].name, name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

/* Hands over what was made, or cleans up after it. */
static bool finish(const struct list *list, struct bench_workload *workload)
{
    if (list->failed) {
        bench_workload_fini(list->workload);
        return false;
    }
    *workload = *list->workload;
    return true;
}

bool bench_workload_exists(const char *name)
{
    return find_model(name) != NULL;
}

bool bench_workload_init(struct bench_workload *workload, const char *name)
{
    const struct entry *model = find_model(name);
    struct bench_workload made = { .name = NULL };
    struct list list = { .workload = &made };

    if (model == NULL) {
        return false;
    }
    made.name = model->name;
    append_model(&list, model);
    return finish(&list, workload);
}

bool bench_workload_init_uniform(
        struct bench_workload *workload, size_t tensors, uint64_t elements)
{
    struct bench_workload made = { .name = "uniform" };
    struct list list = { .workload = &made };

    for (size_t i = 0; i < tensors && !list.failed; i++) {
        append(&list, elements, "%zu of %" PRIu64, i, elements);
    }
    return finish(&list, workload);
}

void bench_workload_pad(
        struct bench_workload *workload, tutti_collective collective, int ranks)
{
    workload->elements = 0;
    for (size_t i = 0; i < workload->count; i++) {
        struct bench_tensor *tensor = &workload->tensors[i];

        tensor->count = bench_padded_count(collective, tensor->count, ranks);
        workload->elements += tensor->count;
    }
}

void bench_workload_fini(struct bench_workload *workload)
{
    free(workload->tensors);
    *workload = (struct bench_workload){ .name = NULL };
}

/* Length of a name without its last part; of all of it when it has no dot. */
static size_t layer_length(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot == NULL ? strlen(name) : (size_t)(dot - name);
}

size_t bench_workload_next_layer(const struct bench_workload *workload, size_t done)
{
    const char *first;
    size_t length;

    if (done >= workload->count) {
        return workload->count;
    }
    first = workload->tensors[workload->count - 1 - done].name;
    length = layer_length(first);
    for (done++; done < workload->count; done++) {
        const char *next = workload->tensors[workload->count - 1 - done].name;

        if (layer_length(next) != length || strncmp(first, next, length) != 0) {
            break;
        }
    }
    return done;
}

size_t bench_workload_layers(const struct bench_workload *workload)
{
    size_t layers = 0;

    for (size_t done = 0; done < workload->count; layers++) {
        done = bench_workload_next_layer(workload, done);
    }
    return layers;
}

static void list_tensors(FILE *out, const struct bench_workload *workload)
{
    for (size_t i = 0; i < workload->count; i++) {
        const struct bench_tensor *tensor = &workload->tensors[i];

        (void)fprintf(out, "%12" PRIu64 " %s\n", tensor->count, tensor->name);
    }
}

bool bench_workload_list(FILE *out, const char *name)
{
    if (name == NULL) {
        (void)fprintf(out, "# %-15s %7s %7s %13s %9s  %s\n", "workload", "tensors",
                "layers", "parameters", "MB", "source");
    }
    for (size_t i = 0; bench_workload_names[i] != NULL; i++) {
        const char *each = bench_workload_names[i];
        struct bench_workload workload;

        if (name != NULL && strcmp(name, each) != 0) {
            continue;
        }
        if (!bench_workload_init(&workload, each)) {
            return false;
        }
        if (name != NULL) {
            list_tensors(out, &workload);
        } else {
            (void)fprintf(out, "  %-15s %7zu %7zu %13" PRIu64 " %9.1f  %s\n", each,
                    workload.count, bench_workload_layers(&workload), workload.elements,
                    (double)workload.elements * sizeof(float) / 1e6,
                    find_model(each)->source);
        }
        bench_workload_fini(&workload);
    }
    return true;
}
