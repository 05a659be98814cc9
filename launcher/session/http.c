#include "launcher/session/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

enum {
    HEAD_BYTES = 512
};

static const int64_t ms_ns = 1000000;

/* ------------------------------------------------------------------- parsing */

/* Copies printable characters up to `end`; false when something else is there, or no room. */
static bool take_text(const char *from, const char *end, char *to, size_t capacity)
{
    if ((size_t)(end - from) >= capacity) {
        return false;
    }
    for (; from < end; from++) {
        if (*from <= ' ' || *from > '~') {
            return false;
        }
        *to++ = *from;
    }
    *to = '\0';
    return true;
}

/* The line that begins here, without its CRLF; NULL: it has no end. */
static const char *line_end(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));

    if (newline == NULL) {
        return NULL;
    }
    return newline > line && newline[-1] == '\r' ? newline - 1 : newline;
}

static enum http_verdict take_first_line(
        const char *line, const char *end, struct http_request *request)
{
    const char *space = memchr(line, ' ', (size_t)(end - line));
    const char *last =
            space == NULL ? NULL : memchr(space + 1, ' ', (size_t)(end - (space + 1)));
    const char *query;

    if (last == NULL || end - last < 8 || memcmp(last + 1, "HTTP/1.", 7) != 0) {
        return HTTP_BAD;
    }
    request->head = space - line == 4 && memcmp(line, "HEAD", 4) == 0;
    if (!request->head && (space - line != 3 || memcmp(line, "GET", 3) != 0)) {
        return HTTP_NO_METHOD;
    }
    query = memchr(space + 1, '?', (size_t)(last - (space + 1)));
    return take_text(space + 1, query != NULL ? query : last, request->path,
                   HTTP_PATH_MAX) &&
                    request->path[0] == '/'
            ? HTTP_OK
            : HTTP_BAD;
}

/*
 * "Host: NAME:PORT", where NAME may be an IPv6 address in brackets. A name of a header that is not one
 * word, and a second host, are what others may read in another way.
 */
static enum http_verdict take_header(
        const char *line, const char *end, struct http_request *request)
{
    const char *colon = memchr(line, ':', (size_t)(end - line));
    char name[HTTP_HOST_MAX];

    if (colon == NULL || !take_text(line, colon, name, sizeof name)) {
        return HTTP_BAD;
    }
    if (strcasecmp(name, "host") != 0) {
        return HTTP_OK;
    }
    if (request->has_host) {
        return HTTP_BAD;
    }
    request->has_host = true;
    line = colon + 1;
    while (line < end && *line == ' ') {
        line++;
    }
    colon = memrchr(line, ':', (size_t)(end - line));
    if (colon != NULL && memchr(colon, ']', (size_t)(end - colon)) == NULL) {
        end = colon;
    }
    return take_text(line, end, request->host, HTTP_HOST_MAX) ? HTTP_OK : HTTP_BAD;
}

enum http_verdict http_parse(
        const char *bytes, size_t len, struct http_request *request)
{
    const char *const end = bytes + len;
    const char *line = bytes;
    enum http_verdict verdict = HTTP_OK;

    *request = (struct http_request){ .head = false };
    for (bool first = true; verdict == HTTP_OK; first = false) {
        const char *stop = line_end(line, end);

        if (stop == NULL) {
            return len >= HTTP_REQUEST_MAX ? HTTP_TOO_LONG : HTTP_MORE;
        }
        if (stop == line && !first) {
            return HTTP_OK;
        }
        verdict = first ? take_first_line(line, stop, request)
                        : take_header(line, stop, request);
        line = stop + (*stop == '\r' ? 2 : 1);
    }
    return verdict;
}

/* ------------------------------------------------------------------- clients */

static void drop(struct http_client *client)
{
    loop_close(client->server->listener.loop, &client->watch, &client->fd);
    wire_writer_fini(&client->reply);
    client->reply = (struct wire_writer){ .data = NULL };
}

static const char *reason(enum http_verdict verdict)
{
    switch (verdict) {
    case HTTP_OK:
        return "OK";
    case HTTP_FORBIDDEN:
        return "Forbidden";
    case HTTP_NOT_FOUND:
        return "Not Found";
    case HTTP_NO_METHOD:
        return "Method Not Allowed";
    case HTTP_TOO_LONG:
        return "Request Header Fields Too Large";
    case HTTP_MORE:
    case HTTP_BAD:
        break;
    }
    return "Bad Request";
}

static void put_reply(struct http_client *client, enum http_verdict verdict,
        const struct http_answer *answer, bool head)
{
    char text[HEAD_BYTES];
    const int len = snprintf(text, sizeof text,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Connection: close\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n%s%s%s\r\n",
            (int)verdict, reason(verdict), answer->type, answer->body->len,
            answer->policy != NULL ? "Content-Security-Policy: " : "",
            answer->policy != NULL ? answer->policy : "",
            answer->policy != NULL ? "\r\n" : "");

    wire_put_bytes(&client->reply, text, len > 0 ? (size_t)len : 0);
    if (!head) {
        wire_put_bytes(&client->reply, answer->body->data, answer->body->len);
    }
}

/* A name of this machine, or the address where we listen: no name that somebody else could own. */
static bool is_own_name(const struct http_server *server, const char *host)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
    char own[HTTP_HOST_MAX];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(host, names[i]) == 0) {
            return true;
        }
    }
    (void)snprintf(own, sizeof own,
            strchr(server->address, ':') != NULL ? "[%s]" : "%s", server->address);
    return strcasecmp(host, own) == 0;
}

