/*
 * Every kernel of the image on the device, compared bit by bit with the same body compiled
 * for the host. Needs no ranks; this is what compute-sanitizer looks at.
 *
 *     device_kernels
 */
#include "ops/gpu/kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/gpu/packing.h"
#include "test/batch/reference.h"
#include "test/gpu/real/device.h"
#include "test/gpusim/bodies.h"

/* Tensors of a batch: some of a few elements, some of more than a chunk. */
#define COUNTS 7
#define TENSORS_SMALL COUNTS
#define TENSORS_LARGE (PACK_SMALL_PIECES + COUNTS)

static const size_t counts[COUNTS] = { 1, 33, 9001, 4, 20011, 257, 1024 };

/** A pair of types. */
struct pair {
    tutti_dtype tensor, packed;
};

static const struct pair pairs[] = { { TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E4M3 },
    { TUTTI_UINT8, TUTTI_UINT8 }, { TUTTI_BOOL, TUTTI_UINT8 },
    { TUTTI_INT16, TUTTI_INT32 }, { TUTTI_UINT16, TUTTI_UINT32 },
    { TUTTI_INT8, TUTTI_INT64 }, { TUTTI_INT32, TUTTI_INT64 },
    { TUTTI_UINT64, TUTTI_UINT64 }, { TUTTI_FLOAT16, TUTTI_FLOAT16 },
    { TUTTI_FLOAT16, TUTTI_FLOAT32 }, { TUTTI_FLOAT32, TUTTI_FLOAT16 },
    { TUTTI_BFLOAT16, TUTTI_BFLOAT16 }, { TUTTI_BFLOAT16, TUTTI_FLOAT32 },
    { TUTTI_FLOAT32, TUTTI_BFLOAT16 }, { TUTTI_FLOAT32, TUTTI_FLOAT32 },
    { TUTTI_FLOAT64, TUTTI_FLOAT64 } };

/** The kernels of the image, and what was launched. */
struct loaded {
    struct device_rig rig;
    struct packing packing;
    bool launched[KERNEL_COUNT];
    int made, wrong; /* comparisons                                               */
};

/** The same bytes on both sides. */
struct twin {
    unsigned char *host; /* owned                                                 */
    void *device; /* owned                                                        */
    size_t bytes;
};

/* Floats of every exponent but no NaN, whose payload is not specified; integers any. */
static void fill(tutti_dtype dtype, unsigned char *to, size_t bytes, uint32_t seed)
{
    uint32_t state = seed * 2654435761U + 1;

    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525U + 1013904223U;
        to[i] = (unsigned char)(state >> 24);
    }
    for (size_t i = tutti_dtype_size(dtype) - 1; dtype_is_real(dtype) && i < bytes;
            i += tutti_dtype_size(dtype)) {
        to[i] &= 0xbf; /* of magnitude below 2 */
    }
}

static struct twin twin_new(
        struct loaded *k, tutti_dtype dtype, size_t bytes, uint32_t seed)
{
    struct twin twin = { .host = must_alloc(bytes, 1), .bytes = bytes };

    fill(dtype, twin.host, bytes, seed);
    twin.device = device_memory(&k->rig, bytes);
    device_upload(&k->rig, twin.device, twin.host, bytes);
    return twin;
}

static void twin_end(struct loaded *k, struct twin *twin)
{
    device_drop(&k->rig, twin->device);
    free(twin->host);
}

static void compare(struct loaded *k, const struct twin *twin, const char *what)
{
    unsigned char *got = must_alloc(twin->bytes, 1);

    device_download(&k->rig, got, twin->device, twin->bytes);
    k->made++;
    if (memcmp(got, twin->host, twin->bytes) != 0) {
        size_t at = 0;

        while (got[at] == twin->host[at]) {
            at++;
        }
        k->wrong++;
        (void)printf("device_kernels: %s: byte %zu is %02x and should be %02x\n", what,
                at, got[at], twin->host[at]);
    }
    free(got);
}

/*
 * Tensors lie one element behind boundaries, so that vectors have to be put together.
 * Addresses are offsets. @return bytes of the tensors
 */
static size_t lay_out(
        const struct pair *pair, struct script_pieces *pieces, size_t *packed_bytes)
{
    const size_t element = tutti_dtype_size(pair->tensor);
    size_t offset = element;

    *packed_bytes = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        const size_t count = counts[i % COUNTS];

        pieces->pieces[i] = (struct script_piece){ .tensor = offset,
            .packed = { .at = *packed_bytes, .in_slab = true },
            .count = count };
        *packed_bytes += (count * tutti_dtype_size(pair->packed) + 127) / 128 * 128;
        offset += (count + 1 + i % 3) * element;
    }
    return offset;
}

