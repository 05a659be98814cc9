/*
 * bench-pack: how fast tensors in device memory are packed and unpacked, beside other ways
 * to do that, on this machine's first GPU; as a table in Markdown. Needs no job, no NCCL.
 *
 * GB/s are 10^9 bytes per second that are read and written. A time is taken by events on
 * the stream, around several runs one behind the other, and is the median of the samples.
 * Runs go round over so many batches that no run finds its data in a cache. The percentage
 * is of a plain copy of 1 GiB in the same run.
 *
 * With --check nothing is measured: every way runs once on small tensors, and what it wrote
 * is compared. That is all that makes sense over the simulator, whose times mean nothing.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/gpu/kernels/rival.h"
#include "tools/pack/batch.h"
#include "tools/pack/gpu.h"

#define SAMPLES_MAX 1000
/* Runs between two events, so that the launch of the first one does not count. */
#define RUNS 4
/* Batches are taken in turn until so many bytes were touched. */
#define ROTATED_BYTES ((size_t)256 << 20)
#define BATCHES_MAX 64
#define PLAIN_BYTES ((size_t)1 << 30)
/* Written before each sample, so that the GPU is busy while the runs are launched. */
#define BUSY_BYTES ((size_t)512 << 20)
/* More entries of cuMemcpyBatchAsync() have been seen to hang. */
#define BATCH_COPIES_MAX 4096

static const struct pack_case cases[] = {
    { .letter = 'A', .text = "1 x 64 MB", .tensors = 1, .bytes = 64000000 },
    { .letter = 'B', .text = "64 x 1 MB", .tensors = 64, .bytes = 1000000 },
    { .letter = 'C', .text = "1000 x 64 KB", .tensors = 1000, .bytes = 64000 },
    { .letter = 'D', .text = "10000 x 4 KB", .tensors = 10000, .bytes = 4000 },
    { .letter = 'E', .text = "ResNet-50", .workload = "resnet50" },
    { .letter = 'F', .text = "GPT-2 124M", .workload = "gpt2" },
    { .letter = 'G',
            .text = "64 x 1 MB, shifted",
            .tensors = 64,
            .bytes = 1000000,
            .shifted = true },
};

static const struct pack_kind kinds[] = {
    { "f32", TUTTI_FLOAT32, TUTTI_FLOAT32 },
    { "bf16", TUTTI_BFLOAT16, TUTTI_BFLOAT16 },
    { "f32 as bf16", TUTTI_FLOAT32, TUTTI_BFLOAT16 },
};

/** What the command line says. */
struct options {
    bool check; /* only correctness                                                */
    const char *cases; /* letters                                                  */
    int samples;
};

/** A way to do it, once. */
struct way {
    const char *text;
    enum pack_direction direction;
    bool copies_only; /* it cannot convert                                         */
    bool (*is_there)(const struct pack_gpu *gpu); /* NULL: always                  */
    void (*run)(const struct pack_gpu *gpu, const struct pack_batch *batch);
};

/* ---------------------------------------------------------------------------- ways */

static void launch(const struct pack_gpu *gpu, cu_function function, uint32_t grid,
        uint32_t threads, void *args)
{
    void *parameters[] = { args };

    pack_must(gpu,
            gpu->cuda.launch_kernel(function, grid, 1, 1, threads, 1, 1, 0, gpu->stream,
                    parameters, NULL),
            "launch a kernel");
}

/* As a planned batch: the table is in device memory. */
static void run_ours(const struct pack_gpu *gpu, const struct pack_batch *batch,
        enum pack_direction direction, cu_pointer table)
{
    static union pack_args args;
    const struct pack_work work = { .direction = direction,
        .packed = batch->packed,
        .table = table,
        .scale = 1,
        .divisor = direction == PACK_SCATTER ? PACK_RANKS : 1 };
    const struct kernel_launch l =
            pack_launch(&batch->plan, &work, &gpu->target, &args);

    launch(gpu, gpu->kernels[l.kernel], l.grid, l.threads, &args);
}

