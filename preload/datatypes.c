/*
 * MPI's datatypes and operations.
 */
#include "preload/datatypes.h"

#include <limits.h>
#include <stdint.h>

#include "ops/reduce/reduce.h"

/* ------------------------------------------------------------------- length */

size_t datatype_bytes(int count, MPI_Datatype type)
{
    int size;

    if (count <= 0 || type == MPI_DATATYPE_NULL ||
            PMPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0) {
        return 0;
    }
    return (size_t)count * (size_t)size;
}

MPI_Aint datatype_extent(MPI_Datatype type)
{
    MPI_Aint low;
    MPI_Aint extent = 0;

    (void)PMPI_Type_get_extent(type, &low, &extent);
    return extent;
}

/* ------------------------------------------------------------------- layout */

static int combiner_of(MPI_Datatype type)
{
    int integers;
    int addresses;
    int types;
    int combiner = MPI_COMBINER_STRUCT;

    (void)PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner;
}

/** The type that copies of one are made of; the caller frees it unless MPI owns it. */
static MPI_Datatype inner_type(MPI_Datatype type, int combiner)
{
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    MPI_Aint address;
    int count;

    (void)PMPI_Type_get_contents(
            type, combiner == MPI_COMBINER_CONTIGUOUS, 0, 1, &count, &address, &inner);
    return inner;
}

static bool is_plain_named(MPI_Datatype type)
{
    int size = -1;

    (void)PMPI_Type_size(type, &size);
    return size == datatype_extent(type);
}

bool datatype_is_plain(MPI_Datatype type)
{
    int combiner = combiner_of(type);
    bool owned = false;
    bool plain;

    while (combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_CONTIGUOUS) {
        MPI_Datatype inner = inner_type(type, combiner);

        if (owned) {
            (void)PMPI_Type_free(&type);
        }
        if (inner == MPI_DATATYPE_NULL) {
            return false;
        }
        type = inner;
        combiner = combiner_of(type);
        owned = combiner != MPI_COMBINER_NAMED;
    }
    plain = combiner == MPI_COMBINER_NAMED && is_plain_named(type);
    if (owned) {
        (void)PMPI_Type_free(&type);
    }
    return plain;
}

/* ------------------------------------------------------------------ packing */

/** Elements with an address. */
struct placed {
    char *address;
    int count;
    MPI_Datatype type;
    bool is_made; /* the type is ours */
};

/* MPICH packs nothing at MPI_BOTTOM, so elements there are seen from another address. */
static struct placed placed_at(
        void *elements, int count, MPI_Datatype type, char *address)
{
    struct placed placed = { .address = elements, .count = count, .type = type };
    const MPI_Aint back = -(MPI_Aint)(intptr_t)address;

    if (elements == MPI_BOTTOM &&
            PMPI_Type_create_hindexed(1, &count, &back, type, &placed.type) ==
                    MPI_SUCCESS) {
        (void)PMPI_Type_commit(&placed.type);
        placed.address = address;
        placed.count = 1;
        placed.is_made = true;
    }
    return placed;
}

static void placed_end(struct placed *placed)
{
    if (placed->is_made) {
        (void)PMPI_Type_free(&placed->type);
    }
}

int datatype_pack(
        const struct elements *elements, char *packed, size_t bytes, MPI_Comm comm)
{
    struct placed from =
            placed_at(elements->buffer, elements->count, elements->type, packed);
    int at = 0;
    const int result = PMPI_Pack(
            from.address, from.count, from.type, packed, (int)bytes, &at, comm);

    placed_end(&from);
    return result;
}

int datatype_unpack(
        char *packed, size_t bytes, const struct elements *elements, MPI_Comm comm)
{
    struct placed to =
            placed_at(elements->buffer, elements->count, elements->type, packed);
    int at = 0;
    const int result =
            PMPI_Unpack(packed, (int)bytes, &at, to.address, to.count, to.type, comm);

    placed_end(&to);
    return result;
}

/* --------------------------------------------------------------- reductions */

/** How the bits of an element are read. */
enum reading {
    READ_SIGNED,
    READ_UNSIGNED,
    READ_FLOAT,
    READ_BOOL
};

struct reduced_type {
    MPI_Datatype type;
    enum reading reading;
};