/* On the host. @return the kernel */
static int run_body(const struct loaded *k, const struct packing_work *work,
        unsigned char *tensors, unsigned char *packed)
{
    static struct pack_plan plan;
    const bool gathers = work->direction == PACK_GATHER;
    const struct pack_work what = { .direction = work->direction,
        .packed = (uint64_t)(uintptr_t)packed,
        .scale = work->form->before,
        .divisor = gathers ? 1 : work->form->divisor };
    struct kernel_launch l;

    pack_plan_init(&plan, work->form->dtype, work->form->wire);
    for (size_t i = 0; i < work->pieces->count; i++) {
        const struct script_piece *piece = &work->pieces->pieces[i];

        pack_plan_add(&plan, (uint64_t)(uintptr_t)tensors + piece->tensor, piece->count,
                piece->packed.at);
    }
    l = pack_launch(&plan, &what, &k->packing.target);
    kernel_body_of(l.kernel)(&plan.args, l.grid, l.threads);
    return l.kernel;
}

/* More pieces than fit in small parameters make a launch of the form large. */
static void run_pack(struct loaded *k, const struct pair *pair, enum pack_direction way,
        size_t tensors_count)
{
    static struct script_piece list[TENSORS_LARGE];
    const bool divides = pair->tensor != TUTTI_BOOL && pair->tensor < TUTTI_FLOAT8_E4M3;
    const double scale = dtype_is_real(pair->tensor) ? 0.75 : 1;
    const struct gpu_form form = { .dtype = pair->tensor,
        .wire = pair->packed,
        .before = scale,
        .divisor = divides ? 3 : 1,
        .after = scale };
    struct script_pieces pieces = { .pieces = list, .count = tensors_count };
    size_t packed_bytes = 0;
    const size_t tensor_bytes = lay_out(pair, &pieces, &packed_bytes);
    struct twin tensors = twin_new(k, pair->tensor, tensor_bytes, 1 + (uint32_t)way);
    struct twin packed = twin_new(k, pair->packed, packed_bytes, 7);
    const struct packing_work work = { .pieces = &pieces,
        .form = &form,
        .direction = way,
        .slab = device_address(packed.device),
        .stream = k->rig.stream };
    const int kernel = run_body(k, &work, tensors.host, packed.host);
    char what[128];

    for (size_t i = 0; i < tensors_count; i++) {
        list[i].tensor += device_address(tensors.device);
    }
    device_pack(&k->packing, &work);
    k->launched[kernel] = true;
    (void)snprintf(what, sizeof what, "%s, %s, %s as %s", kernel_name(kernel),
            way == PACK_GATHER ? "gather" : "scatter", tutti_dtype_name(pair->tensor),
            tutti_dtype_name(pair->packed));
    compare(k, way == PACK_GATHER ? &packed : &tensors, what);
    twin_end(k, &tensors);
    twin_end(k, &packed);
}

/* Every kernel that there is was launched: the pairs cover all families. */
static bool all_launched(const struct loaded *k)
{
    bool all = true;

    for (int i = 0; i < KERNEL_COUNT; i++) {
        if (k->packing.gpu->kernels[i] != NULL && !k->launched[i]) {
            (void)printf("device_kernels: %s was never launched\n", kernel_name(i));
            all = false;
        }
    }
    return all;
}

int main(void)
{
    static struct loaded k;
    const int status = device_kernels(&k.rig, "device_kernels", &k.packing);
    bool all;

    if (status != 0) {
        return status;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        for (int way = PACK_GATHER; way <= PACK_SCATTER; way++) {
            run_pack(&k, &pairs[i], (enum pack_direction)way, TENSORS_SMALL);
            /* An image may lack the form large. */
            if (pack_pieces_max(&k.packing.target) >= TENSORS_LARGE) {
                run_pack(&k, &pairs[i], (enum pack_direction)way, TENSORS_LARGE);
            }
        }
    }
    all = all_launched(&k);
    gpu_close(k.packing.gpu);
    device_close(&k.rig);
    (void)printf("device_kernels: %d comparisons, %d wrong\n", k.made, k.wrong);
    return all && k.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