static void run_pack(const struct pack_gpu *gpu, const struct pack_batch *batch)
{
    run_ours(gpu, batch, PACK_GATHER, batch->table);
}

static void run_unpack(const struct pack_gpu *gpu, const struct pack_batch *batch)
{
    run_ours(gpu, batch, PACK_SCATTER, batch->table);
}

/* As a batch that is seen once: by value where that is possible. */
static void run_pack_by_value(
        const struct pack_gpu *gpu, const struct pack_batch *batch)
{
    const enum pack_form form = pack_plan_form(&batch->plan, &gpu->target);

    run_ours(gpu, batch, PACK_GATHER, form == PACK_TABLE ? batch->table : 0);
}

static void run_loop(const struct pack_gpu *gpu, const struct pack_batch *batch)
{
    for (size_t i = 0; i < batch->plan.piece_count; i++) {
        const struct pack_piece *piece = &batch->plan.pieces[i];

        pack_must(gpu,
                gpu->cuda.memcpy_dtod_async(batch->packed + piece->packed,
                        piece->tensor,
                        piece->count * tutti_dtype_size(batch->kind.tensor),
                        gpu->stream),
                "copy");
    }
}

static void run_rival(const struct pack_gpu *gpu, const struct pack_batch *batch)
{
    static struct rival_args args;
    size_t in_launch = 0;

    for (size_t i = 0; i < batch->plan.piece_count; i++) {
        const struct pack_piece *piece = &batch->plan.pieces[i];

        args.copies[in_launch++] = (struct rival_copy){ .from = piece->tensor,
            .to = batch->packed + piece->packed,
            .bytes = piece->count * tutti_dtype_size(batch->kind.tensor) };
        if (in_launch == RIVAL_COPIES || i + 1 == batch->plan.piece_count) {
            launch(gpu, gpu->rival, (uint32_t)in_launch * RIVAL_BLOCKS, RIVAL_THREADS,
                    &args);
            in_launch = 0;
        }
    }
}

static bool has_batch(const struct pack_gpu *gpu)
{
    return gpu->copy_batch != NULL;
}

static void run_batch(const struct pack_gpu *gpu, const struct pack_batch *batch)
{
    static cu_pointer to[BATCH_COPIES_MAX], from[BATCH_COPIES_MAX];
    static size_t bytes[BATCH_COPIES_MAX];
    struct pack_copy_attributes attributes = { .source_order = 1 };
    size_t start = 0;
    size_t some = 0;

    for (size_t i = 0; i < batch->plan.piece_count; i++) {
        const struct pack_piece *piece = &batch->plan.pieces[i];

        to[some] = batch->packed + piece->packed;
        from[some] = piece->tensor;
        bytes[some++] = piece->count * tutti_dtype_size(batch->kind.tensor);
        if (some == BATCH_COPIES_MAX || i + 1 == batch->plan.piece_count) {
            pack_must(gpu,
                    gpu->copy_batch(
                            to, from, bytes, some, &attributes, &start, 1, gpu->stream),
                    "copy a batch");
            some = 0;
        }
    }
}

static const struct way ways[] = {
    { .text = "tutti, pack", .direction = PACK_GATHER, .run = run_pack },
    { .text = "tutti, pack, by value",
            .direction = PACK_GATHER,
            .run = run_pack_by_value },
    { .text = "tutti, unpack and average",
            .direction = PACK_SCATTER,
            .run = run_unpack },
    { .text = "loop of cuMemcpyDtoDAsync",
            .direction = PACK_GATHER,
            .copies_only = true,
            .run = run_loop },
    { .text = "8 blocks for each tensor",
            .direction = PACK_GATHER,
            .copies_only = true,
            .run = run_rival },
    { .text = "cuMemcpyBatchAsync",
            .direction = PACK_GATHER,
            .copies_only = true,
            .is_there = has_batch,
            .run = run_batch },
};

