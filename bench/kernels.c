/*
 * bench-kernels: how fast one core reduces, with each set of kernels that the processor
 * has, in the cache and from memory; as a table in Markdown. Needs no job and no MPI.
 *
 * GB/s are 10^9 bytes per second that are read and written: p operands and one result.
 * A time is the best of several, since whatever disturbs a loop makes it slower.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "ops/reduce/reduce.h"

#define OPERANDS_MAX 16

/* All operands and the result together: in the first and in the second cache, in neither. */
#define CORE_BYTES ((size_t)24 << 10)
#define CACHE_BYTES ((size_t)512 << 10)
#define MEMORY_BYTES ((size_t)256 << 20)
/*
 * Arrays begin at places of a page that are as far apart as can be. Where an output is a
 * little behind an operand the processor takes loads for loads of what it just stored.
 */
#define PAGE_BYTES ((size_t)4096)
/* A sample moves about so much; so many samples. */
#define SAMPLE_BYTES ((size_t)256 << 20)
#define SAMPLES 7

/** A row: what is done to which buffers. */
struct work {
    struct reduce_spec spec;
    int operands;
    size_t bytes; /* of an operand */
    const void *inputs[OPERANDS_MAX];
    void *output;
};

static void run_reduce(const struct work *work)
{
    struct reduce_spec spec = work->spec;

    spec.divisor = work->operands;
    reduce_tree(&spec, work->inputs, work->operands, (void *[]){ work->output }, 1,
            work->bytes / tutti_dtype_size(work->spec.dtype));
}

static void run_copy(const struct work *work)
{
    memcpy(work->output, work->inputs[0], work->bytes);
}

/* The float32 sum of two, as it is before a compiler makes vectors of it. */
static void run_plain(const struct work *work)
{
    const float *a = work->inputs[0];
    const float *b = work->inputs[1];
    float *sum = work->output;

    for (size_t i = 0; i < work->bytes / sizeof *sum; i++) {
        sum[i] = a[i] + b[i];
    }
}

/** @return 10^9 bytes per second */
static double measure(void (*run)(const struct work *), struct work *work, size_t bytes,
        unsigned char *memory)
{
    const size_t arrays = (size_t)work->operands + 1;
    const size_t rounds = 1 + SAMPLE_BYTES / bytes;
    const size_t apart = PAGE_BYTES / arrays & ~(size_t)63;
    int64_t best_ns = INT64_MAX;

    work->bytes = bytes / arrays & ~(PAGE_BYTES - 1);
    for (size_t k = 0; k + 1 < arrays; k++) {
        work->inputs[k] = memory + k * (work->bytes + apart);
    }
    work->output = memory + (arrays - 1) * (work->bytes + apart);
    run(work);
    for (int sample = 0; sample < SAMPLES; sample++) {
        const int64_t start_ns = clock_ns();
        int64_t ns;

        for (size_t i = 0; i < rounds; i++) {
            run(work);
        }
        ns = clock_ns() - start_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    return (double)(rounds * arrays * work->bytes) / (double)best_ns;
}

/* A cell for each size, from the first one on. */
static void print_speeds(void (*run)(const struct work *), const struct work *row,
        size_t first, unsigned char *memory)
{
    static const size_t sizes[] = { CORE_BYTES, CACHE_BYTES, MEMORY_BYTES };
    struct work work = *row;

    for (size_t i = first; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)printf(" %.1f |", measure(run, &work, sizes[i], memory));
    }
    (void)fflush(stdout);
}

/* Chooses kernels when they are there. */
static bool use(int which)
{
    return reduce_has((enum config_kernels)which) &&
            reduce_use((enum config_kernels)which) == TUTTI_OK;
}

static const char *name_of(int which, char name[16])
{
    return text_from_choice(config_find("kernels")->range, which, name, 16) ? name : "";
}

/* The sum of two float32 beside what it can be compared with. */
static void print_comparison(unsigned char *memory)
{
    const struct work sum = { .operands = 2,
        .spec = { .dtype = TUTTI_FLOAT32, .prescale = 1, .postscale = 1 } };
    char name[16];

    (void)printf("| | first-level cache | second-level cache | memory |\n"
                 "|---|---|---|---|\n| memcpy |");
    print_speeds(run_copy, &(struct work){ .operands = 1 }, 0, memory);
    (void)printf("\n| float32 sum of 2, one at a time |");
    print_speeds(run_plain, &sum, 0, memory);
    for (int which = CONFIG_KERNELS_SCALAR; which <= CONFIG_KERNELS_NEON; which++) {
        if (use(which)) {
            (void)printf("\n| float32 sum of 2, %s |", name_of(which, name));
            print_speeds(run_reduce, &sum, 0, memory);
        }
    }
    (void)printf("\n\n");
}

static void print_head(void)
{
    char name[16];

    (void)printf("| type | op | p |");
    for (int which = CONFIG_KERNELS_SCALAR; which <= CONFIG_KERNELS_NEON; which++) {
        if (use(which)) {
            (void)printf(" %s, cache | memory |", name_of(which, name));
        }
    }
    (void)printf("\n|---|---|---|");
    for (int which = CONFIG_KERNELS_SCALAR; which <= CONFIG_KERNELS_NEON; which++) {
        (void)printf("%s", use(which) ? "---|---|" : "");
    }
    (void)printf("\n");
}

static void print_row(const struct work *row, unsigned char *memory)
{
    (void)printf("| %s | %s | %d |", tutti_dtype_name(row->spec.dtype),
            tutti_reduce_name(row->spec.op), row->operands);
    for (int which = CONFIG_KERNELS_SCALAR; which <= CONFIG_KERNELS_NEON; which++) {
        if (use(which)) {
            print_speeds(run_reduce, row, 1, memory);
        }
    }
    (void)printf("\n");
}

int main(void)
{
    static const tutti_dtype dtypes[] = { TUTTI_FLOAT32, TUTTI_FLOAT16, TUTTI_BFLOAT16,
        TUTTI_FLOAT64, TUTTI_INT32, TUTTI_UINT8 };
    static const int operands[] = { 2, 3, 4, 8, 16 };
    static const tutti_reduce_op others[] = { TUTTI_AVERAGE, TUTTI_MAX, TUTTI_PRODUCT };
    const size_t size = MEMORY_BYTES + PAGE_BYTES;
    unsigned char *memory = mem_alloc_aligned(size);
    struct work row = { .spec = { .prescale = 1, .postscale = 1 } };

    if (memory == NULL) {
        (void)fprintf(stderr, "bench-kernels: no memory for %zu bytes\n", size);
        return EXIT_FAILURE;
    }
    memset(memory, 0, size);
    print_comparison(memory);
    print_head();
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        row.spec.dtype = dtypes[d];
        row.spec.op = TUTTI_SUM;
        for (size_t p = 0; p < sizeof operands / sizeof operands[0]; p++) {
            row.operands = operands[p];
            print_row(&row, memory);
        }
        row.operands = 2;
        for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
            row.spec.op = others[o];
            print_row(&row, memory);
        }
    }
    mem_free(memory);
    return EXIT_SUCCESS;
}
