/*
 * Several contexts in one process, made and ended in any order, failed and healthy ones
 * mixed, two of them ended by two threads at once. Where tutti has initialised MPI it ends
 * with the last of them; where the program has, tutti leaves it alone.
 *
 *   contexts owned|callers FIRST_SEED PROGRAMS
 *
 * A program is the same on all ranks. MPI can be had once in a process: owned runs one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/mpi.h>

#include "check.h"

enum {
    CONTEXTS_MAX = 5,
    STEPS = 14,
    HANG_SECONDS = 1000
};

struct context {
    tutti *t;
    bool is_failed;
    bool has_status; /* of finalize */
    tutti_status status;
};

struct program {
    uint32_t state; /* of the random numbers */
    bool is_owned; /* tutti initialises MPI */
    struct context contexts[CONTEXTS_MAX];
    int count; /* of those that live */
    int failures;
};

static int draw(struct program *p, int below)
{
    p->state = p->state * 1664525u + 1013904223u;
    return (int)((p->state >> 8) % (uint32_t)below);
}

static tutti_status sum(const struct context *context, bool *is_right)
{
    const int size = tutti_size(context->t);
    int32_t value = tutti_rank(context->t) + 1;
    const tutti_status status = tutti_allreduce(
            context->t, "sum", &value, &value, 1, TUTTI_INT32, TUTTI_SUM, NULL);

    *is_right = value == size * (size + 1) / 2;
    return status;
}

static void use_all(struct program *p)
{
    bool is_right = false;

    for (int i = 0; i < p->count; i++) {
        const tutti_status status = sum(&p->contexts[i], &is_right);

        if (p->contexts[i].is_failed) {
            CHECK(status == TUTTI_ERR_CONTEXT_FAILED);
        } else {
            CHECK(status == TUTTI_OK && is_right);
        }
    }
}

static void open_one(struct program *p)
{
    struct context context = { .t = NULL };
    const bool is_world = (p->is_owned && p->count == 0) || draw(p, 2) == 0;

    CHECK((is_world ? tutti_init(&context.t, NULL)
                    : tutti_init_mpi(&context.t, MPI_COMM_WORLD, NULL)) == TUTTI_OK);
    p->contexts[p->count++] = context;
}

static void fail_one(struct program *p)
{
    struct context *context = &p->contexts[draw(p, p->count)];
    const int by = draw(p, tutti_size(context->t));
    bool is_right = false;

    (void)MPI_Barrier(MPI_COMM_WORLD); /* what came before it is over on all ranks */
    if (!context->is_failed && tutti_rank(context->t) == by) {
        CHECK(tutti_abort(context->t, "as its seed wants") == TUTTI_OK);
    }
    p->failures++;
    context->is_failed = true;
    CHECK(sum(context, &is_right) == TUTTI_ERR_CONTEXT_FAILED);
}

static void *finalize(void *argument)
{
    struct context *context = argument;

    context->status = tutti_finalize(context->t);
    context->has_status = true;
    return NULL;
}

static struct context take(struct program *p)
{
    const int index = draw(p, p->count);
    const struct context context = p->contexts[index];

    p->contexts[index] = p->contexts[--p->count];
    return context;
}

/*
 * The status is that of the context; where others have failed, the last may say that MPI
 * could not be ended in time.
 */
static void check_end(const struct program *p, const struct context *context)
{
    CHECK(context->has_status);
    if (context->is_failed) {
        CHECK(context->status == TUTTI_ERR_CONTEXT_FAILED);
    } else if (context->status != TUTTI_OK) {
        CHECK(p->is_owned && p->failures > 0 && p->count == 0 &&
                context->status == TUTTI_ERR_MPI);
    }
}

static void close_one(struct program *p)
{
    struct context context = take(p);

    (void)finalize(&context);
    check_end(p, &context);
}

static void close_two(struct program *p)
{
    struct context first = take(p);
    struct context second = take(p);
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, finalize, &first) == 0);
    (void)finalize(&second);
    CHECK(pthread_join(thread, NULL) == 0);
    check_end(p, &first);
    check_end(p, &second);
}

static bool mpi_has_ended(void)
{
    int finalized = 0;

    (void)MPI_Finalized(&finalized);
    return finalized != 0;
}

/* Whoever has initialised MPI. */
static void check_begun(const struct program *p)
{
    int level = 0;

    CHECK(MPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE);
    CHECK(tutti_has_background(p->contexts[0].t));
    CHECK(tutti_has_feature("mpi") && !tutti_has_feature("magic"));
}

static void run(struct program *p)
{
    const int kept = p->is_owned ? 1 : 0;

    open_one(p);
    check_begun(p);
    for (int step = 0; step < STEPS; step++) {
        switch (draw(p, 5)) {
        case 0:
        case 1:
            if (p->count < CONTEXTS_MAX) {
                open_one(p);
            }
            break;
        case 2:
            if (p->count > kept) {
                close_one(p);
            }
            break;
        case 3:
            if (p->count > kept + 1) {
                close_two(p);
            }
            break;
        default:
            if (p->count > 0 && draw(p, 2) == 0) {
                fail_one(p);
            }
        }
        CHECK(!mpi_has_ended());
        use_all(p);
    }
    while (p->count > 0) {
        CHECK(!mpi_has_ended());
        if (p->count == 2 && draw(p, 2) == 0) {
            close_two(p);
        } else {
            close_one(p);
        }
    }
}

/* MPI is not to be had again, and who ended it is said. */
static void check_over(const struct program *p)
{
    tutti *t = NULL;

    CHECK(mpi_has_ended() || p->failures > 0);
    CHECK(!mpi_has_ended() || signal(SIGPIPE, SIG_DFL) == SIG_DFL);
    CHECK(tutti_init(&t, NULL) == TUTTI_ERR_MPI && t == NULL);
    CHECK(strstr(tutti_last_error(), "tutti_finalize()") != NULL);
    if (!mpi_has_ended()) { /* all ranks do come, however late: the launcher is to know */
        CHECK(MPI_Finalize() == MPI_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    const bool is_owned = argc == 4 && strcmp(argv[1], "owned") == 0;
    const int seed = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    const int programs = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 0;
    int level = 0;

    (void)alarm(HANG_SECONDS);
    if (!is_owned) {
        CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) ==
                MPI_SUCCESS);
    }
    for (int i = 0; i < programs; i++) {
        struct program p = { .state = (uint32_t)(seed + i), .is_owned = is_owned };

        run(&p);
        if (is_owned) {
            check_over(&p);
        }
    }
    if (!is_owned) {
        CHECK(!mpi_has_ended());
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
        (void)MPI_Finalize();
    }
    return 0;
}
