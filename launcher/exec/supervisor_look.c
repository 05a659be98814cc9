/*
 * The rank's recording (observe/recorder.h), and what its process does, for tuttirun. The recording is
 * memory that the program has inherited; it is read as a file, so that a program that cuts it
 * short does no harm.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/exec/host_metrics.h"
#include "launcher/exec/look.h"
#include "launcher/exec/supervisor.h"
#include "launcher/session/loop.h"
#include "observe/recorder.h"

enum {
    RECORDING_MAX = 1 << 27,
    NAME_BYTES = 64
};

void supervisor_add_recorder(
        struct supervisor *supervisor, struct arguments *environment)
{
    const char *timeline = environment_get(environment->items, "TUTTI_TIMELINE");
    char number[16];

    if (timeline == NULL) {
        timeline = environment_get(environment->items, "HOROVOD_TIMELINE");
    }
    if (timeline != NULL) {
        arguments_set(environment, TIMELINE_VARIABLE, timeline);
    }
    /* Inherited over exec on purpose: the program finds it by its number. */
    supervisor->recording.fd = memfd_create("tutti-recording", 0);
    if (supervisor->recording.fd >= 0) {
        (void)snprintf(number, sizeof number, "%d", supervisor->recording.fd);
        arguments_set(environment, RECORDER_VARIABLE, number);
    }
}

/* The whole recording, in memory of the caller; NULL: there is none. */
static struct recorder_header *copy_recording(
        const struct supervisor *supervisor, size_t *len)
{
    struct stat about = { .st_size = 0 };
    char *bytes;

    if (supervisor->recording.fd < 0 || fstat(supervisor->recording.fd, &about) != 0 ||
            about.st_size < RECORDER_HEADER_BYTES || about.st_size > RECORDING_MAX) {
        return NULL;
    }
    bytes = mem_calloc(1, (size_t)about.st_size);
    if (bytes == NULL) {
        return NULL;
    }
    *len = (size_t)about.st_size;
    for (size_t at = 0; at < *len;) {
        const ssize_t got =
                pread(supervisor->recording.fd, bytes + at, *len - at, (off_t)at);

        at = got > 0 ? at + (size_t)got : *len;
    }
    return (struct recorder_header *)bytes;
}

/* The program may be a script that has started the rank's process. */
static pid_t process_of_rank(const struct supervisor *supervisor)
{
    int32_t pid = 0;

    (void)!pread(supervisor->recording.fd, &pid, sizeof pid,
            offsetof(struct recorder_header, pid));
    return pid > 0 ? pid : supervisor->child.pid;
}

static void describe_end(int status, char *text, size_t capacity)
{
    if (WIFSIGNALED(status)) {
        (void)snprintf(text, capacity, "was killed by signal %d", WTERMSIG(status));
    } else {
        (void)snprintf(text, capacity, "exited with status %d", WEXITSTATUS(status));
    }
}

static void describe_process(const struct supervisor *supervisor,
        const struct look_facts *facts, struct recorder_header *header)
{
    char words[LOOK_TEXT_MAX];

    header->seen_ns = clock_ns();
    if (supervisor->phase >= PHASE_DRAINING) {
        header->process_state = 'X';
        describe_end(supervisor->end.how.wait_status, header->process,
                sizeof header->process);
        return;
    }
    look_words(facts, words);
    header->process_state = (uint32_t)(unsigned char)facts->state;
    (void)snprintf(header->process, sizeof header->process, "%s", words);
}

