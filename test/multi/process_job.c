/*
 * The suites' job where every rank is a process of MPI.
 */
#include "process_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "test/batch/reference.h"

enum {
    HANG_SECONDS = 1000,
    YIELDS = 100
};

static void nap(void)
{
    const struct timespec time = { .tv_nsec = 200000 };

    (void)nanosleep(&time, NULL);
}

/* Civil: a rank that is late for a test shall leave the core to the others. */
static void meet(struct job *job, int rank)
{
    const MPI_Comm *comm = job->user;
    MPI_Request request;
    int done = 0;

    (void)rank;
    (void)MPI_Ibarrier(*comm, &request);
    (void)MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    while (done == 0) {
        nap();
        (void)MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}

static int allgather(void *user, const void *mine, void *all, size_t bytes)
{
    const MPI_Comm *comm = user;

    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *comm);
}

/* With SUITE_OOB MPI only says who is there, and UCX carries the messages. */
static tutti_status open_context(
        struct job *job, int rank, const tutti_config *config, tutti **t)
{
    MPI_Comm *comm = job->user;

    return getenv("SUITE_OOB") == NULL
            ? tutti_init_mpi(t, *comm, config)
            : tutti_init_oob(t, rank, job->size, allgather, comm, config);
}

/* A signal handler has no argument: who hangs is found here. */
static struct checks *watched;

static void hang(int number)
{
    (void)number;
    checks_report_hang(&watched, 1);
    /* The others' watchdogs shall speak before the launcher ends them. */
    (void)sleep(2);
    _Exit(3);
}

/* Puts this rank into a group if a variable of the test has some. */
static void take_group(
        const struct checks *c, const char *variable, const char *parameter)
{
    const char *groups = getenv(variable);
    char id[2] = "";

    if (groups == NULL) {
        return;
    }
    if (strlen(groups) != (size_t)c->size) {
        (void)fprintf(stderr, "%s does not fit %d ranks\n", variable, c->size);
        _Exit(2);
    }
    id[0] = groups[c->rank];
    (void)setenv(parameter, id, 1);
    (void)reference_set_groups(groups);
}

void process_job_init(struct job *job, struct checks *c, MPI_Comm *comm)
{
    *job = (struct job){
        .processes = true, .user = comm, .open = open_context, .meet = meet
    };
    (void)pthread_mutex_init(&job->log.lock, NULL);
    (void)MPI_Comm_size(*comm, &job->size);
    *c = (struct checks){ .job = job, .size = job->size };
    (void)MPI_Comm_rank(*comm, &c->rank);
    take_group(c, "SUITE_NODES", "TUTTI_HOST_ID");
    take_group(c, "SUITE_CACHES", "TUTTI_CACHE_ID");
    watched = c;
    (void)signal(SIGALRM, hang);
    (void)alarm(HANG_SECONDS);
}

int process_job_end(struct job *job, struct checks *c)
{
    const MPI_Comm *comm = job->user;
    int mine[2] = { c->made, c->failed };
    int all[2] = { 0, 0 };

    meet(job, c->rank);
    (void)MPI_Reduce(mine, all, 2, MPI_INT, MPI_SUM, 0, *comm);
    if (c->rank == 0) {
        printf("%d processes: %d checks, %d failed\n", c->size, all[0], all[1]);
    }
    (void)alarm(0);
    (void)pthread_mutex_destroy(&job->log.lock);
    return mine[1] == 0 && mine[0] > 0 ? 0 : 1;
}
