/*
 * MPI's datatypes and operations: how long data are, whether they lie in one piece, and what
 * tutti's kernels reduce.
 */
#ifndef TUTTI_PRELOAD_DATATYPES_H
#define TUTTI_PRELOAD_DATATYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

/**
 * Bytes of the type signature, which are equal on all ranks where MPI wants equal signatures;
 * 0 for arguments that MPI refuses, and for types of 2 GiB and more.
 */
size_t datatype_bytes(int count, MPI_Datatype type);

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
