/*
 * The sides of a session meet, and attackers do not.
 */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "launcher/session/meet.h"
#include "test/unit/unit.h"

static const int64_t patience_ns = 240000000000;
static const struct meet_protocol protocol = { .name = "test" };

/* Who connects, in a thread of its own, and who is at the other end. */
struct play {
    struct session host;
    pthread_t thread;
    enum meet_outcome outcome; /* for the host */
    struct frame answer; /* that it had   */
    struct session first; /* the other end */
    struct frame frame; /* what the host said last */
};

static void *run_host(void *context)
{
    struct play *play = context;
    const int64_t deadline = clock_ns() + patience_ns;

    play->outcome = meet_wait(&play->host, deadline);
    if (play->outcome == MEET_OK) {
        play->outcome =
                meet_join(&play->host, &protocol, "body", 4, deadline, &play->answer);
    }
    return NULL;
}

/* Waits for what the host says. */
static void hear_host(struct play *play)
{
    assert_int_equal(
            session_wait(&play->first, clock_ns() + patience_ns, &play->frame), 1);
}

/* The host with its secret gets a challenge of one who has `firsts`, and says HELLO. */
static void begin(struct play *play, const char *secret, const char *firsts)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *play = (struct play){
        .host = session_of(fds[0], secret, strlen(secret)),
        .first = session_of(fds[1], firsts, strlen(firsts)),
    };
    assert_true(meet_challenge(&play->first));
    assert_true(session_send_all(&play->first));
    assert_int_equal(pthread_create(&play->thread, NULL, run_host, play), 0);
    hear_host(play);
    assert_int_equal(play->frame.type, FRAME_HELLO);
}

static bool is_proven(struct play *play, const struct frame *frame)
{
    struct meet_hello hello;

    return meet_take_hello(&play->first, &protocol, frame, &hello);
}

static void say_welcome(struct play *play, const char *body)
{
    meet_welcome(&play->first, &protocol, body, strlen(body));
    assert_true(session_send_all(&play->first));
}

/* What the host makes of the answer. */
static enum meet_outcome end(struct play *play)
{
    assert_int_equal(pthread_join(play->thread, NULL), 0);
    return play->outcome;
}

static void close_ends(struct play *play)
{
    session_fini(&play->host);
    session_fini(&play->first);
}

UNIT_TEST(test_who_has_the_secret_is_met)
{
    struct meet_hello hello;
    struct play play;

    begin(&play, "the secret", "the secret");
    assert_true(meet_take_hello(&play.first, &protocol, &play.frame, &hello));
    assert_memory_equal(hello.release, tutti_version(), hello.release_len);
    assert_int_equal(wire_left(&hello.in), 4);
    assert_memory_equal(wire_get_bytes(&hello.in, 4), "body", 4);
    say_welcome(&play, "");
    assert_int_equal(end(&play), MEET_OK);
    session_put(&play.first, FRAME_OWN, "true", 4);
    assert_true(session_send_all(&play.first));
    assert_true(session_receive(&play.host));
    assert_int_equal(session_next(&play.host, &play.frame), 1);
    session_put(&play.host, FRAME_OWN, "true", 4);
    assert_true(session_send_all(&play.host));
    hear_host(&play);
    close_ends(&play);
}

UNIT_TEST(test_a_host_without_the_secret_is_not_proven)
{
    struct play play;

    begin(&play, "another", "the secret");
    assert_false(is_proven(&play, &play.frame));
    session_put(&play.first, FRAME_REFUSAL, "no", 2);
    assert_true(session_send_all(&play.first));
    assert_int_equal(end(&play), MEET_REFUSED);
    assert_memory_equal(play.answer.body, "no", 2);
    close_ends(&play);
}

