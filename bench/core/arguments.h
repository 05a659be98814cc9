/*
 * The command line: one table of options, from which parsing, range checks and --help
 * come.
 */
#ifndef TUTTI_BENCH_CORE_ARGUMENTS_H
#define TUTTI_BENCH_CORE_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

enum bench_command {
    BENCH_ALLREDUCE,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_REDUCESCATTER,
    BENCH_ALLGATHER,
    BENCH_ALLTOALL,
    BENCH_GATHER,
    BENCH_SCATTER,
    BENCH_LATENCY,
    BENCH_WORKLOAD,
    BENCH_IDLE,
    BENCH_OVERLAP,
    BENCH_STEADY,
    BENCH_COMMAND_COUNT
};

/** What tutti is compared with: a bit each. Of the two MPIs a process has one. */
enum bench_compare {
    BENCH_WITH_MPI = 1,
    BENCH_WITH_MPI_TUNED = 2,
    BENCH_WITH_LIMIT = 4,
    BENCH_WITH_SLOW = 8,
    BENCH_WITH_EXCHANGE = 16,
    BENCH_WITH_WAIT = 32,
    BENCH_WITH_COPY = 64,
    BENCH_WITH_CMA = 128,
    BENCH_WITH_CONTIGUOUS = 256,
    BENCH_WITH_PRIVATE_SUM = BENCH_WITH_COPY | BENCH_WITH_CMA,
    BENCH_WITH_ANY_MPI = BENCH_WITH_MPI | BENCH_WITH_MPI_TUNED
};
enum bench_memory {
    BENCH_PRIVATE,
    BENCH_ARENA,
    BENCH_SHARE
};
/** How the application learns that its operations are over. */
enum bench_complete {
    BENCH_BY_WAIT,
    BENCH_BY_CALLBACK,
    BENCH_BY_TEST
};
/** Whose table a sweep prints. */
enum bench_columns {
    BENCH_NCCL,
    BENCH_OSU
};
enum bench_compute {
    BENCH_DEVICE,
    BENCH_CPU
};

/** Which figure of all ranks' times is reported; nccl-tests' numbers. */
enum bench_average {
    BENCH_RANK0,
    BENCH_MEAN,
    BENCH_MIN,
    BENCH_MAX
};

/** What the user asked for. Choices are ints, so that the table can store them. */
struct bench_arguments {
    int command; /* enum bench_command */
    const char *name; /* workload: which, or "all" */
    const char *gradients; /* trainer, overlap, steady: the workload it communicates */
    uint64_t min_bytes; /* first size */
    uint64_t max_bytes; /* last size */
    uint64_t step_bytes; /* 0: multiply by factor */
    int factor; /* at least 2 */
    int iterations; /* per round; 0: by size or command */
    int warmup; /* untimed iterations of each side; -1: by size */
    int aggregate; /* operations in flight together in a sweep */
    int checks; /* checked iterations; 0: none */
    int rounds; /* timed rounds of each side */
    int collective; /* tutti_collective */
    int dtype; /* tutti_dtype */
    int op; /* tutti_reduce_op */
    int root; /* where there is one */
    int average; /* enum bench_average */
    int compare; /* enum bench_compare, or-ed; 0: nothing */
    const char *slow; /* PARAMETER=VALUE of the second context; NULL: none */
    int memory; /* enum bench_memory */
    int complete; /* enum bench_complete */
    int columns; /* enum bench_columns */
    int compute; /* enum bench_compute */
    double seconds; /* idle: length of the sleep */
    double backward_ms; /* trainer, overlap: length of the backward pass */
    bool in_place; /* a sweep leaves the out-of-place side out */
    bool explain; /* below each row of a sweep */
    bool list; /* only say what workloads there are, or the tensors of `name` */
    bool names; /* operations are submitted by name, not by id */
    bool help, version; /* asked for; nothing else was looked at */
    const char *json; /* file for JSON lines, or NULL */
    char error[256]; /* why parsing failed, one line */
};

/**
 * Parses argv[1] and on; strings are kept as pointers into argv.
 * @return false with arguments->error set, which names the argument that is wrong
 */
bool bench_arguments_parse(struct bench_arguments *arguments, int argc, char **argv);

void bench_arguments_help(FILE *out);

const char *bench_command_name(enum bench_command command);
#define BENCH_COMPARE_TEXT_MAX 64

/** As it was asked for, such as "mpi,limit"; "" for nothing. */
void bench_compare_text(int compare, char text[BENCH_COMPARE_TEXT_MAX]);
const char *bench_memory_name(enum bench_memory memory);
const char *bench_complete_name(enum bench_complete complete);
const char *bench_dtype_name(tutti_dtype dtype);
const char *bench_collective_name(tutti_collective collective);
/** "sum", ...; "none" where nothing is reduced. */
const char *bench_redop_name(tutti_collective collective, tutti_reduce_op op);

#endif
