/*
 * A job on thousands of hosts in one machine. tuttirun is the real one (job_run()), and so is
 * how supervisors are connected (exec/uplink.h), over sockets of this machine. Each is a process;
 * what is not there are their programs.
 *
 *   simulated_hosts HOSTS FAN_OUT BEAT_MS WHAT
 *
 * WHAT: end      each supervisor says a line and that its program has ended
 *       relays   before, some relays stand still, so that those below them get other places
 *       killed   some relays are killed, one 20 ms before the others
 * Says on stderr what was counted; exits with the status of tuttirun.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/environment.h"
#include "launcher/exec/uplink.h"
#include "launcher/job/job.h"

enum {
    VICTIMS = 8, /* relays that something happens to */
    DECIMAL = 10,
    MS = 1000000,
    SEVEN = 7 /* letters of "socket:" */
};

static const int64_t second = 1000000000;

/* What all processes count, in memory that they share. */
struct counts {
    atomic_int begun, told, released, lost;
    atomic_int most_frames; /* that one got from above within a second, at most */
    atomic_long begun_at, told_at; /* monotonic, ns: the last of them            */
    atomic_bool ends; /* programs end                                      */
    atomic_int below[]; /* by rank; -1: it has no place, or does not hear it    */
};

/* A supervisor without a program. */
struct supervisor {
    struct uplink uplink;
    struct counts *counts;
    bool has_ended, was_told;
    int frames; /* from above, since `since` */
    int64_t since;
};

static int own_host = -1;

/* As it would be heard on each host. */
int gethostname(char *name, size_t len)
{
    (void)snprintf(name, len, "host%d", own_host);
    return 0;
}

static void raise_to(atomic_int *most, int value)
{
    int old = atomic_load(most);

    while (old < value && !atomic_compare_exchange_weak(most, &old, value)) {
        /* another process was faster */
    }
}

static void end(struct supervisor *one, bool was_stopped)
{
    const struct link_message message = {
        .type = LINK_EXITED,
        .exited = { .ending = was_stopped ? LINK_ENDED_SIGNAL : LINK_ENDED_EXIT,
                .value = was_stopped ? SIGTERM : 0,
                .time = (uint64_t)clock_ns(),
                .was_stopped = was_stopped },
    };

    if (!one->has_ended) {
        link_put(uplink_out(&one->uplink), &message);
        one->has_ended = true;
    }
}

static void obey(void *owner, const struct link_message *message, int64_t now)
{
    struct supervisor *one = owner;

    if (now - one->since > second) {
        one->since = now;
        one->frames = 0;
    }
    raise_to(&one->counts->most_frames, ++one->frames);
    if (message->type == LINK_FAILURE && !one->was_told) {
        one->was_told = true;
        atomic_store(&one->counts->told_at, now);
        atomic_fetch_add(&one->counts->told, 1);
    }
    if (message->type == LINK_STOP || message->type == LINK_FAILURE) {
        end(one, true);
    }
}

static uint8_t state(const void *owner)
{
    (void)owner;
    return 'S';
}

static void count_below(const struct supervisor *one)
{
    const struct uplink *uplink = &one->uplink;
    const bool is_placed = !session_is_lost(&uplink->session) && !uplink->is_between &&
            clock_ns() - uplink->heard < 3 * second;
    int count = 0;

    for (size_t i = 0; i < one->uplink.below.count; i++) {
        count += one->uplink.below.links[i]->rank >= 0 ? 1 : 0;
    }
    atomic_store(&one->counts->below[uplink->rank.rank], is_placed ? count : -1);
}

static void begin(struct supervisor *one, struct loop *loop)
{
    char line[64];
    const int64_t now = clock_ns();
    const struct link_message started = { .type = LINK_STARTED,
        .started = { .pid = 1 } };
    struct link_message output = { .type = LINK_OUTPUT,
        .output = { .stream = 1, .time = (uint64_t)now } };

    one->uplink.obey = obey;
    one->uplink.owner = one;
    uplink_begin(&one->uplink, loop, now);
    (void)snprintf(line, sizeof line, "line of %d\n", one->uplink.rank.rank);
    output.output.lines = link_text_of(line);
    link_put(uplink_out(&one->uplink), &started);
    link_put(uplink_out(&one->uplink), &output);
    atomic_store(&one->counts->begun_at, now);
    atomic_fetch_add(&one->counts->begun, 1);
}

