/*
 * The HTTP server: what it understands, and whom it drops.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/session/http.h"
#include "test/unit/launcher/session/serve.h"

UNIT_CASES(test_requests, "requests")
{
    static const char *const verdicts[] = {
        [HTTP_MORE] = "more", [HTTP_NO_METHOD] = "no method", [HTTP_BAD] = "bad"
    };
    struct http_request request;
    enum http_verdict verdict = http_parse(in, len, &request);

    if (verdict == HTTP_OK) {
        (void)sprintf(out, "%s %s of%s%s", request.head ? "HEAD" : "GET", request.path,
                request.host[0] == '\0' ? "" : " ", request.host);
    } else {
        (void)strcpy(out, verdicts[verdict]);
    }
}

UNIT_TEST(test_a_request_without_end)
{
    static char many[HTTP_REQUEST_MAX];
    struct http_request request;

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

/* Reads to the end; the answer's beginning is kept. */
static size_t read_all(int fd, char head[512])
{
    size_t len = 0;
    char rest[1 << 16];
    ssize_t got;

    memset(head, 0, 512);
    do {
        SERVE_UNTIL(is_readable(fd));
        got = recv(fd, len < 511 ? head + len : rest,
                len < 511 ? 511 - len : sizeof rest, 0);
        len += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    (void)close(fd);
    return len;
}

#define TEST(name) UNIT_TEST_WITH(name, open_server, close_server)

TEST(test_slow_clients_are_dropped)
{
    const int silent = call("GET / HT");
    const int deaf = call("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");

    SERVE_UNTIL(clients() == 2 && is_readable(deaf));
    assert_true(server.clients[0].watch.due > clock_ns());
    assert_true(server.clients[1].watch.due > clock_ns());
    /* As long as there is room for more of its answer, a client is not slow. */
    while (clients() > 0) {
        for (int i = 0; i < 2; i++) {
            if (server.clients[i].fd >= 0) {
                loop_set_due(&loop, &server.clients[i].watch, 1);
            }
        }
        (void)loop_turn(&loop, clock_ns() + 1000000);
    }
    (void)close(silent);
    (void)close(deaf);
}

/* Of those that are not done the one whose time is up first goes. */
TEST(test_who_asks_for_nothing_holds_up_nobody)
{
    int fds[HTTP_CLIENTS];
    char head[512];

    fds[0] = call("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    SERVE_UNTIL(is_readable(fds[0]));
    for (size_t i = 1; i < HTTP_CLIENTS; i++) {
        fds[i] = call("GET");
        SERVE_UNTIL(clients() == i + 1);
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

UNIT_CASES(test_names, "names of servers")
{
    struct http_server other = { .answer = say_long };
    char text[256];

    (void)open_server(NULL);
    assert_int_equal(http_open(&other, &loop, "127.0.0.7", 0), TUTTI_OK);
    address.sin_port = htons((uint16_t)http_port(&other));
    address.sin_addr.s_addr = inet_addr("127.0.0.7");
    (void)snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", in);
    (void)read_all(call(text), out);
    http_close(&other);
    (void)close_server(NULL);
}
