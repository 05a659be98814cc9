/*
 * Names of one process set on this rank: a hash map, and the idle ones in order of
 * last use.
 */
#include "run/tensors.h"

#include <string.h>

#include "agree/negotiator.h"
#include "base/mem.h"
#include "run/persistent.h"
#include "run/process_set.h"

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

static bool is_idle(const struct tensor *tensor)
{
    return tensor->operation == NULL && tensor->own == NULL;
}

static void idle_remove(struct tensors *tensors, struct tensor *tensor)
{
    if (tensor->prev != NULL) {
        tensor->prev->next = tensor->next;
    } else {
        tensors->oldest = tensor->next;
    }
    if (tensor->next != NULL) {
        tensor->next->prev = tensor->prev;
    } else {
        tensors->newest = tensor->prev;
    }
    tensor->next = NULL;
    tensor->prev = NULL;
    tensors->idle_count--;
}

static void tensor_free(struct tensor *tensor)
{
    if (tensor->own != NULL) {
        meta_fini(&tensor->meta);
        mem_free(tensor->lists);
    }
    mem_free(tensor->name);
    mem_free(tensor);
}

static void idle_append(struct tensors *tensors, struct tensor *tensor)
{
    tensor->prev = tensors->newest;
    if (tensors->newest != NULL) {
        tensors->newest->next = tensor;
    } else {
        tensors->oldest = tensor;
    }
    tensors->newest = tensor;
    tensors->idle_count++;
    if (tensors->idle_count > tensors->idle_max) {
        struct tensor *oldest = tensors->oldest;

        idle_remove(tensors, oldest);
        (void)map_remove(&tensors->names, oldest->hash, oldest);
        tensor_free(oldest);
    }
}

void tensors_fini(struct tensors *tensors)
{
    size_t position = 0;
    struct tensor *tensor;

    while ((tensor = map_next(&tensors->names, &position)) != NULL) {
        tensor_free(tensor);
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
    idle_append(tensors, tensor);
    return tensor;
}

bool tensors_hold(
        struct tensors *tensors, struct tensor *tensor, struct operation *operation)
{
    if (tensor->operation != NULL ||
            (tensor->own != NULL && !persistent_borrow(tensor->own))) {
        return false;
    }
    if (is_idle(tensor)) {
        idle_remove(tensors, tensor);
    }
    tensor->operation = operation;
    return true;
}

void tensors_let_go(struct tensors *tensors, struct tensor *tensor)
{
    tensor->operation = NULL;
    if (tensor->own != NULL) {
        persistent_restore(tensor->own);
    } else {
        idle_append(tensors, tensor);
    }
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

bool tensors_register(struct tensors *tensors, struct tensor *tensor,
        const struct meta *meta, const struct rows *rows, struct operation *own)
{
    if (!meta_copy(&tensor->meta, meta)) {
        return false;
    }
    if (!copy_rows(tensor, rows, own->set->op.size)) {
        meta_fini(&tensor->meta);
        return false;
    }
    if (is_idle(tensor)) {
        idle_remove(tensors, tensor);
    }
    if (tensor->operation != NULL) {
        /* Submitted by name before; nobody has the handle yet, so it cannot be refused. */
        (void)persistent_borrow(own);
    }
    tensor->own = own;
    tensor->set = own->set;
    return true;
}

void tensors_unregister(struct tensors *tensors, struct tensor *tensor)
{
    meta_fini(&tensor->meta);
    mem_free(tensor->lists);
    tensor->lists = NULL;
    tensor->own = NULL;
    idle_append(tensors, tensor);
}
