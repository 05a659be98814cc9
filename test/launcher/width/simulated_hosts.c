/*
 * A job on thousands of hosts in one machine. tuttirun is the real one (job_run()), and so is
 * how supervisors are connected (exec/uplink.h), over sockets of this machine. Each is a process
 * that has no program.
 *
 *   simulated_hosts HOSTS BEAT_MS WHAT
 *
 * WHAT: end      each supervisor sends a line and that its program has ended
 *       silent   before, all of them stand still until tuttirun must have noticed, and the file
 *                `noticed` is there
 *       killed   some are killed, one 20 ms before the others
 * Prints on stderr what was counted and measured; exits with the status of tuttirun.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/exec/uplink.h"
#include "launcher/job/job.h"

enum {
    VICTIMS = 8, /* that are killed */
    DECIMAL = 10,
    MS = 1000000,
    QUIET_S = 2, /* in which nothing happens, to measure heartbeats */
    SUSPECT_BEATS =
            4 /* and LINK_SUSPECT_MS: tuttirun has noticed that it hears nothing */
};

static const int64_t second = 1000000000;
static const double mebibyte = 1 << 20;

/* What all processes count, in memory that they share. */
struct counts {
    atomic_int begun, told, released, lost;
    atomic_long begun_at, told_at; /* monotonic, ns: the last of them */
    atomic_long beat_ns; /* between two of a supervisor */
    atomic_bool ends; /* programs end */
};

/* A supervisor without a program. */
struct supervisor {
    struct uplink uplink;
    struct counts *counts;
    bool has_ended, was_told, is_released;
};

static int own_host = -1;

/* As it would be heard on each host. */
int gethostname(char *name, size_t len)
{
    (void)snprintf(name, len, "host%d", own_host);
    return 0;
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

    if (message->type == LINK_FAILURE && !one->was_told) {
        one->was_told = true;
        atomic_store(&one->counts->told_at, now);
        atomic_fetch_add(&one->counts->told, 1);
    }
    if (message->type == LINK_STOP || message->type == LINK_FAILURE) {
        end(one, true);
    }
    one->is_released |= message->type == LINK_RELEASE;
}

static uint8_t state(const void *owner)
{
    (void)owner;
    return 'S';
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
    atomic_store(&one->counts->beat_ns, one->uplink.orders.beat_ns);
    atomic_store(&one->counts->begun_at, now);
    atomic_fetch_add(&one->counts->begun, 1);
}

/* Whether all are to end is looked at each second. */
static int64_t next_look(const struct supervisor *one)
{
    const int64_t look = clock_ns() + second;

    return one->uplink.beat_due < look ? one->uplink.beat_due : look;
}

static int supervise(int rank, int size, struct counts *counts)
{
    const struct rank_place place = {
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
    while (!uplink_is_lost(&one.uplink) && !one.is_released) {
        if (atomic_load(&counts->ends)) {
            end(&one, false);
        }
        uplink_step(&one.uplink, clock_ns(), state);
        (void)loop_turn(&loop, one.has_ended ? one.uplink.beat_due : next_look(&one));
    }
    atomic_fetch_add(one.is_released ? &counts->released : &counts->lost, 1);
    uplink_fini(&one.uplink);
    loop_fini(&loop);
    return EXIT_SUCCESS;
}

/* Time of a core that tuttirun has had, in s. */
static double core_s(void)
{
    char path[64];
    char line[512] = "";
    unsigned long ticks[2] = { 0, 0 }; /* user, system */
    const char *at;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)getppid());
    file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        line[0] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    at = strrchr(
            line, ')'); /* the second word, in parentheses; these two are 14 and 15 */
    for (int word = 2; at != NULL && word < 14; word++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL) {
        char *end;

        ticks[0] = strtoul(at, &end, DECIMAL);
        ticks[1] = strtoul(end, NULL, DECIMAL);
    }
    return (double)(ticks[0] + ticks[1]) / (double)sysconf(_SC_CLK_TCK);
}

static void send_signal(const pid_t *pids, int first, int count, int number)
{
    for (int i = first; i < first + count; i++) {
        (void)kill(pids[i], number);
    }
}

static void wait_for_notice(void)
{
    const int64_t limit = clock_ns() + 200 * second;

    while (access("noticed", F_OK) != 0 && clock_ns() < limit) {
        clock_sleep_ns(10 * MS);
    }
}

