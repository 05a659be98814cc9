/*
 * Measures operations beside their limits, and prints both.
 */
#include "tools/info/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

#include "base/clock.h"
#include "bench/core/jsonline.h"
#include "tools/info/machine.h"

enum {
    ROUNDS = 3,
    WARM_UP = 8, /* operations: the first are announced by name */
    ROUND_NS = 100000000,
    OPERATIONS_MAX = 2000
};

/** What a sweep needs. */
struct calibration {
    tutti *t;
    struct machine_facts machine; /* rank 0 */
    float *input, *output; /* of tutti_alloc() */
    bool as_json;
};

struct row {
    const char *name;
    tutti_collective collective;
};

static const struct row rows[] = {
    { "allreduce", TUTTI_ALLREDUCE },
    { "reducescatter", TUTTI_REDUCESCATTER },
    { "allgather", TUTTI_ALLGATHER },
    { "broadcast", TUTTI_BROADCAST },
    { "alltoall", TUTTI_ALLTOALL },
};
static const size_t sizes[] = { 4, (size_t)64 << 10, (size_t)1 << 20,
    (size_t)16 << 20 };
#define SIZE_LAST ((size_t)16 << 20)

/* ---------------------------------------------------------------------- operations */

static tutti_status run(
        const struct calibration *c, const struct row *row, int64_t part)
{
    const int64_t n = tutti_size(c->t);

    switch (row->collective) {
    case TUTTI_ALLREDUCE:
        return tutti_allreduce(c->t, row->name, c->input, c->input, n * part,
                TUTTI_FLOAT32, TUTTI_SUM, NULL);
    case TUTTI_REDUCESCATTER:
        return tutti_reducescatter(c->t, row->name, c->input, c->output, n * part, 1,
                NULL, TUTTI_FLOAT32, TUTTI_SUM, NULL);
    case TUTTI_ALLGATHER:
        return tutti_allgather(c->t, row->name, c->input, c->output, part, 1, NULL,
                TUTTI_FLOAT32, NULL);
    case TUTTI_BROADCAST:
        return tutti_broadcast(
                c->t, row->name, c->input, n * part, TUTTI_FLOAT32, 0, NULL);
    case TUTTI_ALLTOALL:
        return tutti_alltoall(c->t, row->name, c->input, c->output, n * part, 1, NULL,
                NULL, TUTTI_FLOAT32, NULL);
    case TUTTI_REDUCE:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
    case TUTTI_BARRIER:
    case TUTTI_MESSAGE:
        break;
    }
    return TUTTI_ERR_INVALID;
}

/* Mean time of so many, from a barrier to a barrier, so of the slowest rank. */
static tutti_status time_round(const struct calibration *c, const struct row *row,
        int64_t part, int64_t count, double *us)
{
    tutti_status status = tutti_barrier(c->t, "round", NULL);
    const int64_t begun = clock_ns();

    for (int64_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = run(c, row, part);
    }
    if (status == TUTTI_OK) {
        status = tutti_barrier(c->t, "round", NULL);
    }
    *us = (double)(clock_ns() - begun) * 1e-3 / (double)count;
    return status;
}

/* Rank 0 chooses how many operations a round has, so that it does not take long. */
static tutti_status time_best(
        const struct calibration *c, const struct row *row, int64_t part, double *best)
{
    double us = 0;
    int64_t count = WARM_UP;
    tutti_status status = time_round(c, row, part, WARM_UP, &us);

    if (status == TUTTI_OK) {
        status = time_round(c, row, part, WARM_UP, &us);
        count = (int64_t)(ROUND_NS * 1e-3 / us) + 1;
        count = count < OPERATIONS_MAX ? count : OPERATIONS_MAX;
    }
    if (status == TUTTI_OK) {
        status = tutti_broadcast(c->t, "count", &count, 1, TUTTI_INT64, 0, NULL);
    }
    *best = 0;
    for (int round = 0; round < ROUNDS && status == TUTTI_OK; round++) {
        status = time_round(c, row, part, count, &us);
        *best = *best == 0 || us < *best ? us : *best;
    }
    return status;
}

