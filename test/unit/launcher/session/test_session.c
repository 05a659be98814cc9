/*
 * What sessions are made of: digests and proofs, addresses, frames and the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "base/clock.h"
#include "launcher/session/link.h"
#include "launcher/session/loop.h"
#include "launcher/session/proof.h"
#include "launcher/session/session.h"
#include "launcher/session/sockets.h"
#include "test/unit/launcher/cases.h"

static void show_digest(const uint8_t digest[SHA256_BYTES], char *out)
{
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
    }
}

UNIT_CASES(test_digests, "SHA-256")
{
    char *fields[CASES_FIELDS];
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;

    assert_int_equal(cases_fields(in, fields), 2);
    sha256_init(&hash);
    for (long i = strtol(fields[1], NULL, 10); i > 0; i--) {
        sha256_add(&hash, fields[0], strlen(fields[0]));
    }
    sha256_end(&hash, digest);
    show_digest(digest, out);
}

/* All ways in which an end fits its block; the digest of digests is from Python. */
UNIT_TEST(test_digests_of_messages_of_any_length)
{
    struct sha256 all;
    uint8_t message[130];
    uint8_t digest[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];

    sha256_init(&all);
    for (size_t i = 0; i < sizeof message; i++) {
        struct sha256 one;

        message[i] = (uint8_t)i;
        sha256_init(&one);
        sha256_add(&one, message, i / 3);
        sha256_add(&one, message + i / 3, i - i / 3);
        sha256_end(&one, digest);
        sha256_add(&all, digest, sizeof digest);
    }
    sha256_end(&all, digest);
    show_digest(digest, text);
    assert_string_equal(
            text, "105812602bb337abca31d9f6bf3a57a3907500005fad7c01e1e1140aa77e4499");
}

UNIT_CASES(test_macs, "HMAC-SHA-256")
{
    char *fields[CASES_FIELDS];
    uint8_t mac[SHA256_BYTES];
    uint8_t key[131];
    struct hmac hmac;
    bool is_text;

    assert_int_equal(cases_fields(in, fields), 3);
    is_text = fields[0][0] == '\0';
    memset(key, (int)strtol(fields[0], NULL, 16), sizeof key);
    hmac_init(
            &hmac, is_text ? (const void *)"Jefe" : key, strtoul(fields[1], NULL, 10));
    hmac_add(&hmac, fields[2], strlen(fields[2]));
    hmac_end(&hmac, mac);
    show_digest(mac, out);
}

#define OURS "who connected"
#define THEIRS "who accepted"

/* True when the proof of `other` passes for that of the exchange all tests have. */
static bool passes(
        const struct proof_exchange *other, const char *label, const char *text)
{
    static const struct proof_exchange exchange = {
        .secret = "a secret", .secret_len = 8, .challenge = { 1, 2 }, .answer = { 3 }
    };
    uint8_t expected[PROOF_BYTES];
    uint8_t proof[PROOF_BYTES];

    proof_make(&exchange, OURS, "text", 4, expected);
    proof_make(other, label, text, strlen(text), proof);
    return proof_is(proof, sizeof proof, expected);
}

UNIT_TEST(test_only_the_same_exchange_passes)
{
    const struct proof_exchange same = {
        .secret = "a secret", .secret_len = 8, .challenge = { 1, 2 }, .answer = { 3 }
    };
    struct proof_exchange other = same;

    assert_true(passes(&same, OURS, "text"));
    assert_false(passes(&same, THEIRS, "text")); /* reflected */
    assert_false(passes(&same, OURS, "tex"));
    other.secret_len = 7;
    assert_false(passes(&other, OURS, "text"));
    other = same;
    other.secret = "b secret";
    assert_false(passes(&other, OURS, "text"));
    other = same;
    other.challenge[31] = 1; /* replayed */
    assert_false(passes(&other, OURS, "text"));
    other = (struct proof_exchange){
        .secret = "a secret", .secret_len = 8, .challenge = { 3 }, .answer = { 1, 2 }
    };
    assert_false(passes(&other, OURS, "text"));
}

