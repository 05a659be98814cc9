/*
 * The report as JSON, of jobs that failed and of jobs that did not.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/error.h"
#include "launcher/job/report.h"
#include "launcher/json.h"

enum {
    PATH_BYTES = 4096
};

#define NS_PER_S INT64_C(1000000000)

static const char *const end_names[] = {
    [RANK_END_NONE] = "none",
    [RANK_END_EXIT] = "exit",
    [RANK_END_SIGNAL] = "signal",
    [RANK_END_EXEC] = "not run",
    [RANK_END_SETUP] = "not started",
    [RANK_END_LOST] = "lost",
    [RANK_END_SILENT] = "silent",
    [RANK_END_STUCK] = "stopped",
};

static const char *const failure_names[] = {
    [CONTEXT_FAILURE_NONE] = NULL,
    [CONTEXT_FAILURE_FOUND] = "found",
    [CONTEXT_FAILURE_TOLD] = "told",
};

static const char *const cause_names[] = {
    [CAUSE_NONE] = "none",
    [CAUSE_RANK] = "rank",
    [CAUSE_MPI_LAUNCHER] = "engine",
    [CAUSE_START] = "start",
    [CAUSE_TIMEOUT] = "timeout",
    [CAUSE_SIGNAL] = "signal",
    [CAUSE_OUTPUT] = "output",
    [CAUSE_LAUNCHER] = "launcher",
};

static double seconds_since(int64_t start, int64_t time)
{
    return (double)(time - start) / (double)NS_PER_S;
}

static json_t *rank_object(const struct report_facts *facts, int index)
{
    const struct rank *rank = &facts->ranks->items[index];
    const bool has_ended = rank->state == RANK_ENDED;
    char words[EXIT_TEXT_MAX];

    exit_text_end(rank, words);
    return json_pack("{si so so ss si so so sb sb sb ss? so so so}", "rank", index,
            "host", json_text(rank->host), "pid",
            rank->pid > 0 ? json_integer((json_int_t)rank->pid) : json_null(), "end",
            end_names[rank->end], "value", rank->value, "text", json_text(words),
            "seconds",
            has_ended ? json_real(seconds_since(facts->start, rank->when))
                      : json_null(),
            "was_stopped", rank->was_stopped, "dumped_core", rank->dumped_core,
            "out_of_memory", rank->is_oom, "failure", failure_names[rank->failure],
            "binding", json_text(rank->binding), "log", json_text(rank->log), "tail",
            json_text(rank->tail));
}

static json_t *cause_object(const struct report_facts *facts)
{
    const struct cause *cause = facts->cause;

    if (cause->kind == CAUSE_NONE) {
        return json_null();
    }
    return json_pack("{ss so so sf}", "kind", cause_names[cause->kind], "rank",
            cause->rank >= 0 ? json_integer(cause->rank) : json_null(), "text",
            json_text(cause->text), "seconds",
            seconds_since(facts->start, cause->when));
}

static json_t *time_text(int64_t ns)
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm day;
    char text[64];

    if (gmtime_r(&seconds, &day) == NULL ||
            strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &day) == 0) {
        return json_null();
    }
    return json_string(text);
}

static json_t *report_object(const struct report_facts *facts)
{
    json_t *ranks = json_array();

    for (int i = 0; i < facts->ranks->count; i++) {
        (void)json_array_append_new(ranks, rank_object(facts, i));
    }
    return json_pack("{si si so sf so so}", "version", 1, "exit_status",
            facts->exit_status, "started", time_text(facts->start + facts->epoch),
            "seconds", seconds_since(facts->start, facts->end), "cause",
            cause_object(facts), "ranks", ranks);
}

/* What is no file, as /dev/null or a pipe, is written to and not replaced. */
static bool is_replaced(const char *path)
{
    struct stat facts;

    return stat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}

tutti_status report_write(const struct report_facts *facts, const char *path)
{
    const bool has_draft = is_replaced(path);
    char draft[PATH_BYTES];
    json_t *object = report_object(facts);
    FILE *file;
    bool written;
    int fd;

    if (object == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "cannot write the report %s", path);
    }
    fd = has_draft ? draft_open(path, draft, sizeof draft)
                   : open(path, O_WRONLY | O_CLOEXEC);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    written = file != NULL &&
            json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0;
    json_decref(object);
    written = file != NULL && fclose(file) == 0 && written;
    if (!written || (has_draft && rename(draft, path) != 0)) {
        tutti_status status =
                error_set_errno(TUTTI_ERR_SYSTEM, "cannot write the report %s", path);

        if (has_draft && fd >= 0) {
            (void)unlink(draft);
        }
        return status;
    }
    return TUTTI_OK;
}
