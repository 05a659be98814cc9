/*
 * A collective: one row per size.
 *
 * nccl-tests launches an iteration without waiting for the one before. Here an operation
 * owns its buffer until it is done, so every iteration is waited for; -m puts several
 * operations into one iteration, each with a buffer of its own.
 */
#include <inttypes.h>

#include "bench/commands.h"
#include "bench/core/collective.h"
#include "bench/core/columns.h"
#include "bench/core/sizes.h"
#include "bench/measure.h"

/* What the footer says. */
struct totals {
    double busbw; /* sum over all cells */
    int cells; /* cells that were measured */
    int64_t wrong; /* -1: not checked */
};

static struct bench_cells cells_of(const struct work *work, uint64_t bytes,
        const struct effort *effort, const struct side_result *side)
{
    const int64_t rounds = work->job->arguments->rounds;
    double algbw = bench_algorithm_bandwidth(bytes, side->typical);

    return (struct bench_cells){
        .measured = true,
        .time_us = side->typical,
        .algbw = algbw,
        .busbw = algbw * bench_bus_factor(work->operation.collective, work->job->size),
        .wrong = side->wrong,
        .rank_mean = side->rank_mean,
        .rank_min = side->rank_min,
        .rank_max = side->rank_max,
        .iterations = rounds * effort->iterations,
    };
}

static struct bench_compared compared_of(const struct side_result *side)
{
    return (struct bench_compared){
        .measured = side->measured,
        .time_us = side->typical,
        .ratio = side->ratio.median,
        .ratio_min = side->ratio.min,
        .ratio_max = side->ratio.max,
    };
}

static void count_cells(struct totals *totals, const struct bench_cells *cells)
{
    if (cells->measured) {
        totals->busbw += cells->busbw;
        totals->cells++;
        totals->wrong = cells->wrong < 0 ? -1 : totals->wrong + cells->wrong;
    }
}

static tutti_status measure_out_of_place(struct job *job,
        const struct bench_workload *tensors, struct effort effort,
        struct bench_row *row)
{
    struct measurement result;
    struct work work;
    tutti_status status = work_open(&work, job, tensors, false);

    if (status != TUTTI_OK) {
        return status;
    }
    effort.compare = 0;
    status = measure(&work, &effort, &result);
    if (status == TUTTI_OK) {
        row->out_of_place =
                cells_of(&work, row->bytes, &effort, &result.side[SIDE_TUTTI]);
    }
    work_close(&work);
    return status;
}

static tutti_status measure_in_place(struct job *job,
        const struct bench_workload *tensors, struct effort effort,
        struct bench_row *row, struct measurement *result)
{
    struct bench_json json;
    struct work work;
    tutti_status status = work_open(&work, job, tensors, true);

    if (status != TUTTI_OK) {
        return status;
    }
    status = measure(&work, &effort, result);
    if (status == TUTTI_OK) {
        row->in_place = cells_of(&work, row->bytes, &effort, &result->side[SIDE_TUTTI]);
        row->mpi = compared_of(&result->side[SIDE_MPI]);
        row->limit = compared_of(&result->side[SIDE_LIMIT]);
        row->slow = compared_of(&result->side[SIDE_SLOW]);
        row->wait = compared_of(&result->side[SIDE_WAIT]);
        job_row_start(job, &json);
        measure_to_json(&json, &work, &effort, result);
        bench_json_number(&json, "algbw", row->in_place.algbw);
        bench_json_number(&json, "busbw", row->in_place.busbw);
        if (row->out_of_place.measured) {
            bench_json_number(&json, "out_of_place_us", row->out_of_place.time_us);
            bench_json_count(&json, "out_of_place_wrong", row->out_of_place.wrong);
        }
        job_row_write(job, &json);
    }
    work_close(&work);
    return status;
}

static struct effort sweep_effort(const struct job *job)
{
    const struct bench_arguments *arguments = job->arguments;

    return (struct effort){
        .iterations = arguments->iterations == 0 ? 20 : arguments->iterations,
        .warmup = arguments->warmup < 0 ? 5 : arguments->warmup,
        .operations = arguments->aggregate,
        .mean = true,
        .settle = arguments->warmup < 0,
        .exact = arguments->iterations != 0,
        .compare = arguments->compare,
    };
}

/*
 * Both sides of a row, for as many equal tensors as are aggregated; the result is that in
 * place.
 */
static tutti_status measure_row(struct job *job, const struct bench_workload *tensors,
        bool out_of_place, struct bench_row *row, struct measurement *result)
{
    struct effort effort = sweep_effort(job);
    tutti_status status = TUTTI_OK;

    if (out_of_place) {
        status = measure_out_of_place(job, tensors, effort, row);
    }
    return status == TUTTI_OK ? measure_in_place(job, tensors, effort, row, result)
                              : status;
}

