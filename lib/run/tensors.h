/*
 * The names a rank uses in one process set: which of them are in flight, and which are
 * registered. Guarded by the context's lock.
 */
#ifndef TUTTI_RUN_TENSORS_H
#define TUTTI_RUN_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/meta.h"
#include "agree/negotiator.h"
#include "base/map.h"
#include "observe/name.h"
#include "run/rows.h"

struct observer;
struct operation;
struct process_set;

/** One (collective, name). */
struct tensor {
    uint64_t hash; /* request_hash()                                        */
    struct tensor_memo memo; /* engine only: where the negotiator has it       */
    int collective;
    char *name; /* owned, terminated                                     */
    size_t name_len;
    struct operation
            *operation; /* in flight, of the pool; or NULL                       */
    struct operation *own; /* of the registration, in flight or not: see
                           run/persistent.h. NULL: not registered, and what follows is
                           not valid                                         */
    struct meta meta; /* owned copy: scalars and the shape                     */
    struct rows rows; /* with lists of their own                               */
    int priority; /* of its submissions                                   */
    tutti_stream stream; /* of device memory                                     */
    int64_t *lists; /* owned; backs the lists of `rows`                      */
    struct process_set *set;
    struct observed_name record; /* see tensors_record()                        */
    bool listed; /* in the queue; a registered one may not be            */
    bool used; /* since it was looked at last                           */
    struct tensor *next; /* in the queue, the one behind it                       */
};

/** Zeroed is valid once `max` and `observer` are set. */
struct tensors {
    struct map names;
    struct observer *observer;
    struct tensor *oldest, *newest; /* the queue                                  */
    size_t count; /* of the queue                                        */
    size_t max; /* with more, those in no use are dropped              */
};

void tensors_fini(struct tensors *tensors);

/** Finds or adds a name; NULL when out of memory. */
struct tensor *tensors_get(
        struct tensors *tensors, int collective, const char *name, size_t name_len);
/** The tensor goes in flight with an operation of the pool; false when it is in flight. */
bool tensors_hold(struct tensor *tensor, struct operation *operation);
/** It no longer is; it may be dropped when neither registered nor used soon. */
void tensors_let_go(struct tensor *tensor);
/** Registers, with an operation whose persistent request is closed; false when out of memory. */
bool tensors_register(struct tensor *tensor, const struct meta *meta,
        const struct rows *rows, struct operation *own);
/** Where it is recorded, in a set of this id. Asked for at each use. */
struct observed_name tensors_record(
        const struct tensors *tensors, struct tensor *tensor, uint32_t set);
/** Takes the registration away; the tensor is not in flight. */
void tensors_unregister(struct tensors *tensors, struct tensor *tensor);

#endif
