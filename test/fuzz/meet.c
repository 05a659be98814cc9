/*
 * A stranger at a session's other end: before the sides have met. The input: what the stranger meets, then all that it says.
 */
#include "launcher/session/meet.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "launcher/session/link.h"

static const char secret[] = "a secret that the stranger does not know";

/* It calls: nothing that it says is a proof. */
static void take_caller(struct session *session)
{
    struct frame frame;
    struct meet_hello hello;

    REQUIRE(meet_challenge(session));
    while (session_next(session, &frame) > 0) {
        REQUIRE(!meet_take_hello(session, &link_protocol, &frame, &hello));
    }
}

/* It is called, and cannot prove who it is. */
static void call(struct session *session)
{
    struct frame frame;

    if (meet_wait(session, 1) == MEET_OK) {
        REQUIRE(meet_join(session, &link_protocol, "body", 4, 1, &frame) != MEET_OK);
    }
}

static void take_texts(struct fuzz_input *input)
{
    struct link_address address;
    char again[LINK_JOIN_MAX];
    char *text;

    text = fuzz_text(input);
    if (link_address_parse(&address, text) == TUTTI_OK) {
        REQUIRE(address.count > 0);
        link_address_format(&address, again);
        REQUIRE(link_address_parse(&address, again) == TUTTI_OK);
    }
    free(text);
}

static void say_all(int fd, struct fuzz_input *input)
{
    REQUIRE(send(fd, input->data, input->size, MSG_NOSIGNAL) == (ssize_t)input->size);
    (void)shutdown(fd, SHUT_WR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    const int how = fuzz_byte(&input) % 3;
    struct session session;
    int fds[2];

    if (how == 2) {
        take_texts(&input);
        return 0;
    }
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    session = session_of(fds[0], secret, strlen(secret));
    if (input.size > 0) {
        say_all(fds[1], &input);
    }
    (void)session_receive(&session);
    if (how == 0) {
        take_caller(&session);
    } else {
        call(&session);
    }
    session_fini(&session);
    (void)close(fds[1]);
    return 0;
}