/* One who saw a host join says the same to the first host, changed or not. */
UNIT_TEST(test_a_hello_is_good_once_and_as_it_was)
{
    static const struct meet_protocol other = { .name = "other" };
    struct meet_hello hello;
    uint8_t bytes[256];
    struct frame said = { .type = FRAME_HELLO, .body = bytes };
    struct play play;

    begin(&play, "the secret", "the secret");
    assert_true(play.frame.len <= sizeof bytes);
    memcpy(bytes, play.frame.body, play.frame.len);
    for (said.len = 0; said.len < play.frame.len; said.len++) {
        assert_false(is_proven(&play, &said));
    }
    assert_true(is_proven(&play, &said));
    assert_false(meet_take_hello(&play.first, &other, &said, &hello));
    for (size_t i = 0; i < said.len; i++) {
        bytes[i] ^= 1;
        assert_false(is_proven(&play, &said));
        bytes[i] ^= 1;
    }
    assert_true(is_proven(&play, &said));
    say_welcome(&play, "");
    assert_int_equal(end(&play), MEET_OK);
    assert_int_equal(proof_nonce(play.first.exchange.challenge), TUTTI_OK);
    assert_false(is_proven(&play, &said));
    close_ends(&play);
}

/* What the first host says is as proven as that it knows the secret. */
UNIT_TEST(test_a_welcome_is_as_it_was)
{
    for (int changed = 0; changed < 2; changed++) {
        struct play play;

        begin(&play, "the secret", "the secret");
        assert_true(is_proven(&play, &play.frame));
        meet_welcome(&play.first, &protocol, "stop: 9", 7);
        play.first.out.data[4 + 1 + 6] ^= changed != 0 ? 1 : 0;
        assert_true(session_send_all(&play.first));
        assert_int_equal(end(&play), changed != 0 ? MEET_UNPROVEN : MEET_OK);
        close_ends(&play);
    }
}

/* Who answers first and does not know the secret: what he may say instead of WELCOME. */
UNIT_TEST(test_an_impostor_is_not_obeyed)
{
    static uint8_t recorded[PROOF_BYTES]; /* of a first host, in another exchange */

    for (int way = 0; way < 4; way++) {
        struct play play;

        begin(&play, "the secret", "another");
        if (way == 0) {
            struct proof_exchange exchange = play.host.exchange;

            exchange.challenge[0] ^= 1;
            proof_make(&exchange, "tutti test 4, who accepted", NULL, 0, recorded);
            session_put(&play.first, FRAME_WELCOME, recorded, sizeof recorded);
        } else if (way == 1) { /* the host's own proof */
            session_put(&play.first, FRAME_WELCOME,
                    play.frame.body + play.frame.len - PROOF_BYTES, PROOF_BYTES);
        } else if (way == 2) {
            session_put(&play.first, FRAME_WELCOME, NULL, 0);
        } else {
            session_put(&play.first, FRAME_OWN, "true", 4);
        }
        assert_true(session_send_all(&play.first));
        assert_int_equal(end(&play), way == 3 ? MEET_OTHER : MEET_UNPROVEN);
        close_ends(&play);
    }
}

/* What had the port before, or a tuttirun of another version. */
UNIT_TEST(test_others_are_no_first_host)
{
    static const char nonce[] = "0123456789abcdef0123456789abcdef";

    for (int way = 0; way < 4; way++) {
        struct session first;
        struct session host;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        host = session_of(fds[0], "", 0);
        first = session_of(fds[1], "", 0);
        if (way == 1) {
            session_put(&first, FRAME_REFUSAL, NULL, 0);
        } else if (way > 1) {
            size_t start = session_begin(&first, FRAME_CHALLENGE);

            wire_put_u32(&first.out, way == 2 ? MEET_VERSION - 1 : MEET_VERSION);
            wire_put_bytes(&first.out, nonce, PROOF_NONCE_BYTES - (way == 3 ? 1 : 0));
            session_end(&first, start);
        }
        assert_true(session_send_all(&first));
        session_fini(&first);
        assert_int_equal(meet_wait(&host, clock_ns() + patience_ns),
                way == 0           ? MEET_CLOSED
                        : way == 1 ? MEET_REFUSED
                                   : MEET_OTHER);
        session_fini(&host);
    }
}
