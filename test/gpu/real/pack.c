/*
 * bench-pack: how fast tensors in device memory are packed and unpacked, beside other ways to do that, on
 * this machine's first GPU; as a table in Markdown. Needs no job, no NCCL.
 *
 * GB/s are 10^9 bytes per second that are read and written. A time is taken by events on the stream, around
 * several runs one behind the other, and is the median of the samples. Runs go round over so many batches
 * that no run finds its data in a cache. The percentage is of a plain copy of 1 GiB in the same run.
 *
 * With --check nothing is measured: every way to pack runs once on small tensors, and all must write
 * the same (device_kernels compares the kernels with the host's). That is all that makes sense over the simulator.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bench/core/workloads.h"
#include "ops/gpu/packing.h"
#include "test/batch/reference.h"
#include "test/gpu/real/device.h"
#include "test/gpu/real/rival.h"
#include "test/suite/buffer.h"

#define SAMPLES_MAX 1000
/* Runs between two events, so that the launch of the first one does not count. */
#define RUNS 4
/* Batches are taken in turn until so many bytes were touched. */
#define ROTATED_BYTES ((size_t)256 << 20)
#define BATCHES_MAX 64
#define PLAIN_BYTES ((size_t)1 << 30)
/* Written before each sample, so that the GPU is busy while the runs are launched. */
#define BUSY_BYTES ((size_t)512 << 20)
/* As far apart as allocations of the CUDA driver. */
#define TENSOR_ALIGNMENT 256
/* Unpacking divides by so many ranks. */
#define RANKS 8
/* Most tensors, and elements of each, with --check. */
#define CHECK_TENSORS 1100
#define CHECK_ELEMENTS 20000

/** A case: its tensors, as bytes or as the workload of a network. */
struct pack_case {
    char letter; /* as --cases names it */
    const char *text; /* for the table */
    const char *workload; /* of bench/core/workloads.h; NULL: the next two */
    size_t tensors, bytes; /* of each */
    bool shifted; /* tensors begin one element behind a boundary */
};

static const struct pack_case cases[] = {
    { .letter = 'A', .text = "1 x 64 MB", .tensors = 1, .bytes = 64000000 },
    { .letter = 'B', .text = "64 x 1 MB", .tensors = 64, .bytes = 1000000 },
    { .letter = 'C', .text = "1000 x 64 KB", .tensors = 1000, .bytes = 64000 },
    { .letter = 'D', .text = "10000 x 4 KB", .tensors = 10000, .bytes = 4000 },
    { .letter = 'E', .text = "ResNet-50", .workload = "resnet50" },
    { .letter = 'F', .text = "GPT-2 124M", .workload = "gpt2" },
    { 'G', "64 x 1 MB, shifted", NULL, 64, 1000000, true },
};

/** The types of a row. */
static const struct kind {
    const char *text;
    tutti_dtype tensor, packed;
} kinds[] = {
    { "f32", TUTTI_FLOAT32, TUTTI_FLOAT32 },
    { "bf16", TUTTI_BFLOAT16, TUTTI_BFLOAT16 },
    { "f32 as bf16", TUTTI_FLOAT32, TUTTI_BFLOAT16 },
};

#define CASES (sizeof cases / sizeof cases[0])
#define KINDS (sizeof kinds / sizeof kinds[0])

/** What is measured. */
struct bench {
    struct device_rig rig;
    struct gpu *gpu; /* owned; for its kernels */
    struct packing packing; /* what is launched for it */
    cu_function rival; /* rival.h */
    cu_event begin, end; /* with times */
    void *busy; /* memory to write while runs are launched */
    double peak; /* a plain copy, in 10^9 bytes per second */
    bool checks; /* only whether the ways do the same */
    const char *cases; /* letters */
    int samples;
};

/** A batch in device memory. */
struct batch {
    const struct kind *kind;
    unsigned char *tensors; /* all of them, apart, in one allocation */
    size_t tensor_bytes; /* of that allocation */
    void *packed;
    size_t packed_bytes;
    struct pack_piece *pieces; /* without chunks; owned */
    size_t piece_count;
    double traffic; /* bytes that a copy of it reads and writes */
};

