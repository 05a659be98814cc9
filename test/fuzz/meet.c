/*
 * A stranger at a session's other end: before the sides have met, and in the protocol of hosts
 * that join. The input: what the stranger meets, then all that it says.
 */
#include "launcher/session/meet.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "launcher/join/join_message.h"
#include "launcher/session/link.h"

static const char secret[] = "a secret that the stranger does not know";

/* It calls: nothing that it says is a proof. */
static void take_caller(struct session *session)
{
    struct frame frame;
    struct meet_hello hello;

    REQUIRE(meet_challenge(session));
    while (session_next(session, &frame) > 0) {
        REQUIRE(!meet_take_hello(session, &join_protocol, &frame, &hello));
    }
}

/* It is called, and cannot prove who it is. */
static void call(struct session *session)
{
    struct frame frame;

    if (meet_wait(session, 1) == MEET_OK) {
        REQUIRE(meet_join(session, &join_protocol, "body", 4, 1, &frame) != MEET_OK);
    }
}

/* It is one of those that have met, of a protocol without a seal. */
static void take_friend(struct session *session)
{
    struct join_message message;
    int got = 1;

    for (int i = 0; i < 64 && got > 0; i++) {
        got = join_next(session, &message);
        REQUIRE(got <= 0 || message.len == 0 || message.bytes != NULL);
    }
}

static void take_texts(struct fuzz_input *input)
{
    char texts[JOIN_HELLO_TEXTS_MAX];
    struct join_hello hello;
    struct link_address address;
    char again[LINK_JOIN_MAX];
    struct wire_reader in;
    char *text;

    wire_reader_init(&in, input->data, input->size);
    if (join_get_hello(&in, &hello, texts)) {
        REQUIRE(strlen(hello.key) + strlen(hello.name) < sizeof texts);
    }
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
    const int how = fuzz_byte(&input) % 4;
    struct session session;
    int fds[2];

    if (how == 3) {
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
    } else if (how == 1) {
        call(&session);
    } else {
        take_friend(&session);
    }
    session_fini(&session);
    (void)close(fds[1]);
    return 0;
}
