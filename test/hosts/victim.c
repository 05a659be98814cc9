/*
 * A rank that something happens to.
 *
 *   victim FOLDER HOW RANK [PHASE]
 *
 * Every rank starts two processes, one of them in a session of its own, and repeats a small
 * allreduce; from when it runs, in PHASE `large` a large one, in `names` one with a new name in
 * each step, and in `idle` it computes for long in between. When it runs it writes its process and that of its parent to FOLDER/rank.N. When
 * the file FOLDER/go is there, RANK does what HOW says: segv, exit3, exit0, abort, or nothing
 * (wait), so that others can do something to it. With `count` it happens to none: all count until
 * the file is there, and on. A rank whose wait fails writes the reason
 * to FOLDER/told.N and exits with 1.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/mpi.h>

enum {
    STEPS = 50, /* until it runs evenly */
    COUNT = 1000, /* milliseconds                  */
    HANG_SECONDS = 1000,
    LARGE = 2 << 20, /* elements                      */
    IDLE_MS = 300,
    NAME_MAX_BYTES = 512,
    TEXT_MAX_BYTES = 1024
};

static void pause_ms(long ms)
{
    const struct timespec moment = { .tv_nsec = ms * 1000000 };

    (void)nanosleep(&moment, NULL);
}

/* One that lives on unless somebody ends it. */
static void start_child(bool has_session)
{
    const pid_t child = fork();

    if (child == 0) {
        if (has_session) {
            (void)setsid();
        }
        (void)execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(127);
    }
}

static void name_file(char name[NAME_MAX_BYTES], const char *folder, const char *what)
{
    (void)snprintf(name, NAME_MAX_BYTES, "%s/%s", folder, what);
}

/* Whole or not at all: it is waited for. */
static void write_file(const char *folder, const char *kind, int rank, const char *text)
{
    char what[64];
    char name[NAME_MAX_BYTES];
    char fresh[NAME_MAX_BYTES];
    FILE *file;

    (void)snprintf(what, sizeof what, "%s.%d", kind, rank);
    name_file(name, folder, what);
    (void)snprintf(what, sizeof what, "new.%s.%d", kind, rank);
    name_file(fresh, folder, what);
    file = fopen(fresh, "w");
    if (file == NULL) {
        return;
    }
    (void)fprintf(file, "%s\n", text);
    (void)fclose(file);
    (void)rename(fresh, name);
}

static void say_that_it_runs(const char *folder, int rank)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%ld %ld", (long)getpid(), (long)getppid());
    write_file(folder, "rank", rank, text);
}

static void end_as(const char *how)
{
    (void)fprintf(stderr, "last words of the victim\n");
    if (strcmp(how, "segv") == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    } else if (strcmp(how, "exit3") == 0) {
        _exit(3);
    } else if (strcmp(how, "exit0") == 0) {
        _exit(0);
    } else if (strcmp(how, "abort") == 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static tutti_status step(tutti *t, const char *phase, int i)
{
    static float values[LARGE];
    const bool is_large = strcmp(phase, "large") == 0;
    char name[32] = "step";

    if (strcmp(phase, "names") == 0) {
        (void)snprintf(name, sizeof name, "step%d", i);
    }
    pause_ms(strcmp(phase, "idle") == 0 ? IDLE_MS : 5);
    return tutti_allreduce(t, is_large ? "large" : name, values, values,
            is_large ? LARGE : 1, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static void say_what_it_was_told(tutti *t, const char *folder)
{
    char text[2 * TEXT_MAX_BYTES];
    const int length = snprintf(text, TEXT_MAX_BYTES, "%s", tutti_last_error());

    if (length >= TEXT_MAX_BYTES || step(t, "", 0) == TUTTI_OK) {
        return; /* nobody takes it for told */
    }
    (void)snprintf(text + length, TEXT_MAX_BYTES, "\n%s", tutti_last_error());
    write_file(folder, "told", tutti_rank(t), text);
}

/* In lines that are to come whole. */
static void count(const char *folder)
{
    char go[NAME_MAX_BYTES];
    int left = COUNT;

    name_file(go, folder, "go");
    for (int i = 0; left > 0; i++) {
        (void)printf("count %d\n", i);
        (void)fflush(stdout);
        pause_ms(1);
        left -= access(go, F_OK) == 0 ? 1 : 0;
    }
}

static tutti_status live(tutti *t, const char *folder, const char *how, bool is_victim,
        const char *phase)
{
    char go[NAME_MAX_BYTES];
    tutti_status status = TUTTI_OK;
    bool is_done = !is_victim || strcmp(how, "wait") == 0;

    name_file(go, folder, "go");
    for (int i = 0; status == TUTTI_OK; i++) {
        if (i == STEPS) {
            say_that_it_runs(folder, tutti_rank(t));
        }
        if (i > STEPS && !is_done && access(go, F_OK) == 0) {
            end_as(how);
            is_done = true;
        }
        status = step(t, i > STEPS ? phase : "", i);
    }
    return status;
}

int main(int argc, char **argv)
{
    tutti *t;

    if (argc != 4 && argc != 5) {
        (void)fprintf(stderr, "usage: victim FOLDER HOW RANK [PHASE]\n");
        return 2;
    }
    (void)alarm(HANG_SECONDS);
    start_child(false);
    start_child(true);
    if (tutti_init(&t, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "victim: %s\n", tutti_last_error());
        return 2;
    }
    if (strcmp(argv[2], "count") == 0) {
        say_that_it_runs(argv[1], tutti_rank(t));
        count(argv[1]);
        return tutti_finalize(t) == TUTTI_OK ? 0 : 1;
    }
    if (live(t, argv[1], argv[2], tutti_rank(t) == strtol(argv[3], NULL, 10),
                argc == 5 ? argv[4] : "") != TUTTI_OK) {
        say_what_it_was_told(t, argv[1]);
    }
    /* MPI cannot be finalized in order without the others. */
    _exit(1);
}
