/*
 * The names a rank uses in one process set: which of them are in flight, and which are
 * registered. Guarded by the context's lock.
 */
#ifndef TUTTI_CORE_TENSORS_H
#define TUTTI_CORE_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "core/meta.h"
#include "core/rows.h"

struct work;
struct process_set;

/** One (collective, name). */
struct tensor {
    uint64_t hash; /* request_hash()                                        */
    int collective;
    char *name; /* owned, terminated                                     */
    size_t name_len;
    struct work *work; /* in flight, or NULL                                    */
    bool registered; /* kept until unregistered; `meta` and `rows` are valid  */
    struct meta meta; /* owned copy: scalars and the shape                     */
    struct rows rows; /* with lists of their own                               */
    int64_t *lists; /* owned; backs the lists of `rows`                      */
    uint64_t handle; /* of the registration                                   */
    struct process_set *set; /* of the registration                               */
    struct tensor *next, *prev; /* in the list of idle ones                       */
};

/** Zeroed is valid once `idle_max` is set. */
struct tensors {
    struct map names;
    struct tensor *oldest, *newest; /* not in flight and not registered           */
    size_t idle_count;
    size_t idle_max; /* more are dropped, oldest first             */
};

void tensors_fini(struct tensors *tensors);

/** Finds or adds a name; NULL when out of memory. */
struct tensor *tensors_get(
        struct tensors *tensors, int collective, const char *name, size_t name_len);
/** The tensor now has work in flight. */
void tensors_hold(struct tensors *tensors, struct tensor *tensor, struct work *work);
/** It no longer has; it may be dropped when neither registered nor used soon. */
void tensors_let_go(struct tensors *tensors, struct tensor *tensor);
/** Registers, for a set of `size` ranks; false when out of memory. */
bool tensors_register(struct tensors *tensors, struct tensor *tensor,
        const struct meta *meta, const struct rows *rows, int size);
/** Takes the registration away; the tensor is not in flight. */
void tensors_unregister(struct tensors *tensors, struct tensor *tensor);

#endif