static bool applies(
        const struct way *way, const struct pack_gpu *gpu, struct pack_kind kind)
{
    return (!way->copies_only || kind.tensor == kind.packed) &&
            (way->is_there == NULL || way->is_there(gpu));
}

/* ---------------------------------------------------------------------------- times */

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Seconds between two moments of the stream. */
static double elapsed(const struct pack_gpu *gpu)
{
    float ms = 0;

    pack_must(gpu, gpu->cuda.event_synchronize(gpu->end), "wait");
    pack_must(gpu, gpu->cuda.event_elapsed_time(&ms, gpu->begin, gpu->end), "time");
    return (double)ms * 1e-3;
}

/* One run, in seconds: the median of the samples. */
static double measure(const struct pack_gpu *gpu, const struct way *way,
        const struct pack_batch *batches, size_t count, int samples)
{
    static double times[SAMPLES_MAX];
    size_t next = 0;

    for (int sample = -1; sample < samples; sample++) { /* the first one warms up */
        pack_must(gpu, gpu->cuda.memset_d8_async(gpu->busy, 0, BUSY_BYTES, gpu->stream),
                "keep the device busy");
        pack_must(gpu, gpu->cuda.event_record(gpu->begin, gpu->stream), "record");
        for (int run = 0; run < RUNS; run++) {
            way->run(gpu, &batches[next++ % count]);
        }
        pack_must(gpu, gpu->cuda.event_record(gpu->end, gpu->stream), "record");
        if (sample >= 0) {
            times[sample] = elapsed(gpu) / RUNS;
        } else {
            (void)elapsed(gpu);
        }
    }
    qsort(times, (size_t)samples, sizeof times[0], compare_times);
    return times[samples / 2];
}

/* What percentages are of: a copy of 1 GiB. */
static void measure_plain(struct pack_gpu *gpu, int samples)
{
    static const struct way plain = { .text = "plain", .run = run_loop };
    static const struct pack_case c = { .tensors = 1, .bytes = PLAIN_BYTES };
    struct pack_batch batch;

    pack_batch_init(&batch, gpu, &c, kinds[0], false);
    gpu->peak = pack_batch_traffic(&batch) * 1e-9 /
            measure(gpu, &plain, &batch, 1, samples);
    pack_batch_fini(&batch, gpu);
}

static int measure_case(struct pack_gpu *gpu, const struct pack_case *c,
        struct pack_kind kind, int samples)
{
    static struct pack_batch batches[BATCHES_MAX];
    size_t count = 0;
    double traffic = 0;

    while (count < BATCHES_MAX && traffic < (double)ROTATED_BYTES) {
        pack_batch_init(&batches[count], gpu, c, kind, false);
        traffic += pack_batch_traffic(&batches[count++]);
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        double seconds, speed;

        if (!applies(&ways[i], gpu, kind)) {
            continue;
        }
        seconds = measure(gpu, &ways[i], batches, count, samples);
        speed = pack_batch_traffic(&batches[0]) * 1e-9 / seconds;
        (void)printf("| %c: %s | %s | %s | %.1f | %.0f | %.0f |\n", c->letter, c->text,
                kind.text, ways[i].text, seconds * 1e6, speed, speed / gpu->peak * 100);
        (void)fflush(stdout);
    }
    while (count > 0) {
        pack_batch_fini(&batches[--count], gpu);
    }
    return 0;
}

/* ---------------------------------------------------------------------------- checks */

/* @return the number of ways that were wrong */
static int check_case(struct pack_gpu *gpu, const struct pack_case *c,
        struct pack_kind kind, int samples)
{
    struct pack_batch batch;
    int wrong = 0;

    (void)samples;
    pack_batch_init(&batch, gpu, c, kind, true);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char what[128];

        if (!applies(&ways[i], gpu, kind)) {
            continue;
        }
        (void)snprintf(
                what, sizeof what, "%c, %s, %s", c->letter, kind.text, ways[i].text);
        pack_batch_prepare(&batch, gpu, ways[i].direction);
        ways[i].run(gpu, &batch);
        wrong += pack_batch_check(&batch, gpu, ways[i].direction, what) ? 0 : 1;
    }
    pack_batch_fini(&batch, gpu);
    return wrong;
}

