/*
 * The n-th allocation, system call or message of a job fails, for every n: the job ends well
 * or with an error on every rank, without a hang, and gives everything back.
 *
 *   torture memory|system|message calls|messages|ucx|trainer|layer [FIRST [STRIDE]]
 *
 * With a stride, only every so manieth n is tried, beginning with FIRST.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject.h"
#include "job.h"
#include "oob.h"

enum {
    HANG_SECONDS = 300, /* of one job, which takes some milliseconds */
    ATTEMPTS_MAX = 100000
};

struct rank {
    tutti *t;
    const struct job *job;
    pthread_t thread;
    pthread_barrier_t *all_ran;
    tutti_status ran, ended;
    char words[300]; /* of the first error */
};

static const char *const kinds[INJECT_KINDS] = { "memory", "system", "message" };

static char now[96]; /* what is tried, for the message of a hang */

static void hang(int number)
{
    (void)number;
    (void)!write(STDERR_FILENO, now, strlen(now));
    abort();
}

static void fail(const char *what, tutti_status status, const char *words)
{
    const char *victim = "nothing";

    (void)inject_disarm(&victim);
    (void)fprintf(stderr, "%s (%s failed): %s: %s: %s\n", now, victim, what,
            tutti_status_name(status), words);
    (void)fflush(stderr);
    _exit(1); /* UCX in a thread of a job that stands would wait */
}

/* ------------------------------------------------------------------ what is left */

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int entries = 0;

    if (folder == NULL) {
        return 0;
    }
    while (readdir(folder) != NULL) {
        entries++;
    }
    (void)closedir(folder);
    return entries;
}

/* Removes all files; true when only whole ones were there. */
static bool clear_directory(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool is_clean = true;
    char file[512];

    if (folder == NULL) {
        return true;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            is_clean = is_clean && strstr(entry->d_name, ".tmp") == NULL;
            (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            (void)unlink(file);
        }
    }
    (void)closedir(folder);
    return rmdir(path) == 0 && is_clean;
}

/* ------------------------------------------------------------------------ a job */

static void *rank_main(void *argument)
{
    struct rank *rank = argument;

    rank->ran = job_run(rank->t, rank->job);
    (void)snprintf(rank->words, sizeof rank->words, "%s", tutti_last_error());
    if (rank->job->is_heard) {
        (void)pthread_barrier_wait(rank->all_ran);
    }
    rank->ended = tutti_finalize(rank->t);
    return NULL;
}

static void no_log(void *user, tutti_log_level level, int rank, const char *line)
{
    (void)user;
    (void)level;
    (void)rank;
    (void)line;
}

static tutti_status start(const struct job *job, tutti **contexts)
{
    tutti_config *config = NULL;
    tutti_status status = tutti_config_create(&config);

    if (status == TUTTI_OK) {
        status = tutti_config_set(config, "gpu", "off");
    }
    if (status == TUTTI_OK && job->by_messages) {
        status = tutti_config_set(config, "backend", "messages");
    }
    if (status == TUTTI_OK) {
        (void)tutti_config_set_log(config, no_log, NULL);
        status = job->by_ucx ? oob_start(JOB_RANKS, contexts, config)
                             : tutti_init_local(JOB_RANKS, contexts, config);
    }
    tutti_config_destroy(config);
    return status;
}

static bool is_expected(tutti_status status)
{
    return status == TUTTI_OK || status == TUTTI_ERR_NO_MEMORY ||
            status == TUTTI_ERR_SYSTEM || status == TUTTI_ERR_MPI ||
            status == TUTTI_ERR_CONTEXT_FAILED || status == TUTTI_ERR_FINALIZED ||
            status == TUTTI_ERR_INVALID;
}

/*
 * What failed on one rank has failed on all, whose messages name it; by the end, where the job's
 * last call was over there.
 */
static void check_heard(const struct rank *ranks)
{
    const struct rank *other = NULL; /* one without the rank in its message */
    int failed = 0;
    int unaware = 0;
    int unnamed = 0;

    for (int i = 0; i < JOB_RANKS; i++) {
        failed += ranks[i].ran != TUTTI_OK;
        unaware += ranks[i].ran == TUTTI_OK && ranks[i].ended == TUTTI_OK;
        if (ranks[i].ran != TUTTI_OK && strstr(ranks[i].words, "rank ") == NULL) {
            unnamed++;
            other = &ranks[i];
        }
    }
    if (failed > 0 && unaware > 0) {
        fail("ranks have not heard of it", ranks[0].ran, ranks[0].words);
    }
    if (unnamed > 1) {
        fail("ranks have not heard whose it is", other->ran, other->words);
    }
}

