#include "launcher/job/recordings.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/exec/logs.h"
#include "launcher/exec/look.h"
#include "launcher/exec/procs.h"
#include "launcher/job/flow.h"
#include "launcher/process.h"
#include "launcher/program.h"
#include "launcher/signals.h"

enum {
    ANSWER_MS = 1500, /* that ranks have to answer                      */
    QUIET_MS = 10000, /* between two stalls of which is told            */
    AUTOPSY_FOUND = 1, /* its exit status: it names a cause                */
    LINE_MAX_BYTES = 4096,
    FILE_MODE = 0600,
    FOLDER_MODE = 0700,
    FILE_MAX = 1 << 27 /* bytes of a recording: supervisors send less    */
};

/* That tutti-autopsy may take. */
#define AUTOPSY_NS INT64_C(60000000000)

/* A directory in /tmp is ours alone, or it is none. */
static bool make_folder(struct job *job)
{
    struct recordings *recordings = &job->recordings;
    const char *named = job->options->config.record_dir;

    if (named == NULL || named[0] == '\0') { /* by no flag */
        named = environment_get(job->plan->environment, "TUTTI_RECORD_DIR");
    }
    recordings->is_ours = named == NULL || named[0] == '\0';
    if (recordings->is_ours) {
        (void)snprintf(recordings->folder, sizeof recordings->folder,
                "/tmp/tutti-record.%s", job->name);
        return mkdir(recordings->folder, FOLDER_MODE) == 0;
    }
    generation_path(
            recordings->folder, sizeof recordings->folder, named, job_generation(job));
    (void)mkdir(recordings->folder, FOLDER_MODE);
    return true;
}

static void path_of(const struct job *job, int rank, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%.*s/rank.%d", PATH_MAX - 32,
            job->recordings.folder, rank);
}

