/*
 * Life of the job, and small collective helpers over raw MPI outside of timed sections.
 */
#include "bench/job.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/mpi.h>

void job_start_mpi(struct job *job, int *argc, char ***argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int provided;
    int length;

    *job = (struct job){ .rank = 0 };
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    MPI_Get_library_version(version, &length);
    /* Open MPI goes on after a comma, MPICH on further lines with tabs */
    version[strcspn(version, ",\n")] = '\0';
    for (char *tab = strchr(version, '\t'); tab != NULL; tab = strchr(tab, '\t')) {
        *tab = ' ';
    }
    (void)snprintf(job->mpi_version, sizeof job->mpi_version, "%.79s", version);
}

/* Reports the system's reason for what became of the JSON file. */
static void complain_about_json(const struct job *job, int reason)
{
    char text[128];

    job_complain(job, "--json %s: %s", job->arguments->json,
            strerror_r(reason, text, sizeof text));
}

bool job_prepare(struct job *job, const struct bench_arguments *arguments)
{
    int opened = 1;

    job->arguments = arguments;
    if (arguments->root >= job->size) {
        job_complain(
                job, "--root %d: there are only %d ranks", arguments->root, job->size);
        return false;
    }
    if (arguments->json != NULL && job->rank == 0) {
        job->json = fopen(arguments->json, "w");
        opened = job->json != NULL;
        if (!opened) {
            complain_about_json(job, errno);
        }
    }
    MPI_Bcast(&opened, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (getloadavg(&job->load_average, 1) != 1) {
        job->load_average = -1;
    }
    return opened != 0;
}

static int allgather(void *user, const void *mine, void *all, size_t bytes)
{
    (void)user;
    return MPI_Allgather(
            mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* With transport=ucx the ranks of MPI meet over UCX: the one is measured beside the other. */
static tutti_status join(tutti **t, const tutti_config *config)
{
    const char *transport = "";
    tutti_status status = tutti_config_get(config, "transport", &transport);
    int rank = 0;
    int size = 0;

    if (status != TUTTI_OK || strcmp(transport, "ucx") != 0) {
        return status == TUTTI_OK ? tutti_init_mpi(t, MPI_COMM_WORLD, config) : status;
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    return tutti_init_oob(t, rank, size, allgather, NULL, config);
}

/* A context with what `setting` says (NULL: nothing) beside the environment. */
static tutti_status open_context(tutti **t, const char *setting)
{
    const char *equals = setting == NULL ? NULL : strchr(setting, '=');
    char name[64];
    tutti_config *config = NULL;
    tutti_status status = tutti_config_create(&config);

    if (status == TUTTI_OK && setting != NULL) {
        (void)snprintf(name, sizeof name, "%.*s",
                equals == NULL ? (int)strlen(setting) : (int)(equals - setting),
                setting);
        status = tutti_config_set(config, name, equals == NULL ? "" : equals + 1);
    }
    if (status == TUTTI_OK) {
        status = join(t, config);
    }
    tutti_config_destroy(config);
    return status;
}

tutti_status job_open(struct job *job)
{
    tutti_status status = open_context(&job->t, NULL);

    if (status != TUTTI_OK) {
        return job_failed(job, status, "the context");
    }
    if ((job->arguments->compare & BENCH_WITH_SLOW) == 0) {
        return TUTTI_OK;
    }
    status = open_context(&job->slow, job->arguments->slow);
    return status == TUTTI_OK
            ? TUTTI_OK
            : job_failed(job, status, "the context of --compare slow");
}

tutti_status job_close(struct job *job)
{
    tutti_status slow = tutti_finalize(job->slow);
    tutti_status status = tutti_finalize(job->t);

    if (status == TUTTI_OK) {
        status = slow;
    }
    job->slow = NULL;
    job->t = NULL;
    if (job->json != NULL && fclose(job->json) != 0) {
        complain_about_json(job, errno);
        status = TUTTI_ERR_SYSTEM;
    }
    job->json = NULL;
    return status;
}

void job_complain(const struct job *job, const char *format, ...)
{
    va_list values;

    if (job->rank != 0) {
        return;
    }
    va_start(values, format);
    (void)fputs("tutti-bench: ", stderr);
    (void)vfprintf(stderr, format, values);
    (void)fputs("\n", stderr);
    va_end(values);
}

tutti_status job_failed(const struct job *job, tutti_status status, const char *what)
{
    (void)fprintf(stderr, "tutti-bench: rank %d: %s: %s: %s\n", job->rank, what,
            tutti_status_text(status), tutti_last_error());
    return status;
}

void job_progress(const struct job *job, const char *what, int done, int of)
{
    if (job->rank == 0 && isatty(STDERR_FILENO)) {
        (void)fprintf(stderr, done < of ? "\r%-32s round %d of %d" : "\r%70s\r", what,
                done + 1, of);
    }
}

/* Cores this process may use, or 0 when the kernel does not say. */
static int allowed_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

void job_print_head(const struct job *job, const char *what)
{
    const struct bench_arguments *arguments = job->arguments;
    char compare[BENCH_COMPARE_TEXT_MAX];

    if (job->rank != 0) {
        return;
    }
    (void)printf("# tutti-bench %s, tutti %s, %s\n", TUTTI_VERSION_STRING,
            tutti_version(), job->mpi_version);
    (void)printf("# %d rank(s) on %d host(s); rank 0 may use %d of its host's %ld "
                 "cores; load "
                 "average %.2f\n",
            job->size, tutti_node_count(job->t), allowed_cores(),
            sysconf(_SC_NPROCESSORS_ONLN), job->load_average);
    (void)printf("# %s\n", what);
    bench_compare_text(arguments->compare, compare);
    if (compare[0] != '\0') {
        (void)printf("# compared with %s: in the same process, in place, %d rounds "
                     "each in turn\n",
                compare, arguments->rounds);
    }
    (void)fflush(stdout);
}

void job_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

void job_combine(const struct job *job, double *values, int count)
{
    switch ((enum bench_average)job->arguments->average) {
    case BENCH_RANK0:
        MPI_Bcast(values, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        break;
    case BENCH_MEAN:
        MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            values[i] /= job->size;
        }
        break;
    case BENCH_MIN:
        MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        break;
    case BENCH_MAX:
        job_maximum(values, count);
        break;
    }
}

void job_sum(double *values, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void job_maximum(double *values, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int64_t job_count_wrong(struct job *job, int64_t wrong)
{
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    job->wrong += wrong;
    return wrong;
}

/* MemAvailable of /proc/meminfo in bytes; UINT64_MAX when it cannot be read. */
static uint64_t available_memory(void)
{
    static const char label[] = "MemAvailable:";
    uint64_t kib = UINT64_MAX >> 10;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");

    if (file == NULL) {
        return UINT64_MAX;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, label, sizeof label - 1) == 0) {
            kib = strtoull(line + sizeof label - 1, NULL, 10);
            break;
        }
    }
    (void)fclose(file);
    return kib << 10;
}

bool job_memory_suffices(const struct job *job, uint64_t bytes)
{
    uint64_t ranks = (uint64_t)tutti_local_size(job->t);
    int suffices = bytes <= available_memory() / 2 / ranks;

    MPI_Allreduce(MPI_IN_PLACE, &suffices, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return suffices != 0;
}

void job_row_start(const struct job *job, struct bench_json *json)
{
    const struct bench_arguments *arguments = job->arguments;

    *json = (struct bench_json){ .used = 0 };
    bench_json_text(
            json, "bench", bench_command_name((enum bench_command)arguments->command));
    bench_json_integer(json, "ranks", job->size);
    bench_json_integer(json, "hosts", tutti_node_count(job->t));
    bench_json_integer(json, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    bench_json_number(json, "load_average", job->load_average);
    bench_json_text(json, "tutti_version", tutti_version());
    bench_json_text(json, "mpi_version", job->mpi_version);
}

void job_row_write(const struct job *job, struct bench_json *json)
{
    const char *line;

    if (job->json == NULL) {
        return;
    }
    line = bench_json_finish(json);
    if (line == NULL || fputs(line, job->json) == EOF || fflush(job->json) != 0) {
        job_complain(
                job, "--json %s: the row could not be written", job->arguments->json);
    }
}