static int supervise(int rank, int size, struct counts *counts)
{
    const struct rank place = {
        .rank = rank, .size = size, .local_rank = 0, .local_size = 1
    };
    struct supervisor one = { .counts = counts };
    struct loop loop;

    own_host = rank;
    if (loop_init(&loop) != TUTTI_OK ||
            uplink_join(&one.uplink, getenv(LINK_VARIABLE), &place) != TUTTI_OK) {
        (void)fprintf(stderr, "rank %d: %s\n", rank, tutti_last_error());
        return EXIT_FAILURE;
    }
    begin(&one, &loop);
    while (!one.uplink.is_lost &&
            !(one.uplink.is_released && !uplink_is_needed(&one.uplink, clock_ns()))) {
        if (atomic_load(&counts->ends)) {
            end(&one, false);
        }
        uplink_step(&one.uplink, clock_ns(), clock_ns(), state);
        (void)loop_turn(&loop, one.uplink.beat_due);
        count_below(&one);
    }
    atomic_fetch_add(one.uplink.is_released ? &counts->released : &counts->lost, 1);
    uplink_fini(&one.uplink);
    loop_fini(&loop);
    return EXIT_SUCCESS;
}

/* Sockets that a process has open, but for the listener. */
static int sockets_of(pid_t pid)
{
    char path[64];
    char target[64];
    int count = -1;
    DIR *folder;

    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const ssize_t len =
                readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);

        target[len > 0 ? len : 0] = '\0';
        count += strncmp(target, "socket:", SEVEN) == 0 ? 1 : 0;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

/* True when all have a place. */
static bool is_settled(const struct counts *counts, int size)
{
    int rank = 0;

    while (rank < size && atomic_load(&counts->below[rank]) >= 0) {
        rank++;
    }
    return rank == size;
}

static int most_below(const struct counts *counts, int size)
{
    int most = 0;

    for (int rank = 0; rank < size; rank++) {
        const int below = atomic_load(&counts->below[rank]);

        most = below > most ? below : most;
    }
    return most;
}

/* Chooses relays, with most that have some below them. */
static int choose(const struct counts *counts, int size, int victims[VICTIMS])
{
    int count = 0;

    for (int rank = 0; rank < size && count < VICTIMS; rank++) {
        if (atomic_load(&counts->below[rank]) > 0) {
            victims[count++] = rank;
        }
    }
    return count;
}

static void strike(const int *victims, int count, const pid_t *pids, int number)
{
    for (int i = 0; i < count; i++) {
        (void)kill(pids[victims[i]], number);
    }
}

/* What happens to the job once it runs; returns when it began. */
static int64_t play(
        const char *what, struct counts *counts, int size, const pid_t *pids)
{
    int victims[VICTIMS];
    siginfo_t ended;
    const int count = choose(counts, size, victims);
    const int64_t begin = clock_ns();

    if (strcmp(what, "killed") == 0 && count > 0) {
        strike(victims, 1, pids, SIGKILL); /* this is the cause */
        (void)waitid(P_PID, (id_t)pids[victims[0]], &ended, WEXITED | WNOWAIT);
        clock_sleep_ns(20 * MS);
        strike(victims + 1, count - 1, pids, SIGKILL);
        return begin;
    }
    if (strcmp(what, "relays") == 0) {
        strike(victims, count, pids, SIGSTOP);
        clock_sleep_ns(4 * second);
        strike(victims, count, pids, SIGCONT);
        clock_sleep_ns(2 * second);
        /* Nobody may look for a place when tuttirun ends. */
        while (!is_settled(counts, size) && clock_ns() < begin + 60 * second) {
            clock_sleep_ns(10 * MS);
        }
    }
    return begin;
}

