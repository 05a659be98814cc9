/*
 * MPI's datatypes and operations: how long data are, whether they lie in one piece, and what
 * tutti's kernels reduce.
 */
#ifndef TUTTI_PRELOAD_DATATYPES_H
#define TUTTI_PRELOAD_DATATYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

enum {
    DATATYPE_SLOTS = 128
};

/** Sizes of MPI's own types, by datatype_slot(); where two meet, one is left out. */
struct datatype_common {
    MPI_Datatype type;
    size_t bytes; /* 0: none here */
};

extern struct datatype_common datatype_commons[DATATYPE_SLOTS]
        __attribute__((visibility("hidden")));

/* Handles are numbers with the type in the lowest byte, or addresses of large structs. */
static inline size_t datatype_slot(MPI_Datatype type)
{
    const uintptr_t bits = (uintptr_t)type;

    return (bits ^ bits >> 7) % DATATYPE_SLOTS;
}

/**
 * Bytes of the type signature, which are equal on all ranks where MPI wants equal signatures;
 * 0 for arguments that MPI refuses, and for types of 2 GiB and more.
 */
size_t datatype_bytes(int count, MPI_Datatype type);

/** Bytes of an element of one of MPI's common types; 0: not known here. Costs next to nothing. */
static inline size_t datatype_common_size(MPI_Datatype type)
{
    const struct datatype_common *common = &datatype_commons[datatype_slot(type)];

    return common->type == type ? common->bytes : 0;
}

/** Fills that table, after MPI_Init(). */
void datatype_begin(void);

/**
 * True when elements of the type lie one behind the other as their signature says, so that
 * they are copied like bytes.
 */
bool datatype_is_plain(MPI_Datatype type);

/** Bytes from one element to the next. */
MPI_Aint datatype_extent(MPI_Datatype type);

/** Elements of the application. */
struct elements {
    union {
        void *buffer; /* or MPI_IN_PLACE */
        const void *sent; /* those that are only read */
    };
    int count;
    MPI_Datatype type;
};

/**
 * Copies the elements of any type to or from `bytes` bytes that have their signature's order.
 * @return MPI_SUCCESS or an error of MPI
 */
int datatype_pack(
        const struct elements *elements, char *packed, size_t bytes, MPI_Comm comm);
int datatype_unpack(
        char *packed, size_t bytes, const struct elements *elements, MPI_Comm comm);

/**
 * What tutti calls a reduction.
 * @return false: it has no kernels for it, as for any type or operation that is not MPI's own
 */
bool datatype_reduction(
        MPI_Datatype type, MPI_Op op, tutti_dtype *dtype, tutti_reduce_op *reduce);

#endif
