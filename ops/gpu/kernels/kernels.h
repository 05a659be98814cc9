/*
 * The GPU's kernels: packing tensors into a fusion buffer and out of it, with scaling,
 * casting and division on the way.
 *
 * This header is what the host needs to launch them: structs that are passed as kernel
 * parameters, and pure functions that fill them. Nothing here calls
 * CUDA. The bodies are in pack.cuh, which nvcc compiles for the GPU (kernels.cu)
 * and a C++ compiler for the simulator and for unit tests.
 *
 * Packing. A plan lists pieces: a tensor in device memory and its place in the packed
 * buffer. They are passed by value: what has more than fit takes several launches. The work
 * is cut in chunks of a fixed size; a block of threads takes chunks b, b + grid, b + 2 grid
 * ... and finds the piece of each. One plan serves both directions:
 *
 *   gather   packed[i] = cast(tensor[i] * scale)              before the collective
 *   scatter  tensor[i] = cast(packed[i] / divisor * scale)    after it
 *
 * Arithmetic is that of ops/reduce: float32, float64 for float64; one rounding, to nearest
 * even; a product with 1 and a quotient by 1 are left out. Integers are not scaled; they
 * are widened and cut to the width of the other side, and divided in 64 bits, truncated
 * toward zero. A NaN stays a NaN; its payload is not specified.
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
/** Threads of a block, of all kernels. */
#define KERNEL_THREADS 256
/** Blocks for each multiprocessor, where it is not known how many it holds. */
#define KERNEL_BLOCKS_PER_SM 8

/** A piece of a batch. */
struct pack_piece {
    uint64_t tensor; /* device address; any alignment                              */
    uint64_t packed; /* bytes from the beginning of the packed buffer; any, but on a
                        boundary of 16 bytes stores stay whole                     */
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

/** The parameter of a kernel of the form small, and of one of the form large. */
struct pack_small {
    struct pack_header header;
    struct pack_piece pieces[PACK_SMALL_PIECES];
};
struct pack_large {
    struct pack_header header;
    struct pack_piece pieces[PACK_LARGE_PIECES];
};

/* ----------------------------------------------------------------------- the kernels */

/**
 * Kernels that pack: X(symbol, name). They are named by the type that is read and the one
 * that is written: the same kernel gathers and scatters. `copy` does all that needs no
 * arithmetic, `integer` all integers. Each is there in two forms.
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

/** How many pieces a kernel takes. */
enum pack_form {
    PACK_SMALL, /* in 4 KiB of parameters, which every driver takes                */
    PACK_LARGE, /* in 32,764 bytes: CUDA 12.1 and later                            */
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
 * @return its bytes, for cuModuleLoadData, there as long as the library; NULL: the build
 *         had no nvcc
 */
const void *kernel_image(size_t *bytes);

/* ------------------------------------------------------------------------- the host */

/** The pieces of one launch. */
struct pack_plan {
    tutti_dtype tensor_type; /* of the tensors                                     */
    tutti_dtype packed_type; /* of the packed buffer                               */
    struct pack_large
            args; /* the kernel's parameter; pieces and their numbers so far */
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

/** A launch: what cuLaunchKernel() needs besides plan->args. */
struct kernel_launch {
    int kernel; /* the number of its function                                      */
    uint32_t grid; /* blocks                                                       */
    uint32_t threads; /* of a block                                                */
    size_t args_bytes; /* of plan->args that are the one parameter                 */
};

/**
 * The parameters a driver takes: large ones from CUDA 12.1 on.
 * @param driver_version  as of cuDriverGetVersion(): 12010 is CUDA 12.1
 */
size_t kernel_parameter_bytes(int driver_version);

/** True when tensors of one type can be packed as the other and unpacked again. */
bool pack_is_supported(tutti_dtype tensor_type, tutti_dtype packed_type);

/** How many pieces a launch takes. */
size_t pack_pieces_max(const struct kernel_target *target);

/** An empty plan for a pair of types that pack_is_supported(). */
void pack_plan_init(
        struct pack_plan *plan, tutti_dtype tensor_type, tutti_dtype packed_type);

/**
 * Adds a piece; one of no elements adds nothing. There are fewer than pack_pieces_max().
 * @param tensor, packed  see struct pack_piece
 */
void pack_plan_add(
        struct pack_plan *plan, uint64_t tensor, uint64_t count, uint64_t packed);

/**
 * Fills in the rest of plan->args. The plan has at least one piece. It may be launched again
 * with other work.
 */
struct kernel_launch pack_launch(struct pack_plan *plan, const struct pack_work *work,
        const struct kernel_target *target);

#ifdef __cplusplus
}
#endif

#endif
