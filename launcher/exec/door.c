#include "launcher/exec/door.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/passing.h"
#include "boot/session.h"
#include "launcher/arguments.h"
#include "launcher/exec/uplink.h"

const struct door door_none = { .fd = -1, .inherited = -1, .session.fd = -1 };

void door_open(struct door *door, struct arguments *environment)
{
    struct stat about;
    char text[64];
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return;
    }
    door->fd = ends[0];
    door->inherited = ends[1];
    /* Inherited over exec on purpose: the program finds it by its number. */
    if (fcntl(ends[1], F_SETFD, 0) == 0 && fstat(ends[1], &about) == 0) {
        (void)snprintf(text, sizeof text, "%d %llu", ends[1],
                (unsigned long long)about.st_ino);
        arguments_set(environment, BOOT_SESSION_VARIABLE, text);
    }
}

/* What it gave does not count any more. */
static void lose_process(struct door *door)
{
    if (door->has_given) {
        link_put(uplink_out(door->uplink),
                &(struct link_message){
                        .type = LINK_GIVE, .give = { .is_withdrawn = true } });
    }
    door->has_given = false;
    session_fini(&door->session);
}

static bool take(struct door *door, const struct frame *frame)
{
    struct link_message message = { .type = LINK_MORE };
    struct wire_reader in;

    wire_reader_init(&in, frame->body, frame->len);
    if (frame->type == BOOT_GIVE) {
        message.type = LINK_GIVE;
        message.give.bytes.text =
                wire_get_str(&in, BOOT_SESSION_BYTES_MAX, &message.give.bytes.len);
        door->has_given = true;
    } else {
        message.more = wire_get_u64(&in);
    }
    if (!wire_ok(&in) || (frame->type != BOOT_GIVE && frame->type != BOOT_MORE)) {
        return false;
    }
    link_put(uplink_out(door->uplink), &message);
    return true;
}

static void hear(void *context, unsigned ready)
{
    struct door *door = context;
    bool lives = session_receive(&door->session);
    struct frame frame;

    (void)ready;
    while (session_next(&door->session, &frame) > 0) {
        lives = take(door, &frame) && lives;
    }
    if (!lives || !session_send(&door->session)) {
        lose_process(door);
    }
}

static void send_place(struct door *door)
{
    const struct rank_place *rank = &door->uplink->rank;
    struct wire_writer *out = &door->session.out;
    const size_t start = session_begin(&door->session, BOOT_PLACE);

    wire_put_svarint(out, rank->rank);
    wire_put_svarint(out, rank->size);
    session_end(&door->session, start);
}

/* A process that starts, of which there is one at a time. */
static void admit(void *context, unsigned ready)
{
    struct door *door = context;
    char byte;
    int fd;
    const ssize_t got =
            passing_receive(door->fd, &byte, sizeof byte, MSG_DONTWAIT, &fd, NULL);

    (void)ready;
    if (got == 0) {
        loop_close(door->loop, &door->watch, &door->fd);
    }
    if (fd < 0) {
        return;
    }
    door_fail(door, link_text_of("another process of this rank has started"));
    lose_process(door);
    door->session = session_of(fd, NULL, 0);
    send_place(door);
    if (!session_attach(&door->session, door->loop, hear, door) ||
            !session_send(&door->session)) {
        lose_process(door);
    }
}

void door_begin(struct door *door, struct loop *loop, struct uplink *uplink)
{
    door->loop = loop;
    door->uplink = uplink;
    door->watch = (struct loop_watch){ .call = admit, .context = door };
    if (door->fd >= 0) {
        (void)loop_set(loop, &door->watch, door->fd, EPOLLIN);
    }
}

void door_fini(struct door *door)
{
    session_fini(&door->session);
    loop_close(door->loop, &door->watch, &door->fd);
    fd_close(&door->inherited);
}

void door_answer(struct door *door, const struct link_message *message)
{
    const bool is_part = message->type == LINK_PART;
    size_t start;

    if (session_is_lost(&door->session) || !door->has_given) {
        return;
    }
    door->has_given = is_part &&
            message->part.offset + message->part.bytes.len < message->part.total;
    start = session_begin(&door->session, is_part ? BOOT_PART : BOOT_FAILED);
    link_put_body(&door->session.out, message); /* the same fields in the same order */
    session_end(&door->session, start);
    if (!session_send(&door->session)) {
        lose_process(door);
    }
}

void door_fail(struct door *door, struct link_text why)
{
    door_answer(door, &(struct link_message){ .type = LINK_UNMET, .unmet = why });
}
