/*
 * The HTTP server: what it understands, and whom it drops.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/session/http.h"
#include "test/unit/unit.h"

UNIT_TEST(test_requests)
{
    static const struct {
        const char *text;
        enum http_verdict verdict;
        const char *path, *host;
    } cases[] = {
        { "GET / HTTP/1.1\r\n\r\n", HTTP_OK, "/", "" },
        { "GET /a?b=c HTTP/1.0\nhOst:  x:80\n\n", HTTP_OK, "/a", "x" },
        { "HEAD /m HTTP/1.1\r\nHost: [::1]:80\r\nA: b\r\n\r\n", HTTP_OK, "/m",
                "[::1]" },
        { "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", HTTP_OK, "/", "[::1]" },
        { "GET / HTTP/1.1\r\nHost: a\r\n", HTTP_MORE, NULL, NULL },
        { "GET / HTTP/1.1", HTTP_MORE, NULL, NULL },
        { "POST / HTTP/1.1\r\n\r\n", HTTP_NO_METHOD, NULL, NULL },
        { "GET http://a/ HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL },
        { "GET /\r\n\r\n", HTTP_BAD, NULL, NULL },
        { "GET / FTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL },
        { "GET /\x01 HTTP/1.1\r\n\r\n", HTTP_BAD, NULL, NULL },
        { "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HTTP_BAD, NULL, NULL },
        { "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", HTTP_BAD, NULL, NULL },
        { "\r\n\r\n", HTTP_BAD, NULL, NULL },
    };
    static char many[HTTP_REQUEST_MAX];
    struct http_request request;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const enum http_verdict verdict =
                http_parse(cases[i].text, strlen(cases[i].text), &request);

        if (verdict != cases[i].verdict) {
            fail_msg("%s: %d", cases[i].text, (int)verdict);
        }
        if (verdict == HTTP_OK) {
            assert_string_equal(request.path, cases[i].path);
            assert_string_equal(request.host, cases[i].host);
            assert_int_equal(request.head, cases[i].text[0] == 'H');
        }
    }
    memset(many, 'a', sizeof many);
    assert_int_equal(http_parse(many, sizeof many, &request), HTTP_TOO_LONG);
}

/* -------------------------------------------------------------- over sockets */

static struct http_server server;
static struct loop loop;
static struct sockaddr_in address;

static bool say_long(void *owner, const char *path, struct http_answer *answer)
{
    static char block[1 << 16];

    (void)owner;
    for (int i = 0; strcmp(path, "/long") == 0 && i < 96; i++) {
        wire_put_bytes(answer->body, block, sizeof block);
    }
    wire_put_bytes(answer->body, "text", 4);
    return strcmp(path, "/none") != 0;
}