static bool write_part(
        const struct job *job, int rank, const struct link_recording *part)
{
    char path[PATH_MAX];
    bool done;
    int fd;

    path_of(job, rank, path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (fd < 0) {
        return false;
    }
    done = part->bytes.len > 0
            ? pwrite(fd, part->bytes.text, part->bytes.len, (off_t)part->offset) ==
                    (ssize_t)part->bytes.len
            : ftruncate(fd, (off_t)part->total) == 0;
    (void)close(fd);
    return done;
}

static void keep_part(struct job *job, int rank, const struct link_recording *part)
{
    struct recordings *recordings = &job->recordings;

    if (recordings->has_failed || part->total == 0 || part->total > FILE_MAX ||
            part->offset + part->bytes.len > part->total) {
        return;
    }
    if ((recordings->folder[0] == '\0' && !make_folder(job)) ||
            !write_part(job, rank, part)) {
        recordings->has_failed = true;
        (void)error_set_errno(
                TUTTI_ERR_SYSTEM, "keep recordings in %s", recordings->folder);
        console_print(&job->console, "tuttirun", "%s", tutti_last_error());
    }
}

void recordings_ask(struct job *job, bool with_stacks)
{
    struct recordings *recordings = &job->recordings;

    recordings->is_asked = true;
    recordings->answers = 0;
    recordings->due = job->now + ANSWER_MS * JOB_NS_PER_MS;
    recordings->quiet_until = job->now + QUIET_MS * JOB_NS_PER_MS;
    flow_send_all(
            job, &(struct link_message){ .type = LINK_LOOK, .look = with_stacks });
}

/* One that nobody asked for, in a job that goes on, tells of a stall: all are asked. */
void recordings_take(struct job *job, int rank, const struct link_recording *part)
{
    struct recordings *recordings = &job->recordings;

    keep_part(job, rank, part);
    if (part->bytes.len > 0) {
        return;
    }
    if (recordings->is_asked) {
        recordings->answers++;
    } else if (job->state == JOB_RUNNING && job->due.settle_at == 0 &&
            job->now >= recordings->quiet_until &&
            job->ranks.items[rank].state == RANK_RUNNING) {
        recordings_ask(job, false);
    }
}

/*
 * Runs tutti-autopsy, and says what it prints: the conclusion, then slow links and ranks. Of a job that
 * does not go on, nothing but the conclusion, and that only if there is a cause.
 */
static void print_conclusion(struct job *job, bool goes_on)
{
    char program[PATH_MAX];
    char line[LINE_MAX_BYTES];
    char flag[] = "--short";
    char *argv[] = { program, flag, job->recordings.folder, NULL };
    struct process autopsy = { .pid = 0 };

    if (program_beside("tutti-autopsy", program, sizeof program) != TUTTI_OK ||
            process_run(&autopsy, argv, job->plan->environment,
                    clock_ns() + AUTOPSY_NS) != TUTTI_OK) {
        console_print(&job->console, "tuttirun", "%s", tutti_last_error());
        return;
    }
    if (autopsy.status > AUTOPSY_FOUND) {
        console_print(&job->console, "tuttirun", "no rank has left a recording");
    } else if (goes_on) {
        while (process_take_line(&autopsy, line, sizeof line)) {
            console_print(&job->console, "tuttirun", "%s", line);
        }
    } else if (autopsy.status == AUTOPSY_FOUND &&
            process_take_line(&autopsy, line, sizeof line)) {
        console_print(&job->console, "tuttirun", "%s", line);
    }
    if (goes_on && autopsy.status != AUTOPSY_FOUND) {
        job->recordings.quiet_until =
                job->now; /* what stalls next may be the real one */
    }
    process_fini(&autopsy);
}

void recordings_step(struct job *job)
{
    struct recordings *recordings = &job->recordings;

    if (recordings->is_asked && job->state == JOB_RUNNING && job->due.settle_at == 0 &&
            (job->now >= recordings->due ||
                    recordings->answers >= job->ranks.count - job->ranks.ended)) {
        recordings->is_asked = false;
        print_conclusion(job, true);
    }
}

static void remove_all(const struct job *job)
{
    char path[PATH_MAX];

    for (int rank = 0; rank < job->ranks.count; rank++) {
        path_of(job, rank, path);
        (void)unlink(path);
    }
    if (job->recordings.is_ours) {
        (void)rmdir(job->recordings.folder);
    }
}

void recordings_drop(struct job *job)
{
    if (job->recordings.folder[0] != '\0' && job->recordings.is_ours) {
        remove_all(job);
    }
}

void recordings_end(struct job *job)
{
    if (job->recordings.folder[0] == '\0' || job->recordings.has_failed) {
        return;
    }
    if (job->cause.kind != CAUSE_NONE && job->cause.kind != CAUSE_OUTPUT) {
        print_conclusion(job, false);
    }
    if (job->cause.kind == CAUSE_NONE || job->cause.kind == CAUSE_OUTPUT ||
            (job->cause.kind == CAUSE_SIGNAL && job->recordings.is_ours)) {
        remove_all(job);
        return;
    }
    console_print(&job->console, "tuttirun", "what the ranks did: tutti-autopsy %s",
            job->recordings.folder);
}

tutti_status recordings_ask_process(int pid)
{
    const union sigval value = { .sival_int = SIGNALS_STACKS };

    if (!process_is_named(pid, "tuttirun")) {
        return error_set(TUTTI_ERR_INVALID,
                "--stacks %d: there is no tuttirun with that pid here", pid);
    }
    if (look_dies_of(pid, SIGUSR1)) {
        return error_set(TUTTI_ERR_INVALID,
                "--stacks %d: that tuttirun runs no ranks (yet)", pid);
    }
    return sigqueue(pid, SIGUSR1, value) == 0
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "--stacks %d", pid);
}

/* --------------------------------------------------------------- timelines */

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
    console_print(&job->console, "tuttirun", "timeline %s",
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
        console_print(&job->console, "tuttirun", "no %s", file);
        return;
    }
    console_print(&job->console, "tuttirun", "timeline: %s; tutti-trace summary %s",
            file, folder);
}