UNIT_TEST(test_proofs_are_compared_whole)
{
    uint8_t proof[PROOF_BYTES] = { 1 };
    uint8_t other[PROOF_BYTES];

    assert_true(proof_is(proof, sizeof proof, proof));
    assert_false(proof_is(proof, sizeof proof - 1, proof));
    assert_false(proof_is(proof, 0, proof));
    for (size_t i = 0; i < sizeof other; i++) {
        memcpy(other, proof, sizeof other);
        other[i] ^= 0x80;
        assert_false(proof_is(other, sizeof other, proof));
    }
}

UNIT_TEST(test_nonces_are_fresh)
{
    uint8_t first[PROOF_NONCE_BYTES] = { 0 };
    uint8_t second[PROOF_NONCE_BYTES] = { 0 };

    assert_int_equal(proof_nonce(first), TUTTI_OK);
    assert_int_equal(proof_nonce(second), TUTTI_OK);
    assert_memory_not_equal(first, second, sizeof first);
}

#define TOKEN "0123456789abcdef0123456789abcdef"

UNIT_CASES(test_addresses, "addresses")
{
    struct link_address address = { .port = 7 };
    char text[LINK_JOIN_MAX];

    (void)snprintf(text, sizeof text, TOKEN " %s", in);
    if (link_address_parse(&address, text) != TUTTI_OK) {
        assert_null(strstr(tutti_last_error(), TOKEN));
        assert_non_null(strstr(tutti_last_error(), LINK_VARIABLE));
        assert_int_equal(address.port, 7);
        (void)strcpy(out, "!malformed");
        return;
    }
    assert_string_equal(address.token, TOKEN);
    for (size_t i = 0; i < address.count; i++) {
        out += sprintf(out, "%s ", address.addresses[i]);
    }
    (void)sprintf(out, "port %d", address.port);
    in = strdup(text);
    link_address_format(&address, text);
    assert_string_equal(text, in);
    free(in);
}

/* Two ends of a connection. */
static void connect_ends(struct session *end, struct session *other)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *end = (struct session){ .fd = fds[0] };
    *other = (struct session){ .fd = fds[1] };
}

/* In pieces they are whole with the last. */
UNIT_CASES(test_frames, "frames")
{
    struct session end, other;
    struct frame got;
    int result;

    connect_ends(&end, &other);
    for (size_t i = 0; i < len; i++) {
        result = session_next(&end, &got);
        assert_true(result == 0 || result == -1);
        assert_int_equal(write(other.fd, in + i, 1), 1);
        assert_true(session_receive(&end));
    }
    result = session_next(&end, &got);
    assert_int_not_equal(result, 0);
    (void)strcpy(out, "malformed");
    if (result > 0) {
        (void)sprintf(out, "%d %.*s", got.type, (int)got.len, (const char *)got.body);
    }
    session_fini(&other);
    session_fini(&end);
}

/* Two ends with keys as hosts that have met have them. */
/* A pipe that is watched, and what closes another when it is called. */
struct one {
    struct loop *loop;
    struct loop_watch watch;
    int fds[2];
    struct one *closes; /* NULL: none */
    int calls;
};

static void on_ready(void *context, unsigned ready)
{
    struct one *one = context;

    assert_int_not_equal(ready & (unsigned)EPOLLIN, 0);
    one->calls++;
    if (one->closes != NULL) {
        loop_close(one->loop, &one->closes->watch, &one->closes->fds[0]);
    }
}

static void open_one(struct one *one, struct loop *loop)
{
    *one = (struct one){ .loop = loop };
    one->watch = (struct loop_watch){ .call = on_ready, .context = one };
    assert_int_equal(pipe2(one->fds, O_CLOEXEC), 0);
    assert_true(loop_set(loop, &one->watch, one->fds[0], EPOLLIN));
}

