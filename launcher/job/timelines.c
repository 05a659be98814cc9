/*
 * Asks ranks for timelines, and merges them.
 */
#include "launcher/job/timelines.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/environment.h"
#include "launcher/exec/logs.h"
#include "launcher/job/flow.h"
#include "launcher/process.h"
#include "launcher/program.h"

/* A parameter: by a flag, or in the environment of ranks. */
static const char *parameter(
        const struct job *job, const char *flag, const char *const variables[2])
{
    for (int v = 0; (flag == NULL || flag[0] == '\0') && v < 2; v++) {
        flag = variables[v] == NULL
                ? flag
                : environment_get(job->plan->environment, variables[v]);
    }
    return flag == NULL ? "" : flag;
}

/* "": the job has no timeline. */
static const char *place_of(const struct job *job)
{
    static const char *const variables[2] = { "TUTTI_TIMELINE", "HOROVOD_TIMELINE" };

    return parameter(job, job->options->config.timeline, variables);
}

/* The ranks do what is asked last: an odd number begins, an even one ends. */
bool timelines_toggle(struct job *job)
{
    static const char *const variables[2] = { "TUTTI_TIMELINE_STEPS", NULL };
    const char *steps = parameter(job, job->options->config.timeline_steps, variables);

    if (place_of(job)[0] == '\0') {
        return false;
    }
    if (job->recordings.timeline_asked == 0 && steps[0] == '\0') {
        job->recordings.timeline_asked = 1; /* on from the start */
    }
    job->recordings.timeline_asked++;
    flow_send_all(job,
            &(struct link_message){ .type = LINK_TIMELINE,
                    .timeline = job->recordings.timeline_asked });
    console_say(&job->console, "tuttirun", "timeline %s",
            job->recordings.timeline_asked % 2 != 0 ? "on" : "off");
    return true;
}

void timelines_send(struct job *job, struct server_link *link)
{
    if (job->recordings.timeline_asked != 0) {
        flow_send(job, link,
                &(struct link_message){ .type = LINK_TIMELINE,
                        .timeline = job->recordings.timeline_asked });
    }
}

/* Runs tutti-trace; what it complains of is passed on. False: there is no file. */
static bool merge(const struct job *job, char *folder, char *file)
{
    char program[PATH_MAX];
    char command[] = "merge";
    char flag[] = "-o";
    char *argv[] = { program, command, folder, flag, file, NULL };
    struct process trace = { .pid = 0 };
    bool done;

    if (program_beside("tutti-trace", program, sizeof program) != TUTTI_OK ||
            process_run(&trace, argv, job->plan->environment, INT64_MAX) != TUTTI_OK) {
        (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
        return false;
    }
    (void)fwrite(trace.err.text, 1, trace.err.len, stderr);
    done = trace.status == 0;
    process_fini(&trace);
    return done;
}

void timelines_end(struct job *job)
{
    char file[RECORDINGS_PATH_MAX];
    char folder[sizeof file + sizeof ".ranks"];

    generation_path(file, sizeof file, place_of(job), job_generation(job));
    if (!text_ends_in(file, ".json") && !text_ends_in(file, ".json.gz")) {
        return;
    }
    (void)snprintf(folder, sizeof folder, "%s.ranks", file);
    if (!merge(job, folder, file)) {
        console_say(&job->console, "tuttirun", "no %s", file);
        return;
    }
    console_say(&job->console, "tuttirun", "timeline: %s; tutti-trace summary %s", file,
            folder);
}
