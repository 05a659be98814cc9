/*
 * Names of one process set on this rank: a hash map, and a queue from which those are dropped
 * that are not used any more.
 */
#include "run/tensors.h"

#include <string.h>

#include "agree/negotiator.h"
#include "base/mem.h"
#include "observe/observer.h"
#include "run/persistent.h"
#include "run/process_set.h"

/* Names that a new one looks at when there are too many. More than one, so that they get fewer. */
#define SWEEP_MAX 8

struct tensor_key {
    int collective;
    const char *name;
    size_t name_len;
};

static bool tensor_matches(const void *value, const void *key)
{
    const struct tensor *tensor = value;
    const struct tensor_key *want = key;

    return tensor->collective == want->collective &&
            tensor->name_len == want->name_len &&
            memcmp(tensor->name, want->name, want->name_len) == 0;
}

static void tensor_free(const struct tensors *tensors, struct tensor *tensor)
{
    if (tensor->own != NULL) {
        meta_fini(&tensor->meta);
        mem_free(tensor->lists);
    }
    observer_release(tensors->observer, &tensor->record);
    mem_free(tensor->name);
    mem_free(tensor);
}

static void append(struct tensors *tensors, struct tensor *tensor)
{
    tensor->next = NULL;
    if (tensors->newest != NULL) {
        tensors->newest->next = tensor;
    } else {
        tensors->oldest = tensor;
    }
    tensors->newest = tensor;
    tensor->listed = true;
    tensors->count++;
}

static struct tensor *take_oldest(struct tensors *tensors)
{
    struct tensor *tensor = tensors->oldest;

    tensors->oldest = tensor->next;
    if (tensors->oldest == NULL) {
        tensors->newest = NULL;
    }
    tensor->listed = false;
    tensors->count--;
    return tensor;
}

/*
 * Drops names that were not used since they were looked at last. So to use a name costs no more
 * than a mark. What is in use all the time is passed over, a few at a time, so that a new name
 * does not look at all of them.
 */
static void drop_unused(struct tensors *tensors)
{
    for (int i = 0;
            i < SWEEP_MAX && tensors->oldest != NULL && tensors->count > tensors->max;
            i++) {
        struct tensor *tensor = take_oldest(tensors);

        if (tensor->operation != NULL || tensor->used) {
            tensor->used = false;
            append(tensors, tensor);
        } else if (tensor->own == NULL) {
            (void)map_remove(&tensors->names, tensor->hash, tensor);
            tensor_free(tensors, tensor);
        }
    }
}

void tensors_fini(struct tensors *tensors)
{
    size_t position = 0;
    struct tensor *tensor;

    while ((tensor = map_next(&tensors->names, &position)) != NULL) {
        tensor_free(tensors, tensor);
    }
    map_fini(&tensors->names);
    *tensors = (struct tensors){ 0 };
}

struct tensor *tensors_get(
        struct tensors *tensors, int collective, const char *name, size_t name_len)
{
    const struct tensor_key key = {
        .collective = collective, .name = name, .name_len = name_len
    };
    const uint64_t hash = request_hash(collective, name, name_len);
    struct tensor *tensor = map_find(&tensors->names, hash, tensor_matches, &key);

    if (tensor != NULL) {
        return tensor;
    }
    tensor = mem_calloc(1, sizeof *tensor);
    if (tensor == NULL) {
        return NULL;
    }
    tensor->name = mem_alloc(name_len + 1);
    if (tensor->name == NULL || !map_insert(&tensors->names, hash, tensor)) {
        mem_free(tensor->name);
        mem_free(tensor);
        return NULL;
    }
    tensor->hash = hash;
    tensor->collective = collective;
    tensor->name_len = name_len;
    memcpy(tensor->name, name, name_len);
    tensor->name[name_len] = '\0';
    drop_unused(tensors);
    append(tensors, tensor);
    return tensor;
}

bool tensors_hold(struct tensor *tensor, struct operation *operation)
{
    if (tensor->operation != NULL ||
            (tensor->own != NULL && !persistent_borrow(tensor->own))) {
        return false;
    }
    tensor->operation = operation;
    tensor->used = true;
    return true;
}

void tensors_let_go(struct tensor *tensor)
{
    tensor->operation = NULL;
    if (tensor->own != NULL) {
        persistent_restore(tensor->own);
    }
}

struct observed_name tensors_record(
        const struct tensors *tensors, struct tensor *tensor, uint32_t set)
{
    if (tensor->record.mark == NULL) {
        observer_name(tensors->observer, &tensor->record, tensor->name, set,
                tensor->collective);
    }
    return tensor->record;
}

/* Copies of both lists; NULL stays NULL. */
static bool copy_rows(struct tensor *tensor, const struct rows *rows, int size)
{
    const size_t bytes = (size_t)size * sizeof *tensor->lists;

    tensor->rows = *rows;
    tensor->lists = NULL;
    if (rows->rows_of == NULL && rows->recv_rows == NULL) {
        return true;
    }
    tensor->lists = mem_calloc(2 * (size_t)size, sizeof *tensor->lists);
    if (tensor->lists == NULL) {
        return false;
    }
    if (rows->rows_of != NULL) {
        memcpy(tensor->lists, rows->rows_of, bytes);
        tensor->rows.rows_of = tensor->lists;
    }
    if (rows->recv_rows != NULL) {
        memcpy(tensor->lists + size, rows->recv_rows, bytes);
        tensor->rows.recv_rows = tensor->lists + size;
    }
    return true;
}

bool tensors_register(struct tensor *tensor, const struct meta *meta,
        const struct rows *rows, struct operation *own)
{
    if (!meta_copy(&tensor->meta, meta)) {
        return false;
    }
    if (!copy_rows(tensor, rows, own->set->op.size)) {
        meta_fini(&tensor->meta);
        return false;
    }
    if (tensor->operation != NULL) {
        /* Submitted by name before; nobody has the handle yet, so it cannot be refused. */
        (void)persistent_borrow(own);
    }
    tensor->own = own;
    tensor->set = own->set;
    observer_keep(own->set->tensors.observer, &tensor->record, true);
    return true;
}

void tensors_unregister(struct tensors *tensors, struct tensor *tensor)
{
    meta_fini(&tensor->meta);
    mem_free(tensor->lists);
    observer_keep(tensors->observer, &tensor->record, false);
    tensor->lists = NULL;
    tensor->own = NULL;
    if (!tensor->listed) {
        append(tensors, tensor);
    }
}
