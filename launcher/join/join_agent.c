/*
 * The agent: what an MPI launcher runs in place of ssh. Hands the words to the hub, and then
 * input, output and exit status on.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/join/join.h"
#include "launcher/join/join_message.h"
#include "launcher/signals.h"

enum {
    AGENT_FAILED = 255 /* as ssh has it */
};

static int open_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd >= 0 &&
            connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool send_words(struct session *session, char *const *words)
{
    struct wire_writer out = { .data = NULL };
    struct join_message message = { .type = JOIN_RUN };
    bool sent;

    for (; *words != NULL; words++) {
        wire_put_bytes(&out, *words, strlen(*words) + 1);
    }
    message.bytes = (const char *)out.data;
    message.len = out.len;
    sent = !out.failed && join_send(session, &message);
    wire_writer_fini(&out);
    return sent;
}

/* Hands on what is there of our input; false at its end. */
static bool relay_input(struct session *session)
{
    static char bytes[JOIN_READ_MAX];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    struct join_message message = { .type = JOIN_INPUT, .bytes = bytes };

    if (got < 0 && errno == EINTR) {
        return true;
    }
    message.len = got > 0 ? (size_t)got : 0;
    return join_send(session, &message) && got > 0;
}

static void write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(fd, bytes, len);

        if (wrote < 0 && errno != EINTR) {
            return;
        }
        if (wrote > 0) {
            bytes += wrote;
            len -= (size_t)wrote;
        }
    }
}

/* Becomes the command, on this host. */
static int become(const struct join_message *message)
{
    char *text = mem_alloc(message->len + 1);
    char name[] = "sh";
    char flag[] = "-c";
    char *words[] = { name, flag, text, NULL };

    if (text != NULL) {
        memcpy(text, message->bytes, message->len);
        text[message->len] = '\0';
        signals_restore();
        (void)execve("/bin/sh", words, environ);
    }
    mem_free(text);
    return AGENT_FAILED;
}

/*
 * Prints what came; the exit status once the command has ended, else -1. Input is not
 * touched before it is known who reads it, nor before what was sent of it is taken.
 */
static int take_frames(struct session *session, bool *wants_input)
{
    struct join_message message;
    int got = join_next(session, &message);

    for (; got > 0; got = join_next(session, &message)) {
        if (message.type == JOIN_RUN && message.len > 0) {
            return become(&message);
        }
        if (message.type == JOIN_RUN || message.type == JOIN_INPUT) {
            *wants_input = true;
        } else if (message.type == JOIN_OUTPUT) {
            write_all(message.value == 2 ? STDERR_FILENO : STDOUT_FILENO, message.bytes,
                    message.len);
        } else if (message.type == JOIN_ENDED) {
            return (int)(message.value & 0xff);
        }
    }
    return got < 0 ? AGENT_FAILED : -1;
}

/* Until the command has ended; its exit status. */
static int relay(struct session *session, struct loop *loop)
{
    struct loop_watch input = { .events = 0 };
    bool has_input = true;
    bool wants_input = false;
    int status = -1;

    while (status < 0) {
        (void)loop_set(loop, &input, STDIN_FILENO,
                wants_input && has_input ? (unsigned)EPOLLIN : 0U);
        (void)loop_wait(loop, INT64_MAX);
        if (input.ready != 0) {
            has_input = relay_input(session);
            wants_input = false;
        }
        if (session->watch.ready != 0) {
            status = session_receive(session) ? take_frames(session, &wants_input)
                                              : AGENT_FAILED;
        }
    }
    return status;
}

int join_agent(char *const *argv)
{
    struct session session =
            session_of(argv[0] == NULL ? -1 : open_socket(argv[0]), NULL, 0);
    struct loop loop = { .epoll = -1 };
    int status = AGENT_FAILED;

    if (session_is_lost(&session)) {
        (void)fprintf(stderr,
                "tuttirun: --join-agent is for the engine of a running job whose hosts "
                "have joined; this job has ended\n");
        return AGENT_FAILED;
    }
    if (loop_init(&loop) == TUTTI_OK && session_attach(&session, &loop, NULL, NULL) &&
            send_words(&session, argv + 1)) {
        status = relay(&session, &loop);
    }
    session_fini(&session);
    loop_fini(&loop);
    return status;
}
