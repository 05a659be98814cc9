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

#include "test/batch/reference.h"
#include "test/gpu/real/device.h"
#include "test/gpusim/bodies.h"
#include "test/suite/buffer.h"

/* Tensors of a batch: some of a few elements, some of more than a chunk. */
#define COUNTS 7
#define TENSORS_SMALL COUNTS
#define TENSORS_LARGE (PACK_SMALL_PIECES + COUNTS)

static const size_t counts[COUNTS] = { 1, 33, 9001, 4, 20011, 257, 1024 };

/** A pair of types, and which kernels are launched for it. */
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
    struct gpu *gpu; /* owned; of its kernels those are NULL that the image lacks   */
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

/* A launch on the device; false: the image lacks the kernel, which is optional. */
static bool launch(struct loaded *k, const struct kernel_launch *l, void *args)
{
    void *parameters[] = { args };

    if (k->gpu->kernels[l->kernel] == NULL) {
        return false;
    }
    device_must(&k->rig,
            k->rig.cuda.launch_kernel(k->gpu->kernels[l->kernel], l->grid, 1, 1,
                    l->threads, 1, 1, 0, k->rig.stream, parameters, NULL),
            kernel_name(l->kernel));
    device_must(&k->rig, k->rig.cuda.stream_synchronize(k->rig.stream), "run a kernel");
    k->launched[l->kernel] = true;
    return true;
}

/* --------------------------------------------------------------------------- packing */

/** A batch on one side. */
struct side {
    struct pack_plan plan;
    uint64_t tensors, packed; /* addresses                                        */
    size_t packed_bytes;
};

/*
 * Tensors lie one element behind boundaries, so that vectors have to be put together. More of
 * them than fit in small parameters make a launch of the form large.
 */
static size_t plan_side(struct side *side, const struct pair *pair, enum pack_form form,
        uint64_t tensors)
{
    const size_t element = tutti_dtype_size(pair->tensor);
    const size_t many = form == PACK_LARGE ? TENSORS_LARGE : TENSORS_SMALL;
    size_t offset = element;

    pack_plan_init(&side->plan, pair->tensor, pair->packed);
    side->tensors = tensors;
    side->packed_bytes = 0;
    for (size_t i = 0; i < many; i++) {
        pack_plan_add(
                &side->plan, tensors + offset, counts[i % COUNTS], side->packed_bytes);
        side->packed_bytes +=
                (counts[i % COUNTS] * tutti_dtype_size(pair->packed) + 127) / 128 * 128;
        offset += (counts[i % COUNTS] + 1 + i % 3) * element;
    }
    return offset;
}

static struct kernel_launch prepare(struct side *side, enum pack_direction way,
        enum pack_form form, tutti_dtype dtype)
{
    const struct kernel_target target = { .sm_count = 4,
        .parameter_bytes =
                form == PACK_LARGE ? KERNEL_LARGE_BYTES : KERNEL_SMALL_BYTES };
    const bool divides = dtype != TUTTI_BOOL && tutti_dtype_size(dtype) > 0;
    const struct pack_work work = { .direction = way,
        .packed = side->packed,
        .scale = dtype_is_real(dtype) ? 0.75 : 1,
        .divisor =
                way == PACK_SCATTER && divides && dtype < TUTTI_FLOAT8_E4M3 ? 3 : 1 };

    return pack_launch(&side->plan, &work, &target);
}

static void run_pack(struct loaded *k, const struct pair *pair, enum pack_direction way,
        enum pack_form form)
{
    static struct side host, device;
    const size_t tensor_bytes = plan_side(&host, pair, form, 0);
    struct twin tensors = twin_new(k, pair->tensor, tensor_bytes, 1 + (uint32_t)way);
    struct twin packed = twin_new(k, pair->packed, host.packed_bytes, 7);
    struct kernel_launch l;
    char what[128];

    (void)plan_side(&host, pair, form, (uint64_t)(uintptr_t)tensors.host);
    (void)plan_side(&device, pair, form, device_address(tensors.device));
    host.packed = (uint64_t)(uintptr_t)packed.host;
    device.packed = device_address(packed.device);
    l = prepare(&device, way, form, pair->tensor);
    if (launch(k, &l, &device.plan.args)) {
        (void)snprintf(what, sizeof what, "%s, %s, %s as %s", kernel_name(l.kernel),
                way == PACK_GATHER ? "gather" : "scatter",
                tutti_dtype_name(pair->tensor), tutti_dtype_name(pair->packed));
        l = prepare(&host, way, form, pair->tensor);
        kernel_body_of(l.kernel)(&host.plan.args, l.grid, l.threads);
        compare(k, way == PACK_GATHER ? &packed : &tensors, what);
    }
    twin_end(k, &tensors);
    twin_end(k, &packed);
}

static void run_packs(struct loaded *k)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        for (int form = PACK_SMALL; form < PACK_FORMS; form++) {
            run_pack(k, &pairs[i], PACK_GATHER, (enum pack_form)form);
            run_pack(k, &pairs[i], PACK_SCATTER, (enum pack_form)form);
        }
    }
}

/* Every kernel that there is was launched: the pairs cover all families. */
static bool all_launched(const struct loaded *k)
{
    bool all = true;

    for (int i = 0; i < KERNEL_COUNT; i++) {
        if (k->gpu->kernels[i] != NULL && !k->launched[i]) {
            (void)printf("device_kernels: %s was never launched\n", kernel_name(i));
            all = false;
        }
    }
    return all;
}

int main(void)
{
    static struct loaded k;
    int status = device_find(&k.rig, "device_kernels");
    bool all;

    if (status != 0) {
        return status;
    }
    device_open(&k.rig, 0);
    status = device_kernels(&k.rig, "device_kernels", &k.gpu);
    if (status != 0) {
        return status;
    }
    run_packs(&k);
    all = all_launched(&k);
    gpu_close(k.gpu);
    device_close(&k.rig);
    (void)printf("device_kernels: %d comparisons, %d wrong\n", k.made, k.wrong);
    return all && k.wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