/* ------------------------------------------------------------------------ batches */

static size_t apart(size_t bytes)
{
    return (bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
}

/* Lays out the tensors of a case, with offsets for addresses. */
static void plan_case(struct batch *batch, const struct pack_case *c, bool checks)
{
    const size_t element = tutti_dtype_size(batch->kind->tensor);
    struct bench_workload workload;

    batch->tensor_bytes = c->shifted ? element : 0;
    if (!(c->workload != NULL ? bench_workload_init(&workload, c->workload)
                              : bench_workload_init_uniform(
                                        &workload, c->tensors, c->bytes / element))) {
        abort();
    }
    batch->pieces = must_alloc(workload.count, sizeof *batch->pieces);
    for (size_t i = 0; i < workload.count && !(checks && i == CHECK_TENSORS); i++) {
        const uint64_t all = workload.tensors[i].count;
        const uint64_t count = checks && all > CHECK_ELEMENTS ? CHECK_ELEMENTS : all;

        batch->pieces[batch->piece_count++] = (struct pack_piece){
            .tensor = batch->tensor_bytes, .packed = batch->packed_bytes, .count = count
        };
        batch->tensor_bytes += apart(count * element);
        batch->packed_bytes += apart(count * tutti_dtype_size(batch->kind->packed));
    }
    bench_workload_fini(&workload);
}

static struct batch batch_new(
        const struct bench *bench, const struct pack_case *c, const struct kind *kind)
{
    const struct device_rig *rig = &bench->rig;
    struct batch batch = { .kind = kind };

    plan_case(&batch, c, bench->checks);
    batch.tensors = device_memory(rig, batch.tensor_bytes);
    batch.packed = device_memory(rig, batch.packed_bytes);
    for (size_t i = 0; i < batch.piece_count; i++) {
        batch.pieces[i].tensor += device_address(batch.tensors);
        batch.traffic += (double)batch.pieces[i].count *
                (double)(tutti_dtype_size(kind->tensor) +
                        tutti_dtype_size(kind->packed));
    }
    return batch;
}

static void batch_end(const struct bench *bench, struct batch *batch)
{
    device_drop(&bench->rig, batch->tensors);
    device_drop(&bench->rig, batch->packed);
    free(batch->pieces);
}

/* --------------------------------------------------------------------------- ways */

static void launch(const struct bench *bench, cu_function function, uint32_t grid,
        uint32_t threads, void *args)
{
    void *parameters[] = { args };

    device_must(&bench->rig,
            bench->rig.cuda.launch_kernel(function, grid, 1, 1, threads, 1, 1, 0,
                    bench->rig.stream, parameters, NULL),
            "launch a kernel");
}

/* In as many launches as it has pieces for. */
static void run_kernel(const struct bench *bench, const struct batch *batch,
        enum pack_direction direction)
{
    static struct pack_plan plan;
    const struct kernel_target *target = &bench->packing.target;
    const size_t most = pack_pieces_max(target);
    const struct pack_work work = { .direction = direction,
        .packed = device_address(batch->packed),
        .scale = 1,
        .divisor = direction == PACK_SCATTER ? RANKS : 1 };

    for (size_t i = 0; i < batch->piece_count;) {
        struct kernel_launch l;

        pack_plan_init(&plan, batch->kind->tensor, batch->kind->packed);
        for (size_t some = 0; some < most && i < batch->piece_count; some++, i++) {
            const struct pack_piece *piece = &batch->pieces[i];

            pack_plan_add(&plan, piece->tensor, piece->count, piece->packed);
        }
        l = pack_launch(&plan, &work, target);
        launch(bench, bench->gpu->kernels[l.kernel], l.grid, l.threads, &plan.args);
    }
}

static void run_pack(const struct bench *bench, const struct batch *batch)
{
    run_kernel(bench, batch, PACK_GATHER);
}

static void run_unpack(const struct bench *bench, const struct batch *batch)
{
    run_kernel(bench, batch, PACK_SCATTER);
}

/** Copies of a batch, as the driver and the rival want them. */
static struct rival_copy copy_of(const struct batch *batch, size_t i)
{
    const struct pack_piece *piece = &batch->pieces[i];

    return (struct rival_copy){ .from = piece->tensor,
        .to = device_address(batch->packed) + piece->packed,
        .bytes = piece->count * tutti_dtype_size(batch->kind->tensor) };
}

static void run_loop(const struct bench *bench, const struct batch *batch)
{
    for (size_t i = 0; i < batch->piece_count; i++) {
        const struct rival_copy copy = copy_of(batch, i);

        device_must(&bench->rig,
                bench->rig.cuda.memcpy_dtod_async(
                        copy.to, copy.from, copy.bytes, bench->rig.stream),
                "copy");
    }
}

static void run_rival(const struct bench *bench, const struct batch *batch)
{
    static struct rival_args args;
    size_t some = 0;

    for (size_t i = 0; i < batch->piece_count; i++) {
        args.copies[some++] = copy_of(batch, i);
        if (some == RIVAL_COPIES || i + 1 == batch->piece_count) {
            launch(bench, bench->rival, (uint32_t)some * RIVAL_BLOCKS, RIVAL_THREADS,
                    &args);
            some = 0;
        }
    }
}

/** A way to do it, once. */
static const struct way {
    const char *text;
    bool copies_only; /* it cannot convert */
    void (*run)(const struct bench *bench, const struct batch *batch);
} ways[] = {
    { "tutti, pack", false, run_pack },
    { "tutti, unpack and average", false, run_unpack },
    { "loop of cuMemcpyDtoDAsync", true, run_loop },
    { "8 blocks for each tensor", true, run_rival },
};

#define WAYS (sizeof ways / sizeof ways[0])

static bool applies(const struct way *way, const struct kind *kind)
{
    return !way->copies_only || kind->tensor == kind->packed;
}

/* -------------------------------------------------------------------------- times */

/* Seconds of one run; batches are taken from number *next on. */
static double sample(const struct bench *bench, const struct way *way,
        const struct batch *batches, size_t count, size_t *next)
{
    const struct device_rig *rig = &bench->rig;
    float ms = 0;

    device_must(rig,
            rig->cuda.memset_d8_async(
                    device_address(bench->busy), 0, BUSY_BYTES, rig->stream),
            "keep the device busy");
    device_must(rig, rig->cuda.event_record(bench->begin, rig->stream), "record");
    for (int run = 0; run < RUNS; run++) {
        way->run(bench, &batches[(*next)++ % count]);
    }
    device_must(rig, rig->cuda.event_record(bench->end, rig->stream), "record");
    device_must(rig, rig->cuda.event_synchronize(bench->end), "wait");
    device_must(
            rig, rig->cuda.event_elapsed_time(&ms, bench->begin, bench->end), "time");
    return (double)ms * 1e-3 / RUNS;
}

/* The median of the samples, after one to warm up. */
static double measure(const struct bench *bench, const struct way *way,
        const struct batch *batches, size_t count)
{
    static double times[SAMPLES_MAX];
    size_t next = 0;

    (void)sample(bench, way, batches, count, &next);
    for (int i = 0; i < bench->samples; i++) {
        times[i] = sample(bench, way, batches, count, &next);
    }
    return times_sorted(times, bench->samples)[bench->samples / 2];
}

/* What percentages are of: a copy of 1 GiB. */
static void measure_plain(struct bench *bench)
{
    static const struct way plain = { "plain", true, run_loop };
    static const struct pack_case c = { .tensors = 1, .bytes = PLAIN_BYTES };
    struct batch batch = batch_new(bench, &c, &kinds[0]);

    bench->peak = batch.traffic * 1e-9 / measure(bench, &plain, &batch, 1);
    batch_end(bench, &batch);
}

static void measure_case(
        const struct bench *bench, const struct pack_case *c, const struct kind *kind)
{
    static struct batch batches[BATCHES_MAX];
    size_t count = 0;
    double traffic = 0;

    while (count < BATCHES_MAX && traffic < (double)ROTATED_BYTES) {
        batches[count] = batch_new(bench, c, kind);
        traffic += batches[count++].traffic;
    }
    for (size_t i = 0; i < WAYS; i++) {
        double seconds;
        double speed;

        if (!applies(&ways[i], kind)) {
            continue;
        }
        seconds = measure(bench, &ways[i], batches, count);
        speed = batches[0].traffic * 1e-9 / seconds;
        (void)printf("| %c: %s | %s | %s | %.1f | %.0f | %.0f |\n", c->letter, c->text,
                kind->text, ways[i].text, seconds * 1e6, speed,
                speed / bench->peak * 100);
        (void)fflush(stdout);
    }
    while (count > 0) {
        batch_end(bench, &batches[--count]);
    }
}

/* ------------------------------------------------------------------------- checks */

/* Multiples of 1/4 up to 64: exact in both types. */
static void fill_tensors(const struct bench *bench, const struct batch *batch)
{
    const bool is_half = batch->kind->tensor == TUTTI_BFLOAT16;
    unsigned char *memory = must_alloc(batch->tensor_bytes, 1);

    for (size_t i = 0; i < batch->piece_count; i++) {
        const struct pack_piece *piece = &batch->pieces[i];
        unsigned char *to = memory + (piece->tensor - device_address(batch->tensors));

        for (uint64_t k = 0; k < piece->count; k++) {
            const float value = (float)((int)((k * 7 + i * 13) % 512) - 256) / 4;
            const unsigned char *bytes = (const unsigned char *)&value;

            /* The upper half of a float is a bfloat16. */
            memcpy(to, is_half ? bytes + 2 : bytes, is_half ? 2 : 4);
            to += is_half ? 2 : 4;
        }
    }
    device_upload(&bench->rig, batch->tensors, memory, batch->tensor_bytes);
    free(memory);
}

static void pack_by(const struct bench *bench, const struct batch *batch,
        const struct way *way, unsigned char *packed)
{
    device_must(&bench->rig,
            bench->rig.cuda.memset_d8_async(device_address(batch->packed), 0xff,
                    batch->packed_bytes, bench->rig.stream),
            "fill device memory");
    way->run(bench, batch);
    device_download(&bench->rig, packed, batch->packed, batch->packed_bytes);
}

/* Every way to pack must do what the first one does. @return how many do not */
static int check_case(
        const struct bench *bench, const struct pack_case *c, const struct kind *kind)
{
    struct batch batch = batch_new(bench, c, kind);
    const size_t bytes = batch.packed_bytes;
    unsigned char *wanted = must_alloc(bytes, 1);
    unsigned char *packed = must_alloc(bytes, 1);
    int wrong = 0;

    fill_tensors(bench, &batch);
    pack_by(bench, &batch, &ways[0], wanted);
    for (size_t i = 1; i < WAYS; i++) {
        if (!applies(&ways[i], kind) || ways[i].run == run_unpack) {
            continue;
        }
        pack_by(bench, &batch, &ways[i], packed);
        if (memcmp(packed, wanted, bytes) != 0) {
            (void)printf("%c, %s: \"%s\" does not write what \"%s\" does\n", c->letter,
                    kind->text, ways[i].text, ways[0].text);
            wrong++;
        }
    }
    free(wanted);
    free(packed);
    batch_end(bench, &batch);
    return wrong;
}

/* --------------------------------------------------------------------------- main */

static int usage(FILE *to, int status)
{
    (void)fprintf(to,
            "usage: bench-pack [--check] [--cases ABCDEFG] [--samples N]\n"
            "TUTTI_CUDA_LIBRARY, TUTTI_GPU_KERNELS and TUTTI_GPU_PACK_SMS count.\n");
    return status;
}

/* @return -1 to go on, or an exit status */
static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option longs[] = { { "check", no_argument, NULL, 'k' },
        { "cases", required_argument, NULL, 'c' },
        { "samples", required_argument, NULL, 's' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 } };
    int letter;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (letter == 'k') {
            bench->checks = true;
        } else if (letter == 'c') {
            bench->cases = optarg;
        } else if (letter == 's') {
            bench->samples = (int)strtol(optarg, NULL, 10);
        } else {
            return usage(letter == 'h' ? stdout : stderr, letter == 'h' ? 0 : 2);
        }
    }
    if (optind != argc || bench->samples < 1 || bench->samples > SAMPLES_MAX) {
        return usage(stderr, 2);
    }
    return -1;
}