/* ------------------------------------------------------------------------ printing */

static void put_line(struct bench_json *json)
{
    const char *line = bench_json_finish(json);

    if (line != NULL) {
        (void)fputs(line, stdout);
    }
}

static void print_level(const struct memory_level *level, bool as_json)
{
    struct bench_json json = { 0 };
    char kib[32] = "-"; /* memory has no size */

    if (level->bytes > 0) {
        (void)snprintf(kib, sizeof kib, "%zu", level->bytes >> 10);
    }
    if (!as_json) {
        (void)printf("%-8s %10s %8.1f %8.1f %8.1f %10.1f\n", level->name, kib,
                level->read, level->write, level->copy, level->all);
        return;
    }
    bench_json_text(&json, "level", level->name);
    bench_json_integer(&json, "bytes", (int64_t)level->bytes);
    bench_json_number(&json, "read_gbs", level->read);
    bench_json_number(&json, "write_gbs", level->write);
    bench_json_number(&json, "copy_gbs", level->copy);
    bench_json_number(&json, "all_cores_copy_gbs", level->all);
    put_line(&json);
}

static void print_times(const struct machine_facts *machine, bool as_json)
{
    struct bench_json json = { 0 };

    if (as_json) {
        bench_json_integer(&json, "cores", machine->cores);
        bench_json_number(&json, "flag_ns", machine->flag_ns);
        bench_json_number(&json, "wake_ns", machine->wake_ns);
        bench_json_number(&json, "syscall_ns", machine->syscall_ns);
        bench_json_number(&json, "link_us", machine->link_us);
        bench_json_number(&json, "link_mbs", machine->link_mbs);
        put_line(&json);
        return;
    }
    if (machine->cores > 1) {
        (void)printf("\na word from core to core %8.0f ns\n", machine->flag_ns);
    } else {
        (void)printf("\na word from core to core        - (there is one core)\n");
    }
    (void)printf(
            "a thread is woken        %8.0f ns\na system call            %8.0f ns\n",
            machine->wake_ns, machine->syscall_ns);
    if (machine->link_mbs > 0) {
        (void)printf("the link between nodes   %8.1f us, %.0f MB/s each way\n",
                machine->link_us, machine->link_mbs);
    }
}

static void print_machine(const struct machine_facts *machine, bool as_json)
{
    if (!as_json) {
        (void)printf("%d cores. GB/s are 10^9 bytes per second, read and written\n\n"
                     "%-8s %10s %8s %8s %8s %10s\n",
                machine->cores, "", "KiB", "read", "write", "copy", "all cores");
    }
    for (int l = 0; l < machine->level_count; l++) {
        print_level(&machine->levels[l], as_json);
    }
    print_times(machine, as_json);
}

static void print_operation(
        const struct calibration *c, const struct row *row, uint64_t bytes, double us)
{
    const struct limits limits = limits_of(&c->machine, row->collective,
            tutti_local_size(c->t), tutti_node_count(c->t), bytes);
    struct bench_json json = { 0 };

    if (!c->as_json) {
        (void)printf("%-14s %10llu %12.1f %12.1f %8.1f  %s\n", row->name,
                (unsigned long long)bytes, us, limits_us(&limits),
                us / limits_us(&limits), limits_name(&limits));
        return;
    }
    bench_json_text(&json, "collective", row->name);
    bench_json_integer(&json, "bytes", (int64_t)bytes);
    bench_json_number(&json, "us", us);
    bench_json_number(&json, "limit_us", limits_us(&limits));
    bench_json_text(&json, "limit", limits_name(&limits));
    put_line(&json);
}

/* --------------------------------------------------------------------------- calls */

