/*
 * What the suites need of a job.
 */
#include "test/suite/job.h"

#include <stdio.h>
#include <string.h>

#include "test/suite/gpu.h"

void job_meet(struct checks *c)
{
    c->job->meet(c->job, c->rank);
}

static void take_line(void *user, tutti_log_level level, int rank, const char *line)
{
    struct log_lines *log = user;

    (void)level;
    (void)pthread_mutex_lock(&log->lock);
    if (log->count < LOG_LINES_MAX) {
        struct log_line *kept = &log->lines[log->count++];

        kept->rank = rank;
        (void)snprintf(kept->text, sizeof kept->text, "%s", line);
    }
    (void)pthread_mutex_unlock(&log->lock);
}

/* The simulated GPU; a rank's device is that of its number, wherever it says that it is. */
static void set_gpu(struct checks *c, tutti_config *config)
{
    char number[16];

    EXPECT_OK(c, tutti_config_set(config, "gpu_kernels", "/proc/self/exe"));
    /* The reference rounds once; device_suite has the sums that are rounded at each step. */
    EXPECT_OK(c, tutti_config_set(config, "gpu_half_sums", "float"));
    if (c->job->processes) {
        (void)snprintf(number, sizeof number, "%d", c->rank);
        EXPECT_OK(c, tutti_config_set(config, "gpu", number));
    }
}

/* What a topic says of fusion it says of device memory, too. */
static void set_all(struct checks *c, tutti_config *config, const struct setting *s)
{
    for (; s != NULL && s->name != NULL; s++) {
        EXPECT_OK(c, tutti_config_set(config, s->name, s->value));
        if (suite_gpu_is_used() && strcmp(s->name, "fusion_bytes") == 0) {
            EXPECT_OK(c, tutti_config_set(config, "gpu_fusion_bytes", s->value));
        }
    }
}

tutti_status job_try_open(struct checks *c, const struct setting *settings, tutti **t)
{
    tutti_config *config = NULL;
    tutti_status status;

    EXPECT_OK(c, tutti_config_create(&config));
    EXPECT_OK(c, tutti_config_set_log(config, take_line, &c->job->log));
    if (suite_gpu_is_used()) {
        set_gpu(c, config);
    }
    set_all(c, config, settings);
    status = c->job->open(c->job, c->rank, config, t);
    tutti_config_destroy(config);
    return status;
}

tutti *job_open(struct checks *c, const struct setting *settings)
{
    tutti *t = NULL;

    if (!EXPECT_OK(c, job_try_open(c, settings, &t))) {
        return NULL;
    }
    EXPECT(c, tutti_rank(t) == c->rank && tutti_size(t) == c->size);
    return t;
}

void job_clear_log(struct checks *c)
{
    (void)pthread_mutex_lock(&c->job->log.lock);
    c->job->log.count = 0;
    (void)pthread_mutex_unlock(&c->job->log.lock);
}

bool job_find_line(struct checks *c, int rank, const char *part, char *text)
{
    struct log_lines *log = &c->job->log;
    bool found = false;

    (void)pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < log->count && !found; i++) {
        found = log->lines[i].rank == rank && strstr(log->lines[i].text, part) != NULL;
        if (found) {
            memcpy(text, log->lines[i].text, LOG_TEXT_MAX);
        }
    }
    (void)pthread_mutex_unlock(&log->lock);
    return found;
}

void job_same_text(struct checks *c, tutti *t, const char *name, const char *text)
{
    char mine[1024] = "";
    char first[1024];

    (void)snprintf(mine, sizeof mine, "%s", text);
    memcpy(first, mine, sizeof first);
    EXPECT_OK(c,
            tutti_broadcast(
                    t, name, first, (int64_t)sizeof first, TUTTI_UINT8, 0, NULL));
    if (!EXPECT(c, memcmp(first, mine, sizeof first) == 0)) {
        (void)fprintf(stderr, "rank 0: %s\nrank %d: %s\n", first, c->rank, mine);
    }
}