#if TUTTI_BENCH_HAS_RIVAL
extern const unsigned char tutti_rival_image[];
#else /* there is the simulator, which finds kernels by name */
static const unsigned char tutti_rival_image[] = "simulated";
#endif

/* @return 0, or DEVICE_SKIPPED after a sentence that says why */
static int open_bench(struct bench *bench)
{
    struct device_rig *rig = &bench->rig;
    cu_module module = NULL;
    int status;

    device_open(rig, 0);
    status = device_kernels(rig, "bench-pack", &bench->gpu);
    if (status != 0) {
        return status;
    }
    packing_init(&bench->packing, bench->gpu, NULL);
    device_must(rig, rig->cuda.module_load_data(&module, tutti_rival_image),
            "load the kernel for comparison");
    device_must(rig,
            rig->cuda.module_get_function(&bench->rival, module, "tutti_rival_blocks"),
            "find the kernel for comparison");
    device_must(rig, rig->cuda.event_create(&bench->begin, CU_EVENT_TIMED),
            "make an event");
    device_must(
            rig, rig->cuda.event_create(&bench->end, CU_EVENT_TIMED), "make an event");
    return 0;
}

/* All cases that are wanted, in all types. @return how many ways were wrong */
static int run_cases(const struct bench *bench)
{
    int wrong = 0;

    for (size_t i = 0; i < CASES * KINDS; i++) {
        const struct pack_case *c = &cases[i / KINDS];

        if (strchr(bench->cases, c->letter) == NULL) {
            continue;
        }
        if (bench->checks) {
            wrong += check_case(bench, c, &kinds[i % KINDS]);
        } else {
            measure_case(bench, c, &kinds[i % KINDS]);
        }
    }
    return wrong;
}

