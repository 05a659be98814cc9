/*
 * bench-pack: how fast tensors in device memory are packed and unpacked, beside other ways to do that, on
 * this machine's first GPU; as a table in Markdown. Needs no job, no NCCL.
 *
 * GB/s are 10^9 bytes per second that are read and written. A time is taken by events on the stream, around
 * several runs one behind the other, and is the median of the samples. Runs go round over so many batches
 * that no run finds its data in a cache. The percentage is of a plain copy of 1 GiB in the same run.
 *
 * With --check nothing is measured: tensors are packed once, small ones, and where nothing is converted the
 * loop must write the same. That is all that makes sense over the simulator.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/core/summary.h"
#include "bench/core/workloads.h"
#include "ops/gpu/packing.h"
#include "test/batch/pattern.h"
#include "test/batch/reference.h"
#include "test/gpu/real/device.h"

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
    struct packing packing;
    cu_event begin, end; /* with times */
    void *busy; /* memory to write while runs are launched */
    double peak; /* a plain copy, in 10^9 bytes per second */
    bool checks; /* only whether the ways do the same */
    const char *cases; /* letters */
    int samples;
};

/** A batch in device memory. */
struct batch {
    struct gpu_form form; /* its types */
    unsigned char *tensors; /* all of them, apart, in one allocation */
    size_t tensor_bytes; /* of that allocation */
    void *packed;
    size_t packed_bytes;
    struct script_pieces pieces; /* owned */
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
    const size_t element = tutti_dtype_size(batch->form.dtype);
    const size_t wire = tutti_dtype_size(batch->form.wire);
    struct bench_workload workload;

    batch->tensor_bytes = c->shifted ? element : 0;
    if (!(c->workload != NULL ? bench_workload_init(&workload, c->workload)
                              : bench_workload_init_uniform(
                                        &workload, c->tensors, c->bytes / element))) {
        abort();
    }
    batch->pieces.count =
            checks ? size_min(workload.count, CHECK_TENSORS) : workload.count;
    batch->pieces.pieces =
            must_alloc(batch->pieces.count, sizeof *batch->pieces.pieces);
    for (size_t i = 0; i < batch->pieces.count; i++) {
        const size_t all = workload.tensors[i].count;
        const size_t count = checks ? size_min(all, CHECK_ELEMENTS) : all;

        batch->pieces.pieces[i] = (struct script_piece){ .tensor = batch->tensor_bytes,
            .packed = { .at = batch->packed_bytes, .in_slab = true },
            .count = count };
        batch->tensor_bytes += apart(count * element);
        batch->packed_bytes += apart(count * wire);
        batch->traffic += (double)(count * (element + wire));
    }
    bench_workload_fini(&workload);
}

static struct batch batch_new(
        const struct bench *bench, const struct pack_case *c, const struct kind *kind)
{
    struct batch batch = { .form = { .dtype = kind->tensor,
                                   .wire = kind->packed,
                                   .before = 1,
                                   .divisor = RANKS,
                                   .after = 1 } };

    plan_case(&batch, c, bench->checks);
    batch.tensors = device_memory(&bench->rig, batch.tensor_bytes);
    batch.packed = device_memory(&bench->rig, batch.packed_bytes);
    for (size_t i = 0; i < batch.pieces.count; i++) {
        batch.pieces.pieces[i].tensor += device_address(batch.tensors);
    }
    return batch;
}

static void batch_end(const struct bench *bench, struct batch *batch)
{
    device_drop(&bench->rig, batch->tensors);
    device_drop(&bench->rig, batch->packed);
    free(batch->pieces.pieces);
}

/* --------------------------------------------------------------------------- ways */

static void run_packing(
        struct bench *bench, const struct batch *batch, enum pack_direction direction)
{
    device_pack(&bench->packing,
            &(struct packing_work){ .pieces = &batch->pieces,
                    .form = &batch->form,
                    .direction = direction,
                    .slab = device_address(batch->packed),
                    .stream = bench->rig.stream });
}

static void run_pack(struct bench *bench, const struct batch *batch)
{
    run_packing(bench, batch, PACK_GATHER);
}

static void run_unpack(struct bench *bench, const struct batch *batch)
{
    run_packing(bench, batch, PACK_SCATTER);
}

static void run_loop(struct bench *bench, const struct batch *batch)
{
    for (size_t i = 0; i < batch->pieces.count; i++) {
        const struct script_piece *piece = &batch->pieces.pieces[i];

        DEVICE_MUST(&bench->rig,
                memcpy_dtod_async(device_address(batch->packed) + piece->packed.at,
                        piece->tensor,
                        piece->count * tutti_dtype_size(batch->form.dtype),
                        bench->rig.stream));
    }
}

/** A way to do it, once. */
static const struct way {
    const char *text;
    bool copies_only; /* it cannot convert */
    void (*run)(struct bench *bench, const struct batch *batch);
} ways[] = {
    { "tutti, pack", false, run_pack },
    { "tutti, unpack and average", false, run_unpack },
    { "loop of cuMemcpyDtoDAsync", true, run_loop },
};

#define WAYS (sizeof ways / sizeof ways[0])

/* -------------------------------------------------------------------------- times */