static void explain(const struct job *job, const struct bench_row *row)
{
    const struct bench_arguments *arguments = job->arguments;
    char text[256];

    if (tutti_explain_allreduce(job->t, TUTTI_WORLD, row->count,
                (tutti_dtype)arguments->dtype, (tutti_reduce_op)arguments->op, text,
                sizeof text) == TUTTI_OK) {
        (void)printf("#   %s\n", text);
    }
}

/* OSU's size of a gather and its like is that of a rank's part. */
static bool osu_counts_parts(const struct bench_arguments *arguments)
{
    const tutti_collective collective = (tutti_collective)arguments->collective;

    return arguments->columns == BENCH_OSU && bench_has_parts(collective) &&
            collective != TUTTI_REDUCESCATTER;
}

static void print_row(const struct job *job, const struct bench_row *row)
{
    if (job->arguments->columns == BENCH_NCCL) {
        bench_columns_row(stdout, row);
    } else {
        bench_columns_osu_row(stdout,
                osu_counts_parts(job->arguments) ? row->bytes / (uint64_t)job->size
                                                 : row->bytes,
                row->out_of_place.measured ? &row->out_of_place : &row->in_place);
    }
}

static void finish_row(
        const struct job *job, const struct bench_row *row, struct totals *totals)
{
    count_cells(totals, &row->out_of_place);
    count_cells(totals, &row->in_place);
    if (job->rank == 0) {
        print_row(job, row);
        if (job->arguments->explain && row->count > 0 &&
                job->arguments->collective == TUTTI_ALLREDUCE) {
            explain(job, row);
        }
        (void)fflush(stdout);
    }
}

static tutti_status run_size(struct job *job, uint64_t bytes, struct totals *totals)
{
    const struct bench_arguments *arguments = job->arguments;
    tutti_collective collective = (tutti_collective)arguments->collective;
    tutti_dtype dtype = (tutti_dtype)arguments->dtype;
    bool out_of_place = !arguments->in_place && collective != TUTTI_BROADCAST;
    uint64_t count =
            bench_padded_count(collective, bytes / bench_dtype_bytes(dtype), job->size);
    struct bench_row row = {
        .bytes = count * bench_dtype_bytes(dtype),
        .count = count,
        .type = bench_dtype_name(dtype),
        .redop = bench_redop_name(collective, (tutti_reduce_op)arguments->op),
        .root = bench_has_root(collective) ? arguments->root : -1,
    };
    struct bench_workload tensors;
    struct measurement result;
    tutti_status status = TUTTI_OK;

    if (!bench_workload_init_uniform(&tensors, (size_t)arguments->aggregate, count)) {
        return job_failed(job, TUTTI_ERR_NO_MEMORY, "allocating tensors");
    }
    if (work_fits(job, &tensors, out_of_place ? 2 : 1)) {
        status = measure_row(job, &tensors, out_of_place, &row, &result);
        if (status == TUTTI_OK) {
            finish_row(job, &row, totals);
            measure_print_doubts(job, &result);
        }
    }
    bench_workload_fini(&tensors);
    return status;
}

static void print_head(const struct bench_arguments *arguments)
{
    if (arguments->columns == BENCH_NCCL) {
        bench_columns_head(stdout, arguments->compare);
    } else {
        bench_columns_osu_head(
                stdout, bench_collective_name((tutti_collective)arguments->collective));
    }
}

tutti_status run_sweep(struct job *job)
{
    const struct bench_arguments *arguments = job->arguments;
    struct bench_sweep sweep = {
        .first = arguments->min_bytes,
        .last = arguments->max_bytes,
        .factor = (uint64_t)arguments->factor,
        .step = arguments->step_bytes,
    };
    struct totals totals = { .cells = 0 };
    uint64_t bytes = sweep.first;
    tutti_status status = TUTTI_OK;

    job_print_head(
            job, "time per operation: mean of a round's iterations, each waited for");
    if (job->rank == 0) {
        print_head(arguments);
    }
    do {
        status = run_size(job,
                osu_counts_parts(arguments) ? bytes * (uint64_t)job->size : bytes,
                &totals);
    } while (status == TUTTI_OK && !job->left_out && bench_sweep_next(&sweep, &bytes));
    if (status == TUTTI_OK && job->rank == 0) {
        bench_columns_foot(stdout, totals.wrong,
                totals.cells == 0 ? 0 : totals.busbw / totals.cells);
    }
    return status;
}
