/*
 * The agent: what an engine runs in place of ssh. Hands the words to the hub, and then
 * input, output and exit status on.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/join/frame.h"
#include "launcher/join/join.h"

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

static bool send_words(int fd, char *const *words)
{
    struct wire_writer out = { .data = NULL };
    struct frame frame = { .type = FRAME_RUN };
    bool sent;

    for (; *words != NULL; words++) {
        wire_put_bytes(&out, *words, strlen(*words) + 1);
    }
    frame.bytes = (const char *)out.data;
    frame.len = out.len;
    sent = !out.failed && frame_send(fd, &frame);
    wire_writer_fini(&out);
    return sent;
}

/* Hands on what is there of our input; false at its end. */
static bool relay_input(int fd)
{
    static char bytes[FRAME_READ_MAX];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    struct frame frame = { .type = FRAME_INPUT, .bytes = bytes };

    if (got < 0 && errno == EINTR) {
        return true;
    }
    frame.len = got > 0 ? (size_t)got : 0;
    return frame_send(fd, &frame) && got > 0;
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

/* Prints what came; the exit status once the command has ended, else -1. */
static int take_frames(struct frame_end *end)
{
    struct frame frame;
    int got = frame_next(end, &frame);

    for (; got > 0; got = frame_next(end, &frame)) {
        if (frame.type == FRAME_OUTPUT) {
            write_all(frame.value == 2 ? STDERR_FILENO : STDOUT_FILENO, frame.bytes,
                    frame.len);
        } else if (frame.type == FRAME_ENDED) {
            return (int)(frame.value & 0xff);
        }
    }
    return got < 0 ? AGENT_FAILED : -1;
}

static int relay(struct frame_end *end)
{
    bool has_input = true;
    int status = -1;

    while (status < 0) {
        struct pollfd polls[] = {
            { .fd = end->fd, .events = POLLIN },
            { .fd = has_input ? STDIN_FILENO : -1, .events = POLLIN },
        };

        if (poll(polls, 2, -1) < 0 && errno != EINTR) {
            return AGENT_FAILED;
        }
        if (polls[1].revents != 0) {
            has_input = relay_input(end->fd);
        }
        if (polls[0].revents != 0) {
            if (frame_receive(end) != TUTTI_OK) {
                return AGENT_FAILED;
            }
            status = take_frames(end);
        }
    }
    return status;
}

int join_agent(char *const *argv)
{
    struct frame_end end = { .fd = argv[0] == NULL ? -1 : open_socket(argv[0]) };
    int status = AGENT_FAILED;

    if (end.fd < 0) {
        (void)fprintf(stderr,
                "tuttirun: --join-agent is for the engine of a running job whose hosts "
                "have joined; this job has ended\n");
        return AGENT_FAILED;
    }
    if (send_words(end.fd, argv + 1)) {
        status = relay(&end);
    }
    frame_end_fini(&end);
    return status;
}