/* Seconds of one run; batches are taken from number *next on. */
static double sample(struct bench *bench, const struct way *way,
        const struct batch *batches, size_t count, size_t *next)
{
    const struct device_rig *rig = &bench->rig;
    float ms = 0;

    DEVICE_MUST(rig,
            memset_d8_async(device_address(bench->busy), 0, BUSY_BYTES, rig->stream));
    DEVICE_MUST(rig, event_record(bench->begin, rig->stream));
    for (int run = 0; run < RUNS; run++) {
        way->run(bench, &batches[(*next)++ % count]);
    }
    DEVICE_MUST(rig, event_record(bench->end, rig->stream));
    DEVICE_MUST(rig, event_synchronize(bench->end));
    DEVICE_MUST(rig, event_elapsed_time(&ms, bench->begin, bench->end));
    return (double)ms * 1e-3 / RUNS;
}

/* The median of the samples, after one to warm up. */
static double measure(struct bench *bench, const struct way *way,
        const struct batch *batches, size_t count)
{
    static double times[SAMPLES_MAX];
    size_t next = 0;

    (void)sample(bench, way, batches, count, &next);
    for (int i = 0; i < bench->samples; i++) {
        times[i] = sample(bench, way, batches, count, &next);
    }
    return bench_summarise(times, (size_t)bench->samples).median;
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
        struct bench *bench, const struct pack_case *c, const struct kind *kind)
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

        if (ways[i].copies_only && kind->tensor != kind->packed) {
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

/* What one way makes of the tensors; owned. */
static unsigned char *packed_by(struct bench *bench, const struct batch *batch,
        void (*run)(struct bench *bench, const struct batch *batch))
{
    unsigned char *packed = must_alloc(batch->packed_bytes, 1);

    memset(packed, 0xff, batch->packed_bytes);
    device_upload(&bench->rig, batch->packed, packed, batch->packed_bytes);
    run(bench, batch);
    device_download(&bench->rig, packed, batch->packed, batch->packed_bytes);
    return packed;
}

/* @return false, having said so, when packing is no copy */
static bool check_case(
        struct bench *bench, const struct pack_case *c, const struct kind *kind)
{
    const struct pattern pattern = { .dtype = kind->tensor };
    struct batch batch = batch_new(bench, c, kind);
    const size_t elements = batch.tensor_bytes / tutti_dtype_size(kind->tensor);
    unsigned char *tensors = must_alloc(batch.tensor_bytes, 1);
    unsigned char *packed;
    unsigned char *copied;
    bool good = true;

    pattern_fill(&pattern, 0, tensors, elements);
    device_upload(&bench->rig, batch.tensors, tensors, batch.tensor_bytes);
    packed = packed_by(bench, &batch, run_pack);
    if (kind->tensor == kind->packed) {
        copied = packed_by(bench, &batch, run_loop);
        good = memcmp(packed, copied, batch.packed_bytes) == 0;
        free(copied);
    }
    if (!good) {
        (void)printf("%c, %s: packing does not write what a loop of copies does\n",
                c->letter, kind->text);
    }
    free(tensors);
    free(packed);
    batch_end(bench, &batch);
    return good;
}

/* --------------------------------------------------------------------------- main */

/* @return false, having said what there is */
static const char usage[] =
        "usage: bench-pack [--check] [--cases ABCDEFG] [--samples N]\n"
        "TUTTI_CUDA_LIBRARY, TUTTI_GPU_KERNELS and TUTTI_GPU_PACK_SMS count.\n";

static bool parse(int argc, char **argv, struct bench *bench)
{
    static const struct option longs[] = { { "check", no_argument, NULL, 'k' },
        { "cases", required_argument, NULL, 'c' },
        { "samples", required_argument, NULL, 's' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 } };
    int letter;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((letter = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (letter == 'k') {
            bench->checks = true;
        } else if (letter == 'h') {
            (void)fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        } else if (letter == 'c') {
            bench->cases = optarg;
        } else {
            bench->samples = letter == 's' ? (int)strtol(optarg, NULL, 10) : 0;
        }
    }
    if (optind != argc || bench->samples < 1 || bench->samples > SAMPLES_MAX) {
        (void)fputs(usage, stderr);
        return false;
    }
    return true;
}

/* All cases that are wanted, in all types. @return how many were wrong */
static int run_cases(struct bench *bench)
{
    int wrong = 0;

    for (size_t i = 0; i < CASES * KINDS; i++) {
        const struct pack_case *c = &cases[i / KINDS];

        if (strchr(bench->cases, c->letter) == NULL) {
            continue;
        }
        if (bench->checks) {
            wrong += check_case(bench, c, &kinds[i % KINDS]) ? 0 : 1;
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
    DEVICE_MUST(&bench->rig, event_create(&bench->begin, CU_EVENT_TIMED));
    DEVICE_MUST(&bench->rig, event_create(&bench->end, CU_EVENT_TIMED));
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
    (void)bench->rig.cuda.event_destroy(bench->begin);
    (void)bench->rig.cuda.event_destroy(bench->end);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct bench bench = { .cases = "ABCDEFG", .samples = 50 };
    int status;

    if (!parse(argc, argv, &bench)) {
        return 2;
    }
    status = device_kernels(&bench.rig, "bench-pack", &bench.packing);
    if (status == 0) {
        status = run(&bench);
        gpu_close(bench.packing.gpu);
        device_close(&bench.rig);
    }
    return status;
}