static void tell(const struct counts *counts, const int top[2], const int most[2],
        int64_t start, int64_t struck)
{
    const int told = atomic_load(&counts->told);
    const double told_ns =
            told == 0 ? 0.0 : (double)(atomic_load(&counts->told_at) - struck);

    (void)fprintf(stderr,
            "simulated: %d supervisors, started after %.2f s; tuttirun has %d "
            "connections and a supervisor %d below it at most, at the end %d and %d; "
            "one "
            "gets %d messages from above in a second at most; %d told after %.0f ms, "
            "%d released, %d lost\n",
            atomic_load(&counts->begun),
            (double)(atomic_load(&counts->begun_at) - start) / 1e9, top[0], most[0],
            top[1], most[1], atomic_load(&counts->most_frames), told, told_ns / 1e6,
            atomic_load(&counts->released), atomic_load(&counts->lost));
}

/* In place of mpirun. */
static int start_supervisors(int size, const char *what)
{
    const size_t bytes = sizeof(struct counts) + (size_t)size * sizeof(atomic_int);
    struct counts *counts = mmap(
            NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pids = mem_calloc((size_t)size, sizeof *pids);
    const int64_t start = clock_ns();
    int64_t struck;
    int top[2];
    int most[2];

    if (counts == MAP_FAILED || pids == NULL) {
        return EXIT_FAILURE;
    }
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            _exit(supervise(rank, size, counts));
        }
    }
    while (atomic_load(&counts->begun) < size && clock_ns() < start + 300 * second) {
        clock_sleep_ns(MS);
    }
    clock_sleep_ns(3 * second);
    top[0] = sockets_of(getppid());
    most[0] = most_below(counts, size);
    struck = play(what, counts, size, pids);
    clock_sleep_ns(second / 10);
    top[1] = sockets_of(getppid());
    most[1] = most_below(counts, size);
    atomic_store(&counts->ends, strcmp(what, "killed") != 0);
    /* tuttirun does not wait long for a starter. */
    (void)signal(SIGTERM, SIG_IGN);
    while ((strcmp(what, "killed") == 0 ? atomic_load(&counts->told) < size - VICTIMS
                                        : atomic_load(&counts->released) +
                                           atomic_load(&counts->lost) <
                                   size) &&
            clock_ns() < struck + 60 * second) {
        clock_sleep_ns(MS);
    }
    tell(counts, top, most, start, struck);
    for (int rank = 0; rank < size; rank++) {
        int status;

        (void)waitpid(pids[rank], &status, 0);
    }
    mem_free(pids);
    return EXIT_SUCCESS;
}

static int run_tuttirun(char **argv)
{
    const int hosts = (int)strtol(argv[1], NULL, DECIMAL);
    struct placement placement = { .ranks = 0 };
    struct options options;
    char *command[] = { argv[0], argv[1], argv[4], NULL };
    const struct job_plan plan = { .options = &options,
        .placement = &placement,
        .command = command,
        .environment = environ };
    int status = EXIT_FAILURE;

    own_host = -1;
    if (options_init(&options) != TUTTI_OK) {
        return EXIT_FAILURE;
    }
    options.np = hosts;
    options.fan_out = (int)strtol(argv[2], NULL, DECIMAL);
    options.heartbeat_ms = (int)strtol(argv[3], NULL, DECIMAL);
    options.start_timeout_ms = 300000;
    options.grace_ms = 5000; /* this machine may be slow */
    options.nic = "lo";
    options.verbose = true;
    for (int i = 0; i < hosts; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "host%d", i);
        if (host_list_add(&placement.hosts, name, 1) != NULL) {
            return EXIT_FAILURE;
        }
    }
    status = job_run(&plan);
    placement_fini(&placement);
    options_fini(&options);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return start_supervisors((int)strtol(argv[1], NULL, DECIMAL), argv[2]);
    }
    if (argc != 5) {
        (void)fprintf(stderr,
                "usage: simulated_hosts HOSTS FAN_OUT BEAT_MS "
                "end|relays|killed\n");
        return 2;
    }
    return run_tuttirun(argv);
}