static bool is_empty(const char *bytes, size_t len)
{
    return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

static void put_part(struct supervisor *supervisor, const char *bytes, size_t offset,
        size_t len, size_t total)
{
    const struct link_message message = {
        .type = LINK_RECORDING,
        .recording = { .offset = offset,
                .total = total,
                .bytes = { .text = bytes + offset, .len = len } },
    };

    link_put(uplink_out(&supervisor->uplink), &message);
}

/*
 * Parts that nobody has written are not sent; the end always is. The process is looked at first:
 * of one that has ended by then, the recording says why.
 */
static void send_recording(struct supervisor *supervisor)
{
    struct look_facts facts;
    size_t total = 0;
    struct recorder_header *header;
    const char *bytes;

    look_at(process_of_rank(supervisor), &facts);
    header = copy_recording(supervisor, &total);
    bytes = (const char *)header;
    if (header != NULL) {
        describe_process(supervisor, &facts, header);
    }
    for (size_t at = 0; header != NULL && at < total; at += LINK_LINES_MAX) {
        const size_t len = size_min(LINK_LINES_MAX, total - at);

        if (!is_empty(bytes + at, len)) {
            put_part(supervisor, bytes, at, len, total);
        }
    }
    put_part(supervisor, header == NULL ? "" : bytes, total, 0, total);
    mem_free(header);
}

void supervisor_record_end(struct supervisor *supervisor)
{
    if (!supervisor->recording.was_sent && supervisor->phase < PHASE_REPORTED) {
        supervisor->recording.was_sent = true;
        send_recording(supervisor);
    }
}

/* The program's own stderr shows the output of the debugger, as if the program had printed it. */
static void start_debugger(pid_t pid)
{
    char number[NAME_BYTES];
    char errors[NAME_BYTES];
    char *const argv[] = { (char[]){ "gdb" }, (char[]){ "-p" }, number,
        (char[]){ "-nx" }, (char[]){ "-batch" }, (char[]){ "-ex" },
        (char[]){ "thread apply all backtrace" }, NULL };
    struct child_plan plan = { .argv = argv, .environment = environ };
    struct child debugger;

    (void)snprintf(number, sizeof number, "%d", (int)pid);
    (void)snprintf(errors, sizeof errors, "/proc/%d/fd/2", (int)pid);
    plan.input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    plan.output = open(errors, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    /* Where there is none, there is only what the kernel shows. */
    if (plan.input >= 0 && plan.output >= 0 && fcntl(plan.output, F_SETFL, 0) == 0 &&
            child_start(&plan, &debugger) == TUTTI_OK) {
        (void)close(debugger.exec_fd);
    }
    fd_close(&plan.input);
    fd_close(&plan.output);
}

static void send_stacks(struct supervisor *supervisor, pid_t pid)
{
    char text[LOOK_STACKS_MAX];
    const struct link_message message = {
        .type = LINK_OUTPUT,
        .output = { .stream = 2,
                .time = (uint64_t)clock_ns(),
                .lines = { .text = text, .len = look_stacks(pid, text) } },
    };

    link_put(uplink_out(&supervisor->uplink), &message);
    start_debugger(pid);
}

void supervisor_look(struct supervisor *supervisor, bool with_stacks)
{
    send_recording(supervisor);
    if (with_stacks && supervisor->phase < PHASE_DRAINING &&
            supervisor->child.pid > 0) {
        send_stacks(supervisor, process_of_rank(supervisor));
    }
}

/* The recording of a library that begins has no words of an earlier one. */
void supervisor_ask_timeline(const struct supervisor *supervisor)
{
    const uint32_t asked = supervisor->recording.timeline_asked;
    const off_t place = offsetof(struct recorder_header, timeline_asked);
    uint32_t told;

    if (asked != 0 && supervisor->recording.fd >= 0 &&
            pread(supervisor->recording.fd, &told, sizeof told, place) ==
                    (ssize_t)sizeof told &&
            told != asked) {
        (void)!pwrite(supervisor->recording.fd, &asked, sizeof asked, place);
    }
}

static void send_metrics(struct supervisor *supervisor, int64_t now)
{
    static const int64_t second = 1000000000;
    struct metrics metrics;
    struct metrics_source source;
    struct link_message message = { .type = LINK_METRICS };
    struct metrics_total row;

    if (!supervisor->uplink.orders.tells || now < supervisor->recording.metrics_due ||
            supervisor->phase != PHASE_RUNNING || uplink_is_full(&supervisor->uplink)) {
        return;
    }
    supervisor->recording.metrics_due = now + second;
    if (!host_metrics_read(supervisor->recording.fd, &metrics, &source)) {
        return;
    }
    message.metrics = (struct link_metrics){ .time = (uint64_t)now,
        .steps = counter_get(&metrics.steps),
        .wait_ns = counter_get(&metrics.wait_ns),
        .lead_ns = counter_get(&metrics.lead_ns) };
    for (int i = 0; i < METRICS_ROWS; i++) {
        message.metrics.bytes += metrics_read_row(&metrics, i, &row) ? row.bytes : 0;
    }
    link_put(uplink_out(&supervisor->uplink), &message);
}

/* The library has reported a stall: tuttirun will ask all the others. */
static void watch_stalls(struct supervisor *supervisor)
{
    uint32_t stalls = 0;

    if (supervisor->recording.fd >= 0 &&
            pread(supervisor->recording.fd, &stalls, sizeof stalls,
                    offsetof(struct recorder_header, stalls)) ==
                    (ssize_t)sizeof stalls &&
            stalls != supervisor->recording.stalls) {
        supervisor->recording.stalls = stalls;
        send_recording(supervisor);
    }
}

void supervisor_step_recording(struct supervisor *supervisor, int64_t now)
{
    watch_stalls(supervisor);
    supervisor_ask_timeline(supervisor);
    send_metrics(supervisor, now);
}