static void answer_request(struct http_client *client, enum http_verdict verdict,
        const struct http_request *request)
{
    struct http_server *server = client->server;
    struct wire_writer body = { .data = NULL };
    struct http_answer answer = { .type = "text/plain", .body = &body };

    if (verdict == HTTP_OK && server->is_local && !is_own_name(server, request->host)) {
        verdict = HTTP_FORBIDDEN;
    }
    if (verdict == HTTP_OK && !server->answer(server->owner, request->path, &answer)) {
        verdict = HTTP_NOT_FOUND;
    }
    if (verdict != HTTP_OK) {
        wire_put_bytes(&body, reason(verdict), strlen(reason(verdict)));
        wire_put_bytes(&body, "\n", 1);
    }
    put_reply(client, verdict, &answer, verdict == HTTP_OK && request->head);
    client->reply.failed |= body.failed;
    wire_writer_fini(&body);
}

static void send_reply(struct http_client *client)
{
    const struct wire_writer *reply = &client->reply;
    const ssize_t done = send(client->fd, reply->data + client->sent,
            reply->len - client->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

    client->sent += done > 0 ? (size_t)done : 0;
    if (client->sent == reply->len || (done < 0 && errno != EAGAIN && errno != EINTR) ||
            !loop_set(client->server->listener.loop, &client->watch, client->fd,
                    EPOLLOUT)) {
        drop(client);
    }
}

static void on_client(void *context, unsigned ready)
{
    struct http_client *client = context;
    struct http_request request;
    enum http_verdict verdict;
    ssize_t done;

    if (ready == 0) { /* its time is up */
        drop(client);
        return;
    }
    if (client->reply.len > 0) {
        send_reply(client);
        return;
    }
    done = recv(client->fd, client->request + client->len,
            HTTP_REQUEST_MAX - client->len, MSG_DONTWAIT);
    if (done <= 0) {
        if (done == 0 || (errno != EAGAIN && errno != EINTR)) {
            drop(client);
        }
        return;
    }
    client->len += (size_t)done;
    verdict = http_parse(client->request, client->len, &request);
    if (verdict == HTTP_MORE) {
        return;
    }
    answer_request(client, verdict, &request);
    if (client->reply.failed) {
        drop(client);
    } else {
        loop_set_due(client->server->listener.loop, &client->watch,
                clock_ns() + HTTP_PATIENCE_MS * ms_ns);
        send_reply(client);
    }
}

/* -------------------------------------------------------------------- server */

/* A place that is free, or of the one whose time is up first: who asks at once is not held up. */
static struct http_client *make_place(struct http_server *server)
{
    struct http_client *place = &server->clients[0];

    for (int i = 0; i < HTTP_CLIENTS && place->fd >= 0; i++) {
        struct http_client *client = &server->clients[i];

        if (client->fd < 0 || client->watch.due < place->watch.due) {
            place = client;
        }
    }
    drop(place);
    return place;
}

static void take_client(void *owner, int fd)
{
    struct http_server *server = owner;
    struct http_client *client = make_place(server);

    client->fd = fd;
    client->len = 0;
    client->sent = 0;
    client->watch = (struct loop_watch){ .call = on_client, .context = client };
    if (loop_set(server->listener.loop, &client->watch, fd, EPOLLIN)) {
        loop_set_due(server->listener.loop, &client->watch,
                clock_ns() + HTTP_ASK_MS * ms_ns);
    } else {
        drop(client);
    }
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six =
                (const struct sockaddr_in6 *)(const void *)address;

        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    }
    return ntohl(((const struct sockaddr_in *)(const void *)address)
                           ->sin_addr.s_addr) >>
            24 ==
            127;
}

tutti_status http_open(
        struct http_server *server, struct loop *loop, const char *address, int port)
{
    struct connect_addresses found = { .count = 0 };
    const struct sockaddr *first = (const struct sockaddr *)&found.list[0];
    char text[16];

    server->address = address;
    server->listener.fd = -1;
    for (int i = 0; i < HTTP_CLIENTS; i++) {
        server->clients[i] = (struct http_client){ .server = server, .fd = -1 };
    }
    (void)snprintf(text, sizeof text, "%d", port);
    if (connect_add(&found, address, text,
                AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE) != 0) {
        return error_set(TUTTI_ERR_SYSTEM,
                "listen on %s port %d: write the address in numbers", address, port);
    }
    server->is_local = is_loopback(first);
    server->listener.fd = listen_address(first, found.len[0]);
    if (server->listener.fd < 0 ||
            !listener_begin(&server->listener, loop, take_client, server)) {
        const tutti_status status = error_set_errno(
                TUTTI_ERR_SYSTEM, "listen on %s port %d", address, port);

        http_close(server);
        return status;
    }
    return TUTTI_OK;
}

int http_port(const struct http_server *server)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = { .six = { .sin6_family = AF_UNSPEC } };
    socklen_t len = sizeof address;

    if (server->listener.fd < 0 ||
            getsockname(server->listener.fd, &address.any, &len) != 0) {
        return 0;
    }
    return ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port
                                                   : address.four.sin_port);
}

void http_close(struct http_server *server)
{
    if (server->listener.fd < 0) {
        return;
    }
    for (int i = 0; i < HTTP_CLIENTS; i++) {
        drop(&server->clients[i]);
    }
    listener_close(&server->listener);
}