/* The library measures the link when it starts, and logs the result (lib/api/link.c). */
static void note_link(void *user, tutti_log_level level, int rank, const char *line)
{
    static const char start[] = "between nodes: latency ";
    struct machine_facts *link = user;
    const char *rate = strstr(line, "per message, ");

    if (level <= TUTTI_LOG_WARN) {
        (void)fprintf(stderr, "tutti[%d] %s\n", rank, line);
    }
    if (strncmp(line, start, strlen(start)) == 0 && rate != NULL) {
        link->link_us = strtod(line + strlen(start), NULL);
        link->link_mbs = strtod(rate + strlen("per message, "), NULL);
    }
}

static tutti_status sweep_sizes(const struct calibration *c, const struct row *row)
{
    const int64_t n = tutti_size(c->t);
    tutti_status status = TUTTI_OK;

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && status == TUTTI_OK; s++) {
        const int64_t part = ((int64_t)(sizes[s] / sizeof(float)) + n - 1) / n;
        double us = 0;

        status = time_best(c, row, part, &us);
        if (status == TUTTI_OK && tutti_rank(c->t) == 0) {
            print_operation(c, row, (uint64_t)(n * part) * sizeof(float), us);
        }
    }
    return status;
}

static tutti_status sweep(struct calibration *c)
{
    const bool speaks = tutti_rank(c->t) == 0;
    tutti_status status = TUTTI_OK;

    if (speaks && !c->as_json) {
        (void)printf(
                "\n%d ranks on %d nodes; tutti's times, and what they are at least\n\n"
                "%-14s %10s %12s %12s %8s  %s\n",
                tutti_size(c->t), tutti_node_count(c->t), "", "bytes", "us", "limit us",
                "times", "limited by");
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows && status == TUTTI_OK; r++) {
        status = sweep_sizes(c, &rows[r]);
    }
    return status;
}

/* The others sleep while rank 0 has the machine. */
static tutti_status measure_all(struct calibration *c, const struct machine_facts *link)
{
    const size_t bytes = SIZE_LAST + (size_t)tutti_size(c->t) * sizeof(float);
    bool measured = true;
    tutti_status status = TUTTI_OK;

    if (tutti_rank(c->t) == 0) {
        measured = machine_measure(&c->machine);
        c->machine.link_us = link->link_us;
        c->machine.link_mbs = link->link_mbs;
        if (measured) {
            print_machine(&c->machine, c->as_json);
        } else {
            status = tutti_abort(c->t, "no memory, or no threads, to measure with");
        }
    }
    if (status == TUTTI_OK && tutti_size(c->t) == 1) {
        if (!c->as_json) {
            (void)printf("\nFor tutti's operations start it with ranks: "
                         "tuttirun -np 2 tutti-info --calibrate\n");
        }
        return TUTTI_OK;
    }
    status = tutti_barrier(c->t, "measured", NULL);
    if (status == TUTTI_OK) {
        status = tutti_alloc(c->t, bytes, TUTTI_HOST, (void **)&c->input);
    }
    if (status == TUTTI_OK) {
        status = tutti_alloc(c->t, bytes, TUTTI_HOST, (void **)&c->output);
    }
    if (status == TUTTI_OK) {
        memset(c->input, 0, bytes);
        memset(c->output, 0, bytes);
        status = sweep(c);
    }
    return status;
}

int calibrate(bool as_json)
{
    struct machine_facts link = { 0 };
    struct calibration c = { .as_json = as_json };
    tutti_config *config = NULL;
    tutti_status status = tutti_config_create(&config);

    if (status == TUTTI_OK) {
        status = tutti_config_set(config, "log_level", "debug");
    }
    if (status == TUTTI_OK) {
        status = tutti_config_set_log(config, note_link, &link);
    }
    if (status == TUTTI_OK) {
        status = tutti_init(&c.t, config);
    }
    tutti_config_destroy(config);
    if (status == TUTTI_OK) {
        status = measure_all(&c, &link);
    }
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "tutti-info: %s: %s\n", tutti_status_text(status),
                tutti_last_error());
    }
    if (c.t != NULL && tutti_finalize(c.t) != TUTTI_OK) {
        status = TUTTI_ERR_CONTEXT_FAILED;
    }
    return status == TUTTI_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
