#include "launcher/job/launcher_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/exec/child.h"
#include "launcher/exec/guardian.h"
#include "launcher/exec/keeper.h"
#include "launcher/exec/procs.h"
#include "launcher/job/report.h"

enum {
    TITLE_MAX = 128, /* bytes of a process' title */
    GUARDIAN_GRACE_US = 500000, /* between SIGTERM and SIGKILL of the guardian */
    REST_LOOK_US = 10000, /* between looks at what is left after a failure       */
    REST_LOOK_MS = REST_LOOK_US / 1000
};

const struct launcher_process launcher_process_none = {
    .pidfd = -1,
    .output = -1,
    .errors = -1,
    .input = -1,
    .guardian_fd = -1,
};

/* In the guardian: tuttirun has died. */
static void end_group(const void *context)
{
    const struct launcher_process *launcher = context;

    launcher_process_signal(launcher, SIGTERM);
    (void)usleep(GUARDIAN_GRACE_US);
    launcher_process_signal(launcher, SIGKILL);
}

static tutti_status start_guardian(struct launcher_process *launcher)
{
    const struct guardian_plan plan = {
        .clean_up = end_group, .context = launcher, .wrapper_fd = -1
    };

    return guardian_start(&plan, &launcher->guardian_fd);
}

/* A group in the background may not read the terminal: the MPI launcher gets a pipe. */
static tutti_status open_input(int ends[2])
{
    ends[0] = -1;
    ends[1] = -1;
    if (isatty(STDIN_FILENO) == 1 && pipe2(ends, O_CLOEXEC) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "make a pipe for the engine's input");
    }
    if (ends[1] >= 0) {
        (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    }
    return TUTTI_OK;
}

tutti_status launcher_process_start(struct launcher_process *launcher,
        char *const *command, char *const *environment)
{
    struct child_plan plan = {
        .argv = command,
        .environment = environment,
        .death_signal = SIGTERM,
        .output = -1,
        .is_group = true,
    };
    struct child child;
    int input[2];
    tutti_status status = open_input(input);
    tutti_status ran;

    *launcher = launcher_process_none;
    if (status != TUTTI_OK) {
        return status;
    }
    plan.input = input[0];
    status = child_start(&plan, &child);
    fd_close(&input[0]);
    if (status != TUTTI_OK) {
        fd_close(&input[1]);
        return status;
    }
    launcher->pid = child.pid;
    launcher->output = child.out;
    launcher->errors = child.err;
    launcher->input = input[1];
    status = start_guardian(launcher);
    /* What it leaves behind is ours then: launcher_process_end_rest(). The guardian is not. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    launcher->pidfd = (int)syscall(SYS_pidfd_open, launcher->pid, 0);
    ran = child_wait_exec(&child, command[0]);
    return status != TUTTI_OK ? status : ran;
}

bool launcher_process_reap(struct launcher_process *launcher)
{
    int status;

    if (launcher->pid == 0 || launcher->has_ended ||
            waitpid(launcher->pid, &status, WNOHANG) != launcher->pid) {
        return false;
    }
    launcher->has_ended = true;
    launcher->status = status;
    return true;
}

void launcher_process_signal(const struct launcher_process *launcher, int number)
{
    if (launcher->pid > 0) {
        (void)kill(-launcher->pid, number);
    }
}

void launcher_process_words(
        const struct launcher_process *launcher, char *text, size_t capacity)
{
    if (WIFSIGNALED(launcher->status)) {
        exit_text_signal(WTERMSIG(launcher->status), text, capacity);
    } else {
        (void)snprintf(text, capacity, "status %d", WEXITSTATUS(launcher->status));
    }
}

void launcher_process_fini(struct launcher_process *launcher)
{
    int status;

    launcher_process_signal(launcher, SIGKILL);
    if (launcher->pid > 0 && !launcher->has_ended) {
        (void)waitpid(launcher->pid, &status, 0);
    }
    guardian_dismiss(launcher->guardian_fd);
    fd_close(&launcher->pidfd);
    fd_close(&launcher->output);
    fd_close(&launcher->errors);
    fd_close(&launcher->input);
    *launcher = launcher_process_none;
}

void launcher_process_end_rest(int patience_ms, const char *share)
{
    char title[TITLE_MAX];
    const char *spared = share == NULL ? NULL : title;

    (void)snprintf(title, sizeof title, "ssh: %s/", share == NULL ? "" : share);
    for (int i = 0; i < patience_ms / REST_LOOK_MS &&
            procs_signal_descendants(0, KEEPER_NAME, spared) > 0;
            i++) {
        (void)usleep(REST_LOOK_US);
    }
    (void)procs_signal_descendants(SIGKILL, KEEPER_NAME, spared);
}

/* -------------------------------------------------------------- its output */

void launcher_output_end(
        struct launcher_output *output, launcher_output_show show, void *context)
{
    char *line = output->lines[output->count % LAUNCHER_OUTPUT_LINES];

    if (output->partial_len == 0) {
        return;
    }
    memcpy(line, output->partial, output->partial_len);
    line[output->partial_len] = '\0';
    output->partial_len = 0;
    output->count++;
    show(context, line);
}

void launcher_output_add(struct launcher_output *output, const char *bytes, size_t len,
        launcher_output_show show, void *context)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        if (byte == '\n') {
            launcher_output_end(output, show, context);
        } else if ((byte >= 0x20 || byte == '\t') && byte != 0x7f &&
                output->partial_len + 1 < LAUNCHER_OUTPUT_LINE_MAX) {
            output->partial[output->partial_len++] = bytes[i];
        }
    }
}

