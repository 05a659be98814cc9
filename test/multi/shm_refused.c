/*
 * backend=shm where there is no shared memory between all ranks: the same error on all of
 * them, which says why and what to do; with backend=auto the job runs, over MPI, and says
 * so once. If that is so on one node of several, no set is reduced in two levels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "process_job.h"

/* All ranks but the first pretend to be on another node. */
static void on_two_nodes(struct checks *c)
{
    const struct setting settings[] = { { "backend", "shm" },
        { "host_id", c->rank == 0 ? "a" : "b" }, { NULL, NULL } };
    tutti *t = NULL;

    checks_step(c, "on two nodes");
    EXPECT_STATUS(c, TUTTI_ERR_CONFIG, job_try_open(c, settings, &t));
    EXPECT(c, strstr(tutti_last_error(), "they are on 2 nodes") != NULL);
    EXPECT(c, strstr(tutti_last_error(), "backend=auto") != NULL);
}

/* Leaves so many descriptors free; a negative number: as many as there can be. */
static void set_free_descriptors(int count)
{
    const int next = dup(STDERR_FILENO);
    struct rlimit limit;

    (void)close(next);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count < 0 ? limit.rlim_max : (rlim_t)(next + count);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Files, and so memory behind a descriptor, may not be longer; a negative number: as they may. */
static void set_file_mib(int mib)
{
    struct rlimit limit;

    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = mib < 0 ? limit.rlim_max : (rlim_t)mib << 20;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* What the last rank has too little of, and what the message says to look at. */
struct shortage {
    void (*set)(int amount);
    int amount;
    const char *says;
};

/* Descriptors for its own socket and memory, and for no others. */
static const struct shortage few_descriptors = {
    .set = set_free_descriptors, .amount = 2, .says = "ulimit -n"
};
/* Less than the control words and a little memory. */
static const struct shortage short_files = {
    .set = set_file_mib, .amount = 40, .says = "ulimit -f"
};

static void without_room(struct checks *c, const struct shortage *shortage)
{
    const struct setting shm[] = { { "backend", "shm" }, { NULL, NULL } };
    const bool is_last = c->rank == c->size - 1;
    float value = (float)c->rank;
    char line[LOG_TEXT_MAX];
    tutti *t = NULL;

    checks_step(c, shortage->says);
    job_clear_log(c);
    job_meet(c);
    if (is_last) {
        shortage->set(shortage->amount);
    }
    EXPECT_STATUS(c, TUTTI_ERR_CONFIG, job_try_open(c, shm, &t));
    EXPECT(c, strstr(tutti_last_error(), shortage->says) != NULL);
    EXPECT_OK(c, job_try_open(c, NULL, &t));
    if (is_last) {
        shortage->set(-1);
    }
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "sum", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
    EXPECT(c, value == (float)(c->size * (c->size - 1) / 2));
    EXPECT(c, job_find_line(c, c->rank, "cannot share memory", line) == (c->rank == 0));
    EXPECT_OK(c, tutti_finalize(t));
}

/*
 * One of two nodes cannot share memory: then no rank reduces in two levels, also those of
 * the other node, which share it among themselves.
 */
static void on_one_of_two_nodes(struct checks *c)
{
    const struct setting settings[] = { { "host_id", c->rank < 2 ? "a" : "b" },
        { "log_level", "debug" }, { NULL, NULL } };
    const bool is_last = c->rank == c->size - 1;
    float values[2000];
    char line[LOG_TEXT_MAX];
    tutti *t = NULL;

    checks_step(c, "on one of two nodes");
    for (int i = 0; i < 2000; i++) {
        values[i] = (float)(c->rank + i);
    }
    job_clear_log(c);
    job_meet(c);
    if (is_last) {
        set_free_descriptors(2);
    }
    EXPECT_OK(c, job_try_open(c, settings, &t));
    if (is_last) {
        set_free_descriptors(-1);
    }
    EXPECT_OK(c,
            tutti_allreduce(
                    t, "sums", values, values, 2000, TUTTI_FLOAT32, TUTTI_SUM, NULL));
    for (int i = 0; i < 2000; i++) {
        EXPECT(c, values[i] == (float)(c->size * (c->size - 1) / 2 + c->size * i));
    }
    EXPECT(c, !job_find_line(c, c->rank, "sets that span nodes", line));
    EXPECT(c, job_find_line(c, c->rank, "cannot share memory", line) == (c->rank == 2));
    EXPECT_OK(c, tutti_finalize(t));
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    struct checks checks;
    struct job job;
    int level = 0;
    int status;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    on_two_nodes(&checks);
    without_room(&checks, &few_descriptors);
    without_room(&checks, &short_files);
    if (checks.size > 3) {
        on_one_of_two_nodes(&checks);
    }
    status = process_job_end(&job, &checks);
    (void)MPI_Finalize();
    return status;
}
