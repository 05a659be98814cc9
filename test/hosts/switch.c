/*
 * A switch between hosts whose links are long, slow or lossy, for kernels without netem.
 *
 *   hosts_switch PORTS SEED    makes TAP devices tap0, tap1, ... in its network namespace
 *
 * Whoever has a device, here or moved into another namespace, is at that port. Standard input
 * says what happens to frames that leave at a port, a line each:
 *
 *   PORT MBIT DELAY_US LOSS_PPM    a MBIT of 0 is no limit
 *
 * A frame may get lost. It waits until those before it have left at the port's rate; when that
 * would take longer than QUEUE_NS the buffer is full, and it is dropped. Then it is under way
 * for the delay. Frames to a port keep their order.
 */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    PORTS_MAX = 100,
    ADDRESS_BYTES = 6, /* a frame begins with that of its receiver, then its sender */
    FRAME_MIN = 14,
    FRAME_MAX = 65536,
    FRAMES_AT_ONCE = 64 /* taken from a port before others have their turn */
};

#define QUEUE_NS INT64_C(50000000)
#define SECOND_NS INT64_C(1000000000)

struct frame {
    struct frame *next;
    int64_t due_ns; /* when it is to be at its host */
    size_t bytes;
    uint8_t data[];
};

struct port {
    int tap;
    uint8_t address
            [ADDRESS_BYTES]; /* of who sent through it last; 0, of nobody, at first */
    int64_t mbit; /* 0: no limit */
    int64_t delay_ns;
    int64_t loss_ppm;
    int64_t free_ns; /* when the last frame will have left */
    struct frame *first; /* on their way to the host; owned */
    struct frame *last; /* unset without a first */
};

struct network {
    int count;
    uint64_t random; /* state of the generator; not 0 */
    struct port ports[PORTS_MAX];
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* 0 to 999999, by xorshift64. */
static int64_t draw(struct network *network)
{
    network->random ^= network->random << 13;
    network->random ^= network->random >> 7;
    network->random ^= network->random << 17;
    return (int64_t)((network->random >> 11) % 1000000);
}

/* Puts a frame on its way out of a port, or drops it. */
static void forward(struct network *network, struct port *port, const uint8_t *data,
        size_t bytes, int64_t now)
{
    const int64_t begin = port->free_ns > now ? port->free_ns : now;
    struct frame *frame;

    if (draw(network) < port->loss_ppm || begin - now > QUEUE_NS) {
        return;
    }
    frame = malloc(sizeof *frame + bytes);
    if (frame == NULL) {
        return;
    }
    port->free_ns = begin + (port->mbit > 0 ? (int64_t)bytes * 8000 / port->mbit : 0);
    frame->next = NULL;
    frame->due_ns = port->free_ns + port->delay_ns;
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
    *(port->first == NULL ? &port->first : &port->last->next) = frame;
    port->last = frame;
}

/* To the port whose address it has; to all others when none has. */
static void route(struct network *network, const struct port *from, const uint8_t *data,
        size_t bytes, int64_t now)
{
    const struct port *to = NULL;

    for (int i = 0; i < network->count; i++) {
        if (memcmp(network->ports[i].address, data, ADDRESS_BYTES) == 0) {
            to = &network->ports[i];
        }
    }
    for (int i = 0; i < network->count; i++) {
        struct port *port = &network->ports[i];

        if (port != from && (to == NULL || port == to)) {
            forward(network, port, data, bytes, now);
        }
    }
}

/* Takes what the host at a port has sent. */
static void take(struct network *network, struct port *port)
{
    static uint8_t buffer[FRAME_MAX];

    for (int i = 0; i < FRAMES_AT_ONCE; i++) {
        const ssize_t bytes = read(port->tap, buffer, FRAME_MAX);

        if (bytes < FRAME_MIN) {
            return;
        }
        memcpy(port->address, buffer + ADDRESS_BYTES, ADDRESS_BYTES);
        route(network, port, buffer, (size_t)bytes, now_ns());
    }
}

/* Hands over the frames that are due. A host that has no room, or is gone, misses them. */
static void deliver(struct port *port, int64_t now)
{
    while (port->first != NULL && port->first->due_ns <= now) {
        struct frame *frame = port->first;
        const ssize_t written = write(port->tap, frame->data, frame->bytes);

        (void)written;
        port->first = frame->next;
        free(frame);
    }
}

/* How long until the next frame is due; NULL: there is none. */
static const struct timespec *rest(const struct network *network, struct timespec *wait)
{
    const int64_t now = now_ns();
    int64_t due = INT64_MAX;
    int64_t ns;

    for (int i = 0; i < network->count; i++) {
        const struct frame *first = network->ports[i].first;

        due = first != NULL && first->due_ns < due ? first->due_ns : due;
    }
    ns = due > now ? due - now : 0;
    *wait = (struct timespec){ .tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS };
    return due == INT64_MAX ? NULL : wait;
}

/* Reads a line of standard input; false at its end. */
static bool obey(struct network *network)
{
    int64_t words[4];
    char line[128];
    char *at = line;

    if (fgets(line, sizeof line, stdin) == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        words[i] = strtoll(at, &at, 10);
    }
    if (*at != '\n' || words[0] < 0 || words[0] >= network->count) {
        (void)fprintf(stderr, "hosts_switch: cannot obey: %s", line);
    } else {
        network->ports[words[0]].mbit = words[1];
        network->ports[words[0]].delay_ns = words[2] * 1000;
        network->ports[words[0]].loss_ppm = words[3];
    }
    return true;
}

/* Waits until something is to be done, and does it; false at the end of standard input. */
static bool turn(struct network *network, struct pollfd *polled)
{
    const int count = network->count;
    struct timespec wait;
    const int ready = ppoll(polled, (nfds_t)count + 1, rest(network, &wait), NULL);

    for (int i = 0; i < count; i++) {
        if (ready > 0 && polled[i].revents != 0) {
            take(network, &network->ports[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        deliver(&network->ports[i], now_ns());
    }
    return ready <= 0 || polled[count].revents == 0 || obey(network);
}

static bool open_port(struct port *port, int index)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };

    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "tap%d", index);
    port->tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (port->tap < 0 || ioctl(port->tap, TUNSETIFF, &request) != 0) {
        perror(request.ifr_name);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct network network;
    struct pollfd polled[PORTS_MAX + 1];

    if (argc == 3) {
        network.count = (int)strtol(argv[1], NULL, 10);
        network.random = strtoull(argv[2], NULL, 10);
    }
    if (network.count < 2 || network.count > PORTS_MAX || network.random == 0) {
        (void)fputs("usage: hosts_switch PORTS SEED\n", stderr);
        return 2;
    }
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* what is read is what was polled */
    for (int i = 0; i < network.count; i++) {
        if (!open_port(&network.ports[i], i)) {
            return 1;
        }
        polled[i] = (struct pollfd){ .fd = network.ports[i].tap, .events = POLLIN };
    }
    polled[network.count] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    while (turn(&network, polled)) {
    }
    return 0;
}