size_t launcher_output_kept(const struct launcher_output *output)
{
    return output->count < LAUNCHER_OUTPUT_LINES ? output->count
                                                 : LAUNCHER_OUTPUT_LINES;
}

const char *launcher_output_line(const struct launcher_output *output, size_t i)
{
    return output->lines[(output->count - launcher_output_kept(output) + i) %
            LAUNCHER_OUTPUT_LINES];
}

/* --------------------------------------------------------------- MPI_Abort */

enum {
    NUMBER_MAX = 12 /* bytes of a number with its zero */
};

/* Where the text goes on behind a phrase; NULL when the phrase is not in it. */
static const char *behind(const char *text, const char *end, const char *phrase)
{
    const char *at = memmem(text, (size_t)(end - text), phrase, strlen(phrase));

    return at == NULL ? NULL : at + strlen(phrase);
}

/* Reads the number behind a phrase; false when there is none. */
static bool read_behind(
        const char *text, const char *end, const char *phrase, int *number)
{
    const char *at = behind(text, end, phrase);
    char digits[NUMBER_MAX];
    int64_t value;

    if (at == NULL) {
        return false;
    }
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(end - at), at);
    digits[strspn(digits, "-0123456789")] = '\0';
    if (!text_to_int64(digits, &value) || value < INT32_MIN || value > INT32_MAX) {
        return false;
    }
    *number = (int)value;
    return true;
}

static void take_openmpi(struct abort_words *words, const char *text, const char *end)
{
    if (read_behind(text, end, "MPI_ABORT was invoked on rank ", &words->rank)) {
        words->has_rank = true;
    }
    if (words->has_rank && read_behind(text, end, "with errorcode ", &words->code)) {
        words->has_code = true;
    }
}

static void take_mpich(struct abort_words *words, const char *text, const char *end)
{
    const char *call = behind(text, end, "application called MPI_Abort(");
    struct abort_words found;

    if (call != NULL && read_behind(call, end, ", ", &found.code) &&
            read_behind(call, end, ") - process ", &found.rank)) {
        *words = (struct abort_words){
            .rank = found.rank, .code = found.code, .has_rank = true, .has_code = true
        };
    }
}

void abort_words_take(struct abort_words *words, const char *text, size_t len)
{
    if (!abort_words_are_complete(words)) {
        take_openmpi(words, text, text + len);
        take_mpich(words, text, text + len);
    }
}

bool abort_words_are_complete(const struct abort_words *words)
{
    return words->has_rank && words->has_code;
}