static int open_server(void **state)
{
    (void)state;
    server.answer = say_long;
    assert_int_equal(loop_init(&loop), TUTTI_OK);
    assert_int_equal(http_open(&server, &loop, "127.0.0.1", 0), TUTTI_OK);
    address = (struct sockaddr_in){ .sin_family = AF_INET,
        .sin_port = htons((uint16_t)http_port(&server)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    http_close(&server);
    loop_fini(&loop);
    return 0;
}

static int call(const char *request)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
    return fd;
}

static size_t clients(void)
{
    size_t count = 0;

    for (int i = 0; i < HTTP_CLIENTS; i++) {
        count += server.clients[i].fd >= 0;
    }
    return count;
}

/* Lets the server work until it has nothing to do. */
static void serve(void)
{
    while (loop_turn(&loop, clock_ns() + 1000000) > 0) {
    }
}

/* Reads to the end; the answer's beginning is kept. */
static size_t read_all(int fd, char head[512])
{
    size_t len = 0;
    char rest[1 << 16];
    ssize_t got;

    memset(head, 0, 512);
    serve();
    while ((got = recv(fd, len < 511 ? head + len : rest,
                    len < 511 ? 511 - len : sizeof rest, 0)) > 0) {
        len += (size_t)got;
        serve();
    }
    (void)close(fd);
    return len;
}

#define TEST(name) UNIT_TEST_WITH(name, open_server, close_server)

TEST(test_answers)
{
    char head[512];

    assert_true(
            read_all(call("GET / HTTP/1.1\r\nHost: localhost:9\r\n\r\n"), head) > 0);
    assert_non_null(strstr(head, "200 OK"));
    assert_non_null(strstr(head, "Content-Length: 4\r\n"));
    assert_string_equal(head + strlen(head) - 8, "\r\n\r\ntext");
    (void)read_all(call("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"), head);
    assert_string_equal(head + strlen(head) - 4, "\r\n\r\n");
    (void)read_all(call("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"), head);
    assert_non_null(strstr(head, "404 "));
    (void)read_all(call("GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"), head);
    assert_non_null(strstr(head, "403 "));
    assert_true(read_all(call("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n"), head) >
            6 << 20);
    assert_int_equal(clients(), 0);
}

TEST(test_slow_clients_are_dropped)
{
    const int silent = call("GET / HT");
    const int deaf = call("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");

    serve();
    assert_int_equal(clients(), 2);
    for (int i = 0; i < 2; i++) {
        struct loop_watch *watch = &server.clients[i].watch;

        assert_true(watch->due > clock_ns());
        loop_set_due(&loop, watch, 1);
    }
    serve();
    assert_int_equal(clients(), 0);
    (void)close(silent);
    (void)close(deaf);
}

/* Of those that are not done the one whose time is up first goes. */
TEST(test_who_asks_for_nothing_holds_up_nobody)
{
    int fds[HTTP_CLIENTS];
    char head[512];

    fds[0] = call("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    serve();
    for (int i = 1; i < HTTP_CLIENTS; i++) {
        fds[i] = call("GET");
        serve();
    }
    (void)read_all(call("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), head);
    assert_non_null(strstr(head, "200 OK"));
    assert_int_equal(clients(), HTTP_CLIENTS - 1);
    assert_int_equal(recv(fds[1], head, 1, 0), 0);
    assert_int_equal(recv(fds[0], head, 1, 0), 1);
    for (int i = 0; i < HTTP_CLIENTS; i++) {
        (void)close(fds[i]);
    }
}

/* Another's name may lead here: only names that nobody else can own are answered. */
TEST(test_names)
{
    static const struct {
        const char *headers, *status;
    } cases[] = {
        { "Host: LocalHost:9\r\n", "200 " },
        { "Host: 127.0.0.1\r\n", "200 " },
        { "Host: 127.0.0.7:80\r\n", "200 " },
        { "Host: [::1]:80\r\n", "200 " },
        { "Host: 127.evil.example\r\n", "403 " },
        { "Host: 127.0.0.1.evil.example\r\n", "403 " },
        { "Host: 127.0.0.2\r\n", "403 " },
        { "Host: localhost.\r\n", "403 " },
        { "Host:\r\n", "403 " },
        { "Host: :80\r\n", "403 " },
        { "", "403 " },
        { "Host : localhost\r\n", "400 " },
        { "Host: localhost\r\nHost: localhost\r\n", "400 " },
        { "Host:\r\n localhost\r\n", "400 " },
        { "no colon\r\n", "400 " },
    };
    struct http_server other = { .answer = say_long };
    char head[512];

    assert_int_equal(http_open(&other, &loop, "127.0.0.7", 0), TUTTI_OK);
    address.sin_port = htons((uint16_t)http_port(&other));
    address.sin_addr.s_addr = inet_addr("127.0.0.7");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];

        (void)snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", cases[i].headers);
        (void)read_all(call(text), head);
        if (strstr(head, cases[i].status) == NULL) {
            fail_msg("%s: %s", cases[i].headers, head);
        }
    }
    http_close(&other);
}