/* True when the context did not fail. */
static bool run_ranks(const struct job *job, tutti **contexts)
{
    struct rank ranks[JOB_RANKS];
    pthread_barrier_t all_ran;
    bool is_well = true;

    inject_exempt(true);
    (void)pthread_barrier_init(&all_ran, NULL, JOB_RANKS);
    for (int i = 0; i < JOB_RANKS; i++) {
        ranks[i] = (struct rank){ .t = contexts[i], .job = job, .all_ran = &all_ran };
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) != 0) {
            abort();
        }
    }
    inject_exempt(false);
    for (int i = 0; i < JOB_RANKS; i++) {
        (void)pthread_join(ranks[i].thread, NULL);
    }
    (void)pthread_barrier_destroy(&all_ran);
    if (job->is_heard) {
        check_heard(ranks);
    }
    for (int i = 0; i < JOB_RANKS; i++) {
        const struct rank *rank = &ranks[i];

        if (!is_expected(rank->ran) || !is_expected(rank->ended) ||
                (rank->ran != TUTTI_OK && rank->words[0] == '\0')) {
            fail("a rank's status", rank->ran != TUTTI_OK ? rank->ran : rank->ended,
                    rank->words);
        }
        is_well = is_well && rank->ended != TUTTI_ERR_CONTEXT_FAILED;
    }
    return is_well;
}

/* Whether so many calls were made. */
static bool attempt(const struct job *job, enum inject_kind kind, uint64_t n)
{
    static int files; /* after the job before */
    static long alive;
    const bool is_first = now[0] == '\0'; /* may leave what later ones use */
    tutti *contexts[JOB_RANKS];
    bool is_well = true;
    tutti_status status;
    const char *victim;
    uint64_t calls;

    (void)alarm(HANG_SECONDS);
    inject_arm(kind, n);
    status = start(job, contexts);
    if (status == TUTTI_OK) {
        is_well = run_ranks(job, contexts);
    } else if (!is_expected(status)) {
        fail("the start", status, tutti_last_error());
    }
    calls = inject_disarm(&victim);
    /* What a message that is under way may touch is nobody's any more when the context fails. */
    if (!is_first && inject_alive() != alive && (is_well || !job->by_ucx)) {
        (void)fprintf(stderr, "%ld blocks\n", inject_alive() - alive);
        fail("memory is left", status, "");
    }
    if (!is_first && count_entries("/proc/self/fd") != files) {
        fail("files are left open", status, "");
    }
    alive = inject_alive();
    files = count_entries("/proc/self/fd");
    /* What is left by a failed context the next save removes. */
    if (!clear_directory(job->directory) && is_well) {
        fail("files are left in the directory", status, "");
    }
    return calls >= n;
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/tutti-torture-XXXXXX";
    struct job job = { .directory = directory };
    uint64_t n = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const uint64_t stride = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    int kind = 0;

    while (argc > 2 && kind < INJECT_KINDS && strcmp(argv[1], kinds[kind]) != 0) {
        kind++;
    }
    if (argc < 3 || kind == INJECT_KINDS || mkdtemp(directory) == NULL) {
        (void)fprintf(stderr, "see torture.c\n");
        return 2;
    }
    job.trains = strcmp(argv[2], "trainer") == 0;
    job.uses_layer = strcmp(argv[2], "layer") == 0;
    job.is_heard = job.trains || job.uses_layer;
    job.by_ucx = strcmp(argv[2], "ucx") == 0;
    job.by_messages = job.by_ucx || strcmp(argv[2], "messages") == 0;
    (void)signal(SIGALRM, hang);
    (void)attempt(&job, INJECT_KINDS, 1);
    do {
        (void)snprintf(
                now, sizeof now, "%s %s %llu", argv[1], argv[2], (unsigned long long)n);
        n += stride;
    } while (attempt(&job, (enum inject_kind)kind, n - stride) && n < ATTEMPTS_MAX);
    (void)snprintf(now, sizeof now, "afterwards");
    (void)attempt(&job, INJECT_KINDS, 1);
    (void)rmdir(directory);
    (void)printf("up to %llu\n", (unsigned long long)(n - stride));
    return 0;
}
