/*
 * The GPU's kernels: packing tensors into a fusion buffer and out of it, with scaling,
 * casting and division on the way.
 *
 * This header is what the host needs to launch them: structs that lie in device memory or
 * are passed as kernel parameters, and pure functions that fill them. Nothing here calls
 * CUDA. The bodies are in pack.cuh, which nvcc compiles for the GPU (kernels.cu)
 * and a C++ compiler for the simulator and for unit tests.
 *
 * Packing. A plan lists pieces: a tensor in device memory and its place in the packed
 * buffer. The work is cut in chunks of a fixed size; a block of threads takes chunks b,
 * b + grid, b + 2 grid ... and finds the piece of each. One plan serves both directions:
 *
 *   gather   packed[i] = cast(tensor[i] * scale)              before the collective
 *   scatter  tensor[i] = cast(packed[i] / divisor * scale)    after it
 *
 * Arithmetic is that of ops/reduce: float32, float64 for float64; one rounding, to nearest even; a product with 1 and a quotient by 1 are left out. Integers
 * are not scaled; they are widened and cut to the width of the other side, and divided in
 * 64 bits, truncated toward zero. A NaN stays a NaN; its payload is not specified.
 *
 * Where the pieces come from is the form of a launch:
 *
 *   small   by value, in 4 KiB of kernel parameters, which every driver takes
 *   large   by value, in 32,764 bytes: CUDA 12.1 and later
 *   table   in device memory, for more pieces than that, or for plans that are kept
 *
 * All functions are pure but for the memory of a plan, and may be called by any thread.
 */
#ifndef TUTTI_OPS_GPU_KERNELS_KERNELS_H
#define TUTTI_OPS_GPU_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ the device */

/** Work is cut in pieces of so many bytes of the wider side. */
#define PACK_CHUNK_BYTES 32768
/** Pieces begin at such offsets of a packed buffer: stores of 16 bytes stay whole. */
#define PACK_ALIGNMENT 128
/** Threads of a block, of all kernels. */
#define KERNEL_THREADS 256
/** Blocks for each multiprocessor, where it is not known how many it holds. */
#define KERNEL_BLOCKS_PER_SM 8

/** A piece of a batch. Lies in kernel parameters or in device memory. */
struct pack_piece {
    uint64_t tensor; /* device address; any alignment                              */
    uint64_t packed; /* bytes from the beginning of the packed buffer              */
    uint64_t count; /* elements, at least 1                                        */
    uint32_t first_chunk; /* chunks of all pieces before this one                  */
    uint32_t chunk_count; /* its own                                               */
};

/** Bits of pack_header.flags. */
enum {
    PACK_SCATTERS = 1, /* from the packed buffer to the tensors                    */
    PACK_SCALES = 2, /* factor is not 1                                            */
    PACK_DIVIDES = 4, /* divisor is not 1                                          */
    PACK_SIGNED = 8, /* integers: of a signed type                                 */
    PACK_BOOL = 16 /* integers: any value but 0 becomes 1                          */
};

/** What one launch does; the beginning of its parameters. */
struct pack_header {
    uint64_t packed; /* device address of the packed buffer                        */
    uint64_t pieces; /* table: device address of the pieces; else 0                */
    uint64_t map; /* table: device address of the piece of each chunk, uint32_t    */
    double factor; /* elements are multiplied by it, after the division            */
    uint32_t piece_count; /* at least 1                                            */
    uint32_t chunk_count; /* of all pieces                                         */
    uint32_t chunk_elements; /* elements of a chunk, but for the last of a piece   */
    int32_t divisor; /* elements are divided by it first                           */
    uint32_t flags; /* PACK_...                                                    */
    uint16_t tensor_bytes; /* of an element there                                  */
    uint16_t packed_bytes; /* of an element there                                  */
};

/** Parameters that every driver takes, and those of CUDA 12.1 and later, in bytes. */
#define KERNEL_SMALL_BYTES 4096
#define KERNEL_LARGE_BYTES 32764

