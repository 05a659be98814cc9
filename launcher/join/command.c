#include "launcher/join/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/exec/child.h"
#include "launcher/join/join_message.h"

enum {
    INPUT_MAX = 1 << 20 /* bytes of input that wait for a command */
};

static void close_stream(struct command *command, int stream)
{
    loop_close(command->loop, &command->watches[stream], &command->streams[stream]);
}

/* Output is waited for, and room for input when there is some. */
static void watch(struct command *command)
{
    const unsigned in = command->input_len > 0 ? (unsigned)EPOLLOUT : 0U;

    for (int i = 0; i < COMMAND_STREAMS; i++) {
        (void)loop_set(command->loop, &command->watches[i], command->streams[i],
                i == 0 ? in : (unsigned)EPOLLIN);
    }
}

bool command_start(struct command *command, struct loop *loop, uint32_t channel,
        const char *text, size_t len)
{
    struct arguments words = { .items = NULL };
    struct child_plan plan = {
        .program = "/bin/sh", .environment = environ, .output = -1, .is_group = true
    };
    struct child child = { .pid = 0 };
    int in[2];
    bool started;

    *command = (struct command){ .channel = channel, .loop = loop };
    if (pipe2(in, O_CLOEXEC) != 0) {
        return false;
    }
    arguments_add(&words, "sh");
    arguments_add(&words, "-c");
    arguments_add_format(&words, "%.*s", (int)len, text);
    plan.argv = words.items;
    plan.input = in[0];
    started = !words.failed && fcntl(in[1], F_SETFL, O_NONBLOCK) == 0 &&
            child_start(&plan, &child) == TUTTI_OK;
    (void)close(in[0]);
    arguments_fini(&words);
    if (!started) {
        (void)close(in[1]);
        return false;
    }
    command->pid = child.pid;
    command->streams[0] = in[1];
    command->streams[1] = child.out;
    command->streams[2] = child.err;
    (void)close(child.exec_fd); /* a shell that cannot be run ends at once */
    watch(command);
    return true;
}

void command_fini(struct command *command)
{
    for (int i = 0; command->pid > 0 && i < COMMAND_STREAMS; i++) {
        close_stream(command, i);
    }
    mem_free(command->input);
    *command = (struct command){ .pid = 0 };
}

void command_give(struct command *command, const char *bytes, size_t len)
{
    if (len == 0 || command->input_len + len > INPUT_MAX ||
            !mem_grow(&command->input, &command->input_capacity,
                    command->input_len + len, 1)) {
        command->input_ends = true;
        return;
    }
    memcpy(command->input + command->input_len, bytes, len);
    command->input_len += len;
}

void command_note_end(struct command *command, int end)
{
    command->has_ended = true;
    command->status = WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
    close_stream(command, 0);
}

bool command_is_over(const struct command *command)
{
    return command->has_ended && command->streams[1] < 0 && command->streams[2] < 0;
}

void command_kill(const struct command *command, int number)
{
    if (!command->has_ended) {
        (void)kill(-command->pid, number);
    }
}

static void relay_output(struct command *command, int stream, struct session *session)
{
    static char bytes[JOIN_READ_MAX];
    ssize_t got = read(command->streams[stream], bytes, sizeof bytes);
    struct join_message frame = {
        .type = JOIN_OUTPUT,
        .channel = command->channel,
        .value = (uint32_t)stream,
        .bytes = bytes,
    };

    if (got > 0) {
        frame.len = (size_t)got;
        (void)join_send(session, &frame);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_stream(command, stream);
    }
}

static void write_input(struct command *command, struct session *session)
{
    const struct join_message more = { .type = JOIN_INPUT,
        .channel = command->channel };
    ssize_t wrote = 0;

    if (command->input_len > 0) {
        wrote = write(command->streams[0], command->input, command->input_len);
    }
    if (wrote < 0 && errno != EAGAIN && errno != EINTR) {
        close_stream(command, 0);
        return;
    }
    if (wrote > 0) {
        command->input_len -= (size_t)wrote;
        memmove(command->input, command->input + wrote, command->input_len);
        if (command->input_len == 0) {
            (void)join_send(session, &more);
        }
    }
    if (command->input_ends && command->input_len == 0) {
        close_stream(command, 0);
    }
}

void command_relay(struct command *command, struct session *session)
{
    if (command->streams[0] >= 0) {
        write_input(command, session);
    }
    for (int i = 1; i < COMMAND_STREAMS; i++) {
        if (command->streams[i] >= 0) {
            relay_output(command, i, session);
        }
    }
    watch(command);
}
