/*
 * Ranks that meet over sockets of the program's own: rank 0 listens, the others connect.
 *
 *   sockets RANK SIZE HOST PORT    once for each rank; HOST is that of rank 0
 */
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum {
    RANKS_MAX = 1024
};

struct meeting {
    int rank, size;
    int peers[RANKS_MAX]; /* rank 0: a socket for each rank; else [0] to rank 0 */
};

static bool send_all(int peer, const void *bytes, size_t count)
{
    return send(peer, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

static bool receive_all(int peer, void *bytes, size_t count)
{
    return recv(peer, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

/** Rank 0 takes the bytes of each and sends all of them to each. */
static int allgather(void *user, const void *mine, void *all, size_t bytes)
{
    struct meeting *m = user;
    const size_t total = bytes * (size_t)m->size;

    if (m->rank > 0) {
        return send_all(m->peers[0], mine, bytes) &&
                        receive_all(m->peers[0], all, total)
                ? 0
                : 1;
    }
    memcpy(all, mine, bytes);
    for (int r = 1; r < m->size; r++) {
        if (!receive_all(m->peers[r], (char *)all + (size_t)r * bytes, bytes)) {
            (void)fprintf(stderr, "rank %d has ended\n", r);
            return r;
        }
    }
    for (int r = 1; r < m->size; r++) {
        if (!send_all(m->peers[r], all, total)) {
            return r;
        }
    }
    return 0;
}

/** Rank 0: waits for all others, which say who they are. */
static bool listen_for_all(struct meeting *m, int port)
{
    const struct sockaddr_in here = { .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port) };
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;

    (void)setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listening, (const struct sockaddr *)&here, sizeof here) != 0 ||
            listen(listening, m->size) != 0) {
        perror("listen");
        return false;
    }
    for (int here_count = 1; here_count < m->size; here_count++) {
        const int peer = accept(listening, NULL, NULL);
        int32_t rank = 0;

        if (!receive_all(peer, &rank, sizeof rank) || rank < 1 || rank >= m->size) {
            return false;
        }
        m->peers[rank] = peer;
    }
    (void)close(listening);
    return true;
}

/** The others: for a minute, until rank 0 listens. */
static bool connect_to_zero(struct meeting *m, const char *host, const char *port)
{
    const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    const struct timespec moment = { .tv_nsec = 10000000 };
    const int32_t rank = m->rank;
    struct addrinfo *found;

    if (getaddrinfo(host, port, &hints, &found) != 0) {
        return false;
    }
    for (int tries = 0; tries < 6000; tries++) {
        m->peers[0] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(m->peers[0], found->ai_addr, found->ai_addrlen) == 0) {
            freeaddrinfo(found);
            return send_all(m->peers[0], &rank, sizeof rank);
        }
        (void)close(m->peers[0]);
        (void)nanosleep(&moment, NULL);
    }
    freeaddrinfo(found);
    return false;
}

int main(int argc, char **argv)
{
    static struct meeting m;
    tutti *t;
    float value;

    m.rank = argc > 4 ? (int)strtol(argv[1], NULL, 10) : 0;
    m.size = argc > 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (m.size < 1 || m.size > RANKS_MAX) {
        (void)fprintf(stderr, "usage: sockets RANK SIZE HOST PORT\n");
        return 2;
    }
    if (m.rank == 0 ? !listen_for_all(&m, (int)strtol(argv[4], NULL, 10))
                    : !connect_to_zero(&m, argv[3], argv[4])) {
        (void)fprintf(stderr, "rank %d has not met the others\n", m.rank);
        return 1;
    }
    if (tutti_init_oob(&t, m.rank, m.size, allgather, &m, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    value = (float)m.rank;
    if (tutti_allreduce(t, "value", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    printf("rank %d of %d: the ranks add up to %g\n", m.rank, m.size, (double)value);
    return tutti_finalize(t) == TUTTI_OK ? 0 : 1;
}