/** Pieces that fit in them. */
#define PACK_SMALL_PIECES \
    ((KERNEL_SMALL_BYTES - sizeof(struct pack_header)) / sizeof(struct pack_piece))
#define PACK_LARGE_PIECES \
    ((KERNEL_LARGE_BYTES - sizeof(struct pack_header)) / sizeof(struct pack_piece))

/** The parameter of a kernel of the form small, large and table. */
struct pack_small {
    struct pack_header header;
    struct pack_piece pieces[PACK_SMALL_PIECES];
};
struct pack_large {
    struct pack_header header;
    struct pack_piece pieces[PACK_LARGE_PIECES];
};
struct pack_table {
    struct pack_header header;
};

/** Room for the parameter of any form. */
union pack_args {
    struct pack_header header;
    struct pack_small small;
    struct pack_large large;
    struct pack_table table;
};

/* ----------------------------------------------------------------------- the kernels */

/**
 * Kernels that pack: X(symbol, name). They are named by the type that is read and the one
 * that is written: the same kernel gathers and scatters. `copy` does all that needs no
 * arithmetic, `integer` all integers. Each is there in three forms.
 */
#define PACK_FAMILY_MAP(X) \
    X(COPY, copy) \
    X(INTEGER, integer) \
    PACK_FLOAT_MAP(X)
#define PACK_FLOAT_MAP(X) \
    X(F16_F16, f16_f16) \
    X(F16_F32, f16_f32) \
    X(F32_F16, f32_f16) \
    X(BF16_BF16, bf16_bf16) \
    X(BF16_F32, bf16_f32) \
    X(F32_BF16, f32_bf16) \
    X(F32_F32, f32_f32) \
    X(F64_F64, f64_f64)

enum kernel_family {
#define KERNEL_FAMILY(symbol, name) FAMILY_##symbol,
    PACK_FAMILY_MAP(KERNEL_FAMILY) KERNEL_FAMILIES /* how many there are */
#undef KERNEL_FAMILY
};

/** How the pieces of a launch reach the kernel. */
enum pack_form {
    PACK_SMALL,
    PACK_LARGE,
    PACK_TABLE,
    PACK_FORMS /* how many there are */
};

/** Kernels are numbered from 0, for what a backend keeps of the functions of its module. */
#define KERNEL_COUNT (KERNEL_FAMILIES * PACK_FORMS)

/** The name of a kernel in the image: "tutti_f32_bf16_small" ...;
 *  NULL for a number that is not below KERNEL_COUNT. */
const char *kernel_name(int kernel);

/**
 * True for kernels that an image may lack: those of the form large, which an older nvcc
 * cannot compile. Without them kernel_target.parameter_bytes is KERNEL_SMALL_BYTES.
 */
bool kernel_is_optional(int kernel);

/**
 * The fatbin with all kernels that this build contains.
 * @param[out] bytes  its size; 0 without one
 * @return its bytes, for cuLibraryLoadData or cuModuleLoadData, there as long as the
 *         library; NULL: the build had no nvcc
 */
const void *kernel_image(size_t *bytes);

/* ------------------------------------------------------------------------- the host */

/** The layout of a batch. A zeroed one may be given to pack_plan_fini(). */
struct pack_plan {
    tutti_dtype tensor_type; /* of the tensors                                     */
    tutti_dtype packed_type; /* of the packed buffer                               */
    struct pack_piece *pieces; /* piece_count of them; owned                       */
    size_t piece_count; /* so far                                                  */
    size_t piece_capacity; /* for which there is memory                            */
    uint64_t packed_bytes; /* of the buffer, so far; a multiple of PACK_ALIGNMENT  */
    uint32_t chunk_count; /* of all pieces                                         */
};

/** Which way. */
enum pack_direction {
    PACK_GATHER,
    PACK_SCATTER
};