static const struct reduced_type reduced_types[] = {
    { .type = MPI_FLOAT, .reading = READ_FLOAT },
    { .type = MPI_DOUBLE, .reading = READ_FLOAT },
    { .type = MPI_INT, .reading = READ_SIGNED },
    { .type = MPI_LONG, .reading = READ_SIGNED },
    { .type = MPI_INT64_T, .reading = READ_SIGNED },
    { .type = MPI_INT32_T, .reading = READ_SIGNED },
    { .type = MPI_UNSIGNED, .reading = READ_UNSIGNED },
    { .type = MPI_UNSIGNED_LONG, .reading = READ_UNSIGNED },
    { .type = MPI_UINT64_T, .reading = READ_UNSIGNED },
    { .type = MPI_UINT32_T, .reading = READ_UNSIGNED },
    { .type = MPI_DOUBLE_PRECISION, .reading = READ_FLOAT },
    { .type = MPI_REAL, .reading = READ_FLOAT },
    { .type = MPI_REAL4, .reading = READ_FLOAT },
    { .type = MPI_REAL8, .reading = READ_FLOAT },
    { .type = MPI_INTEGER, .reading = READ_SIGNED },
    { .type = MPI_INTEGER1, .reading = READ_SIGNED },
    { .type = MPI_INTEGER2, .reading = READ_SIGNED },
    { .type = MPI_INTEGER4, .reading = READ_SIGNED },
    { .type = MPI_INTEGER8, .reading = READ_SIGNED },
    { .type = MPI_LONG_LONG, .reading = READ_SIGNED },
    { .type = MPI_UNSIGNED_LONG_LONG, .reading = READ_UNSIGNED },
    { .type = MPI_SHORT, .reading = READ_SIGNED },
    { .type = MPI_UNSIGNED_SHORT, .reading = READ_UNSIGNED },
    { .type = MPI_SIGNED_CHAR, .reading = READ_SIGNED },
    { .type = MPI_UNSIGNED_CHAR, .reading = READ_UNSIGNED },
    { .type = MPI_INT8_T, .reading = READ_SIGNED },
    { .type = MPI_INT16_T, .reading = READ_SIGNED },
    { .type = MPI_UINT8_T, .reading = READ_UNSIGNED },
    { .type = MPI_UINT16_T, .reading = READ_UNSIGNED },
    { .type = MPI_AINT, .reading = READ_SIGNED },
    { .type = MPI_OFFSET, .reading = READ_SIGNED },
    { .type = MPI_COUNT, .reading = READ_SIGNED },
    { .type = MPI_C_BOOL, .reading = READ_BOOL },
};

static bool reading_of(MPI_Datatype type, enum reading *reading)
{
    for (size_t i = 0; i < sizeof reduced_types / sizeof reduced_types[0]; i++) {
        if (reduced_types[i].type == type) {
            *reading = reduced_types[i].reading;
            return true;
        }
    }
    return false;
}

struct datatype_common datatype_commons[DATATYPE_SLOTS];

static void common_add(MPI_Datatype type)
{
    struct datatype_common *common = &datatype_commons[datatype_slot(type)];

    if (common->bytes == 0) {
        *common = (struct datatype_common){ .type = type,
            .bytes = datatype_bytes(1, type) };
    }
}

void datatype_begin(void)
{
    common_add(MPI_BYTE);
    common_add(MPI_CHAR);
    for (size_t i = 0; i < sizeof reduced_types / sizeof reduced_types[0]; i++) {
        common_add(reduced_types[i].type);
    }
}

/* The types of 1, 2, 4 and 8 bytes. There is no MPI type for float16. */
static const int dtypes[][4] = {
    [READ_SIGNED] = { TUTTI_INT8, TUTTI_INT16, TUTTI_INT32, TUTTI_INT64 },
    [READ_UNSIGNED] = { TUTTI_UINT8, TUTTI_UINT16, TUTTI_UINT32, TUTTI_UINT64 },
    [READ_FLOAT] = { -1, -1, TUTTI_FLOAT32, TUTTI_FLOAT64 },
    [READ_BOOL] = { TUTTI_BOOL, -1, -1, -1 },
};

static bool dtype_of(MPI_Datatype type, tutti_dtype *dtype)
{
    const size_t bytes = datatype_bytes(1, type);
    enum reading reading;

    for (int power = 0; power < 4; power++) {
        if (bytes == (size_t)1 << power && reading_of(type, &reading) &&
                dtypes[reading][power] >= 0) {
            *dtype = (tutti_dtype)dtypes[reading][power];
            return true;
        }
    }
    return false;
}

bool datatype_reduction(
        MPI_Datatype type, MPI_Op op, tutti_dtype *dtype, tutti_reduce_op *reduce)
{
    if (op == MPI_OP_NULL || !dtype_of(type, dtype)) {
        return false;
    }
    if (*dtype == TUTTI_BOOL) { /* tutti's MIN and MAX of truth values */
        *reduce = op == MPI_LAND ? TUTTI_MIN : TUTTI_MAX;
        return op == MPI_LAND || op == MPI_LOR;
    }
    if (op == MPI_SUM) {
        *reduce = TUTTI_SUM;
    } else if (op == MPI_MAX) {
        *reduce = TUTTI_MAX;
    } else if (op == MPI_MIN) {
        *reduce = TUTTI_MIN;
    } else if (op == MPI_PROD) {
        *reduce = TUTTI_PRODUCT;
    } else {
        return false;
    }
    return reduce_is_supported(*dtype, *reduce);
}