/* ------------------------------------------------------------------------------ main */

static int usage(FILE *to, int status)
{
    (void)fprintf(to,
            "usage: bench-pack [--check] [--cases ABCDEFG] [--samples N]\n"
            "TUTTI_CUDA_LIBRARY, TUTTI_GPU_KERNELS and TUTTI_GPU_PACK_SMS count.\n");
    return status;
}

/* @return -1 to go on, or an exit status */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option longs[] = { { "check", no_argument, NULL, 'k' },
        { "cases", required_argument, NULL, 'c' },
        { "samples", required_argument, NULL, 's' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 } };
    int letter;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (letter == 'k') {
            options->check = true;
        } else if (letter == 'c') {
            options->cases = optarg;
        } else if (letter == 's') {
            options->samples = (int)strtol(optarg, NULL, 10);
        } else {
            return usage(letter == 'h' ? stdout : stderr, letter == 'h' ? 0 : 2);
        }
    }
    if (optind != argc || options->samples < 1 || options->samples > SAMPLES_MAX) {
        return usage(stderr, 2);
    }
    return -1;
}

#define CASES (sizeof cases / sizeof cases[0])
#define KINDS (sizeof kinds / sizeof kinds[0])

/** What is done with a case and types. */
typedef int (*case_fn)(struct pack_gpu *gpu, const struct pack_case *c,
        struct pack_kind kind, int samples);

/* All cases that are wanted, in all types. @return the sum of what `each` returns */
static int each_case(struct pack_gpu *gpu, const struct options *options, case_fn each)
{
    int sum = 0;

    for (size_t i = 0; i < CASES * KINDS; i++) {
        const struct pack_case *c = &cases[i / KINDS];

        if (strchr(options->cases, c->letter) != NULL) {
            sum += each(gpu, c, kinds[i % KINDS], options->samples);
        }
    }
    return sum;
}

static int check_all(struct pack_gpu *gpu, const struct options *options)
{
    const int wrong = each_case(gpu, options, check_case);

    (void)printf("bench-pack: %s: %d wrong\n", gpu->name, wrong);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int measure_all(struct pack_gpu *gpu, const struct options *options)
{
    gpu->busy = pack_allocate(gpu, BUSY_BYTES);
    measure_plain(gpu, options->samples);
    (void)printf(
            "%s, CUDA driver %d.%d, %d multiprocessors used; a plain copy: %.0f GB/s. "
            "Tensors in the arena: no copy at all.\n\n"
            "| tensors | types | way | us | GB/s | %% of a plain copy |\n"
            "|---|---|---|---|---|---|\n",
            gpu->name, gpu->cuda.version / 1000, gpu->cuda.version % 1000 / 10,
            gpu->target.sm_count, gpu->peak);
    (void)each_case(gpu, options, measure_case);
    pack_free(gpu, gpu->busy);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct pack_gpu gpu;
    struct options options = { .cases = "ABCDEFG", .samples = 50 };
    char warnings[ERROR_TEXT_MAX] = "";
    struct config config;
    int status = parse(argc, argv, &options);

    if (status != -1) {
        return status;
    }
    if (config_init(&config) != TUTTI_OK ||
            config_from_environment(&config, warnings, sizeof warnings) != TUTTI_OK) {
        (void)fprintf(stderr, "bench-pack: %s\n", error_last());
        return 2;
    }
    status = pack_gpu_open(&gpu, &config);
    if (status == 0 && gpu.simulated && !options.check) {
        (void)printf("bench-pack: this GPU is simulated, and its times mean nothing; "
                     "--check compares results\n");
        status = PACK_SKIPPED;
    } else if (status == 0) {
        status =
                options.check ? check_all(&gpu, &options) : measure_all(&gpu, &options);
    }
    if (gpu.context != NULL) {
        pack_gpu_close(&gpu);
    }
    config_fini(&config);
    return status;
}