/** What one launch of a plan does. */
struct pack_work {
    enum pack_direction direction; /* into the packed buffer or out of it          */
    uint64_t packed; /* device address of it                                       */
    uint64_t table; /* device address of the plan's table; 0: pieces by value      */
    double scale; /* floats are multiplied by it, after the division; integers: 1  */
    int divisor; /* elements are divided by it; 1: they are not                    */
};

/** The device that kernels are launched on. */
struct kernel_target {
    int sm_count; /* multiprocessors that a launch may fill                        */
    size_t parameter_bytes; /* KERNEL_SMALL_BYTES, or KERNEL_LARGE_BYTES           */
    uint8_t blocks[KERNEL_COUNT]; /* of each kernel that a multiprocessor holds at a
                                     time; 0: unknown */
};

/** A launch: what cuLaunchKernel() needs. */
struct kernel_launch {
    int kernel; /* the number of its function                                      */
    uint32_t grid; /* blocks                                                       */
    uint32_t threads; /* of a block                                                */
    size_t args_bytes; /* of the one parameter, which is a struct                  */
};

/**
 * The parameters a driver takes: large ones from CUDA 12.1 on.
 * @param driver_version  as of cuDriverGetVersion(): 12010 is CUDA 12.1
 */
size_t kernel_parameter_bytes(int driver_version);

/** True when tensors of one type can be packed as the other and unpacked again. */
bool pack_is_supported(tutti_dtype tensor_type, tutti_dtype packed_type);

/**
 * The type in which NCCL is to reduce tensors of a type, so that the result is what
 * docs/numerics.md promises: integers are averaged in 64 bits, 16-bit integers travel as
 * 32 bits (NCCL has no such type), bool as uint8.
 * @param half_in_float  float16 and bfloat16 travel as float32, and are rounded once
 * @return the type; one for which pack_is_supported()
 */
tutti_dtype pack_wire_type(
        tutti_dtype tensor_type, tutti_reduce_op op, bool half_in_float);

/** An empty plan for a pair of types that pack_is_supported(). Frees nothing. */
void pack_plan_init(
        struct pack_plan *plan, tutti_dtype tensor_type, tutti_dtype packed_type);
void pack_plan_fini(struct pack_plan *plan);
/** Empties a plan for use with other types; keeps its memory. */
void pack_plan_reset(
        struct pack_plan *plan, tutti_dtype tensor_type, tutti_dtype packed_type);

/**
 * Adds a tensor behind those that are there, at the next multiple of PACK_ALIGNMENT; one
 * of no elements adds nothing.
 * @param tensor  device address
 * @return TUTTI_OK, or TUTTI_ERR_NO_MEMORY or TUTTI_ERR_INVALID (more than 2^32 - 1
 *         chunks or pieces, or 2^63 bytes); then the plan is as it was
 */
tutti_status pack_plan_add(struct pack_plan *plan, uint64_t tensor, uint64_t count);
/** As pack_plan_add(), at an offset of the packed buffer that the caller chooses. */
tutti_status pack_plan_add_at(
        struct pack_plan *plan, uint64_t tensor, uint64_t count, uint64_t offset);

/** The form in which a plan without a table is launched; PACK_TABLE: it needs one. */
enum pack_form pack_plan_form(
        const struct pack_plan *plan, const struct kernel_target *target);
/** Bytes of a plan's table in device memory. */
size_t pack_table_bytes(const struct pack_plan *plan);
/**
 * Writes the table as it must lie in device memory, at an address that is a multiple of 8.
 * @param[out] image  pack_table_bytes(), on a boundary of 8 bytes
 */
void pack_table_write(const struct pack_plan *plan, void *image);

/**
 * Fills the parameters of a launch. The plan has at least one piece, and a table when
 * pack_plan_form() says so.
 * @param[out] args  room for any form: its first kernel_launch.args_bytes are set
 */
struct kernel_launch pack_launch(const struct pack_plan *plan,
        const struct pack_work *work, const struct kernel_target *target,
        union pack_args *args);

#ifdef __cplusplus
}
#endif

#endif