/* What happens to the job once it runs. */
static void play(
        const char *what, const struct counts *counts, int size, const pid_t *pids)
{
    siginfo_t ended;

    if (strcmp(what, "killed") == 0) {
        send_signal(pids, 0, 1, SIGKILL); /* this is the cause */
        (void)waitid(P_PID, (id_t)pids[0], &ended, WEXITED | WNOWAIT);
        clock_sleep_ns(20 * MS);
        send_signal(pids, 1, VICTIMS - 1, SIGKILL);
    }
    if (strcmp(what, "silent") == 0) {
        send_signal(pids, 0, size, SIGSTOP);
        clock_sleep_ns((int64_t)LINK_SUSPECT_MS * MS +
                SUSPECT_BEATS * atomic_load(&counts->beat_ns));
        wait_for_notice();
        send_signal(pids, 0, size, SIGCONT);
        clock_sleep_ns(2 * atomic_load(&counts->beat_ns) + second);
    }
}

/* Waits until the job is over for all: released, told why it fails, or without tuttirun. */
static void wait_for_all(const struct counts *counts, int size, bool is_killed)
{
    const int64_t limit = clock_ns() + 200 * second;
    int done;

    do {
        clock_sleep_ns(MS);
        done = is_killed ? atomic_load(&counts->told) + VICTIMS
                         : atomic_load(&counts->released) + atomic_load(&counts->lost);
    } while (done < size && clock_ns() < limit);
}

/* In place of mpirun. */
static int start_supervisors(int size, const char *what)
{
    const bool is_killed = strcmp(what, "killed") == 0;
    struct counts *counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pids = mem_calloc((size_t)size, sizeof *pids);
    const int64_t start = clock_ns();
    double used[2];
    int64_t struck;

    if (counts == MAP_FAILED || pids == NULL) {
        return EXIT_FAILURE;
    }
    for (int rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            _exit(supervise(rank, size, counts));
        }
        if (pids[rank] < 0) { /* kill() of -1 would end this user's processes */
            perror("simulated_hosts: fork");
            send_signal(pids, 0, rank, SIGKILL);
            return EXIT_FAILURE;
        }
    }
    while (atomic_load(&counts->begun) < size && clock_ns() < start + 300 * second) {
        clock_sleep_ns(MS);
    }
    clock_sleep_ns(second);
    used[0] = core_s();
    clock_sleep_ns(QUIET_S * second);
    used[1] = core_s();
    struck = clock_ns();
    play(what, counts, size, pids);
    atomic_store(&counts->ends, !is_killed);
    /* tuttirun does not wait long for a starter. */
    (void)signal(SIGTERM, SIG_IGN);
    wait_for_all(counts, size, is_killed);
    (void)fprintf(stderr,
            "simulated: %d supervisors, connected after %.2f s, for which tuttirun had "
            "a core for %.2f s; a heartbeat every %.0f ms, %.1f %% of a core; "
            "%d told after %.0f ms, %d released, %d lost; struck at %.0f ms\n",
            atomic_load(&counts->begun),
            (double)(atomic_load(&counts->begun_at) - start) / 1e9, used[0],
            (double)atomic_load(&counts->beat_ns) / MS,
            (used[1] - used[0]) / QUIET_S * 100, atomic_load(&counts->told),
            atomic_load(&counts->told) == 0
                    ? 0
                    : (double)(atomic_load(&counts->told_at) - struck) / MS,
            atomic_load(&counts->released), atomic_load(&counts->lost),
            (double)struck / MS);
    for (int rank = 0; rank < size; rank++) {
        int status;

        (void)waitpid(pids[rank], &status, 0);
    }
    mem_free(pids);
    return EXIT_SUCCESS;
}

static void print_usage(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    (void)fprintf(stderr,
            "simulated: tuttirun had %.0f MiB at most; it ended at %.0f ms\n",
            (double)usage.ru_maxrss * 1024 / mebibyte, (double)clock_ns() / MS);
}

static int run_tuttirun(char **argv)
{
    const int hosts = (int)strtol(argv[1], NULL, DECIMAL);
    struct placement placement = { .ranks = 0 };
    struct options options;
    char *command[] = { argv[0], argv[1], argv[3], NULL };
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
    options.heartbeat_ms = (int)strtol(argv[2], NULL, DECIMAL);
    options.start_timeout_ms = 300000;
    options.grace_ms = 5000; /* this machine may be slow */
    options.nic = "lo";
    options.verbose =
            true; /* what is printed in place of mpirun is shown in any case */
    for (int i = 0; i < hosts; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "host%d", i);
        if (host_list_add(&placement.hosts, name, 1) != NULL) {
            return EXIT_FAILURE;
        }
    }
    status = job_run(&plan);
    print_usage();
    placement_fini(&placement);
    options_fini(&options);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return start_supervisors((int)strtol(argv[1], NULL, DECIMAL), argv[2]);
    }
    if (argc != 4) {
        (void)fprintf(
                stderr, "usage: simulated_hosts HOSTS BEAT_MS end|silent|killed\n");
        return 2;
    }
    return run_tuttirun(argv);
}
