#include "launcher/exec/host_metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/passing.h"
#include "launcher/session/loop.h"
#include "launcher/session/proof.h"
#include "observe/recorder.h"

enum {
    RANKS_MAX = 1 << 14, /* of a host */
    HOST_BYTES = 256
};

/* ------------------------------------------------------------------- reading */

bool host_metrics_read(
        int recording, struct metrics *metrics, struct metrics_source *source)
{
    struct recorder_header header;

    if (pread(recording, &header, sizeof header, 0) != (ssize_t)sizeof header ||
            header.magic != RECORDER_MAGIC ||
            pread(recording, metrics, sizeof *metrics,
                    offsetof(struct recording, metrics)) != (ssize_t)sizeof *metrics) {
        return false;
    }
    *source = (struct metrics_source){ .metrics = metrics,
        .rank = header.rank,
        .size = header.size,
        .is_up = atomic_load_explicit(&header.is_open, memory_order_relaxed) != 0 };
    return true;
}

static double time_of_day(void)
{
    struct timespec now = { 0 };

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void put_all(const struct host_metrics *host, tutti_metrics_format format,
        struct wire_writer *out)
{
    struct metrics *blocks = mem_calloc(host->count + 1, sizeof *blocks);
    struct metrics_source *sources = mem_calloc(host->count + 1, sizeof *sources);
    size_t count = 0;

    if (blocks == NULL || sources == NULL) {
        out->failed = true;
    } else {
        for (size_t i = 0; i < host->count; i++) {
            count += host_metrics_read(
                    host->recordings[i], &blocks[count], &sources[count]);
        }
        metrics_format(out, format, sources, count, time_of_day());
    }
    mem_free(blocks);
    mem_free(sources);
}

static bool answer(void *owner, const char *path, struct http_answer *answer)
{
    if (strcmp(path, "/metrics") == 0) {
        answer->type = "text/plain; version=0.0.4; charset=utf-8";
        put_all(owner, TUTTI_METRICS_PROMETHEUS, answer->body);
        return true;
    }
    if (strcmp(path, "/metrics.json") == 0) {
        answer->type = "application/x-ndjson";
        put_all(owner, TUTTI_METRICS_JSON, answer->body);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------- writing */

int host_metrics_format_of(const char *file)
{
    static const struct {
        const char *ending;
        tutti_metrics_format format;
    } endings[] = { { ".prom", TUTTI_METRICS_PROMETHEUS },
        { ".json", TUTTI_METRICS_JSON }, { ".jsonl", TUTTI_METRICS_JSON } };
    const char *dot = strrchr(file, '.');

    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof endings[0]; i++) {
        if (strcmp(dot, endings[i].ending) == 0) {
            return (int)endings[i].format;
        }
    }
    return -1;
}

/* The path, with the host's name in place of "%h". */
static void expand(const char *file, char path[PATH_MAX])
{
    char name[HOST_BYTES] = "";
    const char *mark = strstr(file, "%h");

    (void)gethostname(name, sizeof name - 1);
    if (mark == NULL) {
        (void)snprintf(path, PATH_MAX, "%s", file);
    } else {
        (void)snprintf(path, PATH_MAX, "%.*s%.200s%s", (int)(mark - file), file, name,
                mark + 2);
    }
}

static tutti_status write_file(const struct host_metrics *host)
{
    const int format = host_metrics_format_of(host->orders.file);
    struct wire_writer text = { .data = NULL };
    char path[PATH_MAX];
    tutti_status status;

    if (format < 0) {
        return TUTTI_OK; /* which tuttirun has refused */
    }
    expand(host->orders.file, path);
    put_all(host, (tutti_metrics_format)format, &text);
    status = metrics_save(path, (tutti_metrics_format)format, &text);
    wire_writer_fini(&text);
    return status;
}

/* ---------------------------------------------------------------- descriptors */

/* A name that nobody can take before, for only this job's supervisors know its secret. */
static void make_name(struct host_metrics *host, const char *secret)
{
    static const char label[] = "metrics";
    uint8_t digest[SHA256_BYTES];
    struct hmac hmac;
    int len = snprintf(host->name, sizeof host->name, "tutti-");

    hmac_init(&hmac, secret, strlen(secret));
    hmac_add(&hmac, label, sizeof label);
    hmac_end(&hmac, digest);
    for (int i = 0; i < 16; i++) {
        len += snprintf(
                host->name + len, sizeof host->name - (size_t)len, "%02x", digest[i]);
    }
}

static socklen_t address_of(
        const struct host_metrics *host, struct sockaddr_un *address)
{
    const size_t len = strlen(host->name);

    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path + 1, host->name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static bool keep(struct host_metrics *host, int fd)
{
    if (host->count >= RANKS_MAX ||
            !mem_grow(&host->recordings, &host->capacity, host->count + 1,
                    sizeof *host->recordings)) {
        return false;
    }
    host->recordings[host->count++] = fd;
    return true;
}

/* The name of the socket is no secret: all can list such names. */
static void take_descriptor(void *context, unsigned ready)
{
    struct host_metrics *host = context;
    struct ucred sender;
    char byte;
    int fd;

    (void)ready;
    if (passing_receive(host->fd, &byte, sizeof byte, MSG_DONTWAIT, &fd, &sender) >=
                    0 &&
            fd >= 0 && !(sender.uid == geteuid() && keep(host, fd))) {
        (void)close(fd);
    }
}

/* False: not yet, for nobody listens, or too many have sent at once. */
static bool give_descriptor(struct host_metrics *host)
{
    char byte = 0;
    struct sockaddr_un address;
    const socklen_t len = address_of(host, &address);

    return passing_send(host->fd, (struct sockaddr *)&address, len, &byte, sizeof byte,
                   host->own) == 1;
}

/* -------------------------------------------------------------------- course */

/* For reading alone: the collector has no business writing to it. */
static int open_recording(int recording)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", recording);
    return recording < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

static tutti_status open_socket(struct host_metrics *host)
{
    struct sockaddr_un address;
    const socklen_t len = address_of(host, &address);
    const int on = 1;

    host->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    host->watch = (struct loop_watch){ .call = take_descriptor, .context = host };
    if (host->fd < 0 ||
            (host->is_collector &&
                    (setsockopt(host->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) !=
                                    0 ||
                            bind(host->fd, (const struct sockaddr *)&address, len) !=
                                    0 ||
                            !loop_set(host->loop, &host->watch, host->fd, EPOLLIN)))) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "collect the metrics of this host");
    }
    return TUTTI_OK;
}

static tutti_status open_all(struct host_metrics *host)
{
    tutti_status status = open_socket(host);

    if (status == TUTTI_OK && host->is_collector && host->orders.port > 0) {
        host->http.answer = answer;
        host->http.owner = host;
        status = http_open(
                &host->http, host->loop, host->orders.address, host->orders.port);
    }
    return status;
}

tutti_status host_metrics_begin(struct host_metrics *host, struct loop *loop,
        const struct rank_place *rank, const char *secret, int recording)
{
    tutti_status status;

    host->write_due = INT64_MAX;
    host->own = -1;
    host->fd = -1;
    host->http.listener.fd = -1;
    if (host->orders.port == 0 && host->orders.file[0] == '\0') {
        return TUTTI_OK;
    }
    host->loop = loop;
    host->is_collector = rank->local_rank <= 0;
    host->own = open_recording(recording);
    make_name(host, secret);
    status = open_all(host);
    if (host->is_collector && host->own >= 0 && keep(host, host->own)) {
        host->own = -1;
    }
    if (host->is_collector && host->orders.file[0] != '\0') {
        host->write_due = clock_ns() + host->orders.interval_ns;
    }
    return status;
}

tutti_status host_metrics_step(struct host_metrics *host, int64_t now)
{
    tutti_status status = TUTTI_OK;
    bool had_failed = host->has_failed;

    if (host->own >= 0 && host->fd >= 0 && !host->is_collector &&
            give_descriptor(host)) {
        (void)close(host->own);
        host->own = -1;
    }
    if (now >= host->write_due) {
        status = write_file(host);
        host->write_due = now + host->orders.interval_ns;
        host->has_failed |= status != TUTTI_OK;
    }
    return had_failed ? TUTTI_OK : status;
}

void host_metrics_fini(struct host_metrics *host)
{
    if (host->write_due != INT64_MAX) {
        (void)write_file(host);
    }
    http_close(&host->http);
    loop_close(host->loop, &host->watch, &host->fd);
    for (size_t i = 0; i < host->count; i++) {
        (void)close(host->recordings[i]);
    }
    fd_close(&host->own);
    mem_free(host->recordings);
    host->recordings = NULL;
    host->count = 0;
}
