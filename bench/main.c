/*
 * tutti-bench: reads the command line, starts MPI and tutti, and runs one command.
 */
#include <malloc.h>
#include <mpi.h>
#include <stdlib.h>

#include "bench/commands.h"
#include "bench/core/workloads.h"
#include "fabric/mpi/mpi_end.h"

enum {
    EXIT_BAD_ARGUMENTS = 2,
    MMAP_THRESHOLD_MAX = 32 << 20 /* glibc refuses more */
};

/*
 * The settings under which the installed MPIs were fastest; those that are already in
 * the environment win. They must be there before MPI starts, so they hold for the whole
 * process and for tutti too, which sends its messages through the same MPI.
 */
static void tune_mpi(void)
{
    static const char *const settings[][2] = {
        { "OMPI_MCA_btl_vader_single_copy_mechanism", "none" },
        { "OMPI_MCA_btl_vader_max_send_size", "262144" },
    };

    /* NOLINTBEGIN(concurrency-mt-unsafe): no other thread exists yet */
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        (void)setenv(settings[i][0], settings[i][1], 0);
    }
    /* keep the memory of MPI's temporary buffers instead of mapping it at each call */
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_MAX);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

static tutti_status run(struct job *job)
{
    switch ((enum bench_command)job->arguments->command) {
    case BENCH_ALLREDUCE:
    case BENCH_BROADCAST:
    case BENCH_REDUCE:
    case BENCH_REDUCESCATTER:
    case BENCH_ALLGATHER:
    case BENCH_ALLTOALL:
    case BENCH_GATHER:
    case BENCH_SCATTER:
        return run_sweep(job);
    case BENCH_LATENCY:
        return run_latency(job);
    case BENCH_WORKLOAD:
        return run_workload(job);
    case BENCH_IDLE:
        return run_idle(job);
    case BENCH_OVERLAP:
        return run_overlap(job);
    case BENCH_STEADY:
        return run_steady(job);
    case BENCH_COMMAND_COUNT:
        break;
    }
    return TUTTI_ERR_INVALID;
}

/* The limit needs memory that all ranks map, the exchange ranks of which none do. */
static tutti_status run_where_possible(struct job *job)
{
    const int compare = job->arguments->compare;
    const int hosts = tutti_node_count(job->t);

    if ((compare & (BENCH_WITH_LIMIT | BENCH_WITH_PRIVATE_SUM)) != 0 && hosts > 1) {
        job_complain(job,
                "--compare %s: the %d ranks are on %d hosts, and this needs memory "
                "that "
                "all of them map; start them on one host, or leave it out",
                (compare & BENCH_WITH_LIMIT) != 0 ? "limit" : "copy, cma", job->size,
                hosts);
        job->left_out = true;
        return TUTTI_OK;
    }
    if ((compare & BENCH_WITH_EXCHANGE) != 0 && hosts < job->size) {
        job_complain(job,
                "--compare exchange: the %d ranks are on %d hosts, and the exchange is "
                "that of messages between all of them; start one on each host, or "
                "leave it out",
                job->size, hosts);
        job->left_out = true;
        return TUTTI_OK;
    }
    return run(job);
}

static int run_job(struct job *job)
{
    if (job_open(job) != TUTTI_OK || run_where_possible(job) != TUTTI_OK ||
            job_close(job) != TUTTI_OK) {
        /* this rank may have failed alone: the others must not wait for it */
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
        return EXIT_FAILURE;
    }
    return job->wrong == 0 && !job->left_out ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct bench_arguments arguments;
    struct job job;
    int status = EXIT_BAD_ARGUMENTS;
    bool parsed = bench_arguments_parse(&arguments, argc, argv);

    if (parsed && arguments.help) {
        bench_arguments_help(stdout);
        return EXIT_SUCCESS;
    }
    if (parsed && arguments.version) {
        (void)printf("tutti-bench %s\n", TUTTI_VERSION_STRING);
        return EXIT_SUCCESS;
    }
    if (parsed && arguments.list) {
        return bench_workload_list(stdout, arguments.name) ? EXIT_SUCCESS
                                                           : EXIT_FAILURE;
    }
    if (parsed && (arguments.compare & BENCH_WITH_MPI_TUNED) != 0) {
        tune_mpi();
    }
    job_start_mpi(&job, &argc, &argv);
    if (!parsed) {
        job_complain(&job, "%s", arguments.error);
    } else if (job_prepare(&job, &arguments)) {
        status = run_job(&job);
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets variables */
    mpi_end(getenv("PMI_FD"));
    return status;
}