static int run(struct bench *bench)
{
    int wrong;

    if (bench->checks) {
        wrong = run_cases(bench);
        (void)printf("bench-pack: %s: %d wrong\n", bench->rig.name, wrong);
        return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (bench->rig.simulated) {
        (void)printf("bench-pack: this GPU is simulated, and its times mean nothing; "
                     "--check compares results\n");
        return DEVICE_SKIPPED;
    }
    bench->busy = device_memory(&bench->rig, BUSY_BYTES);
    measure_plain(bench);
    (void)printf(
            "%s, CUDA driver %d.%d, %d multiprocessors used; a plain copy: %.0f GB/s. "
            "Tensors in the arena: no copy at all.\n\n"
            "| tensors | types | way | us | GB/s | %% of a plain copy |\n"
            "|---|---|---|---|---|---|\n",
            bench->rig.name, bench->rig.cuda.version / 1000,
            bench->rig.cuda.version % 1000 / 10, bench->packing.target.sm_count,
            bench->peak);
    (void)run_cases(bench);
    device_drop(&bench->rig, bench->busy);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct bench bench = { .cases = "ABCDEFG", .samples = 50 };
    int status = parse(argc, argv, &bench);

    if (status != -1) {
        return status;
    }
    status = device_find(&bench.rig, "bench-pack");
    if (status != 0) {
        return status;
    }
    status = open_bench(&bench);
    if (status == 0) {
        status = run(&bench);
        (void)bench.rig.cuda.event_destroy(bench.begin);
        (void)bench.rig.cuda.event_destroy(bench.end);
        gpu_close(bench.gpu);
    }
    device_close(&bench.rig);
    return status;
}