static void close_one(struct one *one)
{
    loop_close(one->loop, &one->watch, &one->fds[0]);
    (void)close(one->fds[1]);
}

UNIT_TEST(test_who_is_ready_is_called)
{
    struct loop loop;
    struct one a;
    struct one b;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&a, &loop);
    open_one(&b, &loop);
    loop_turn(&loop, clock_ns());
    assert_int_equal(a.calls + b.calls, 0);
    assert_int_equal(write(b.fds[1], "x", 1), 1);
    loop_turn(&loop, INT64_MAX);
    assert_int_equal(a.calls, 0);
    assert_int_equal(b.calls, 1);
    assert_true(loop_set(&loop, &b.watch, b.fds[0], 0));
    loop_turn(&loop, clock_ns());
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.watch.ready, 0);
    close_one(&a);
    close_one(&b);
    loop_fini(&loop);
}

/* Both are ready at once, and the first that is called closes the other. */
UNIT_TEST(test_who_has_gone_is_not_called)
{
    struct loop loop;
    struct one a;
    struct one b;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&a, &loop);
    open_one(&b, &loop);
    a.closes = &b;
    b.closes = &a;
    assert_int_equal(write(a.fds[1], "x", 1), 1);
    assert_int_equal(write(b.fds[1], "x", 1), 1);
    loop_turn(&loop, INT64_MAX);
    assert_int_equal(a.calls + b.calls, 1);
    close_one(&a);
    close_one(&b);
    loop_fini(&loop);
}

/* By time, after all that is ready, once. */
UNIT_TEST(test_who_is_due_is_called)
{
    struct loop loop;
    struct one one, other;
    struct loop_watch *watch;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&one, &loop);
    open_one(&other, &loop);
    loop_set_due(&loop, &one.watch, 2);
    loop_set_due(&loop, &other.watch, INT64_MAX - 1);
    assert_int_equal(write(other.fds[1], "x", 1), 1);
    (void)loop_wait(&loop, INT64_MAX);
    assert_ptr_equal(loop_next(&loop), &other.watch);
    watch = loop_next(&loop);
    assert_ptr_equal(watch, &one.watch);
    assert_int_equal(watch->ready, 0);
    assert_null(loop_next(&loop));
    loop_set_due(&loop, &one.watch, 1);
    assert_true(loop_set(&loop, &one.watch, one.fds[0], 0)); /* it is about to go */
    assert_null(loop_next(&loop));
    close_one(&one);
    close_one(&other);
    loop_fini(&loop);
}

/* epoll refuses files, and what is read may be one. */
UNIT_TEST(test_a_file_is_always_ready)
{
    struct loop loop;
    struct one a;

    assert_int_equal(loop_init(&loop), TUTTI_OK);
    open_one(&a, &loop);
    close_one(&a);
    a.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(loop_set(&loop, &a.watch, a.fds[0], EPOLLIN));
    loop_turn(&loop, INT64_MAX);
    loop_turn(&loop, INT64_MAX);
    assert_int_equal(a.calls, 2);
    loop_close(&loop, &a.watch, &a.fds[0]);
    loop_turn(&loop, clock_ns());
    assert_int_equal(a.calls, 2);
    loop_fini(&loop);
}

UNIT_TEST(test_addresses_without_a_whole_token)
{
    struct link_address address;

    assert_int_equal(link_address_parse(&address, TOKEN), TUTTI_ERR_INVALID);
    assert_int_equal(
            link_address_parse(&address, TOKEN "0 10.0.0.1 80"), TUTTI_ERR_INVALID);
    assert_int_equal(
            link_address_parse(&address, "short 10.0.0.1 80"), TUTTI_ERR_INVALID);
}

UNIT_TEST(test_a_port_that_is_taken)
{
    uint16_t port = 0;
    int listener = listen_anywhere(&port);
    uint16_t same = port;

    assert_true(listener >= 0);
    assert_int_equal(listen_anywhere(&same), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(same, port);
    (void)close(listener);
}
