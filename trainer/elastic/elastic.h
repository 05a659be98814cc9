/*
 * What an elastic state consists of, and what its files do for each other.
 */
#ifndef TUTTI_TRAINER_ELASTIC_ELASTIC_H
#define TUTTI_TRAINER_ELASTIC_ELASTIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/trainer/elastic.h>

#include "elastic/region.h"
#include "state/agree.h"
#include "state/parts.h"

enum {
    ELASTIC_PIECE_BYTES = 4 << 20 /* that travel at a time */
};

/** Memory that tutti_state_register() was given, as a tensor of bytes. */
struct elastic_memory {
    struct elastic_memory *next;
    int64_t bytes;
    char name[STATE_NAME_MAX + 1];
};

struct tutti_state {
    struct state_group group;
    struct region region;
    bool holds_process; /* it is the one state of this process          */

    tutti_state_tensor *tensors; /* in the order of registration; owned  */
    size_t count, capacity; /* of them                                  */
    struct elastic_memory *memories; /* behind some of them; owned           */

    /* Once it is open, which needs all ranks. */
    bool is_open;
    uint64_t total; /* bytes of all tensors                         */
    uint64_t layout; /* hash of their names, types and sizes         */
    uint8_t *divided; /* of each tensor: 1 where some rank has a part only; owned */
    bool has_divided; /* there is one                                */
    void *piece; /* room for one; owned                          */
    struct part *parts; /* as parts_divide() has them, where has_divided; owned */
    int newest; /* slot that holds the newest commit that counts, on this host; -1 */
    uint32_t commits; /* of this generation, also those that failed   */
    tutti_notice notice; /* that all ranks have seen                     */
};

/** Agrees on what is registered, and looks what is kept, before the first commit or restore. */
TUTTI_MUST_USE tutti_status elastic_open(tutti_state *state);
/** What this rank was told, as a number of all ranks' greatest counts. */
int64_t elastic_told(const tutti_state *state);
/** Keeps what all ranks were told. @return TUTTI_AGAIN where that is something */
tutti_status elastic_hear(tutti_state *state, int64_t told);
/** Bytes of a whole tensor. */
static inline uint64_t elastic_bytes(const tutti_state_tensor *tensor)
{
    return (uint64_t)state_bytes(tensor);
}

#endif
