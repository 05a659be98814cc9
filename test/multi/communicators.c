/*
 * Contexts over communicators of the caller: parts of the world with the ranks in another
 * order, several at a time, beside the caller's own traffic; and MPI stays the caller's.
 */
#include <stdint.h>
#include <string.h>

#include <tutti/mpi.h>

#include "process_job.h"
#include "test/batch/pattern.h"

enum {
    COUNT = 500
};

/* Sums over the ranks of a communicator, numbered as the communicator numbers them. */
static void check_sums(tutti *t, struct checks *c, MPI_Comm comm)
{
    const struct pattern pattern = { TUTTI_FLOAT32, TUTTI_SUM, 5 };
    float values[COUNT];
    float expected[COUNT];
    int rank = -1;
    int size = 0;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &size);
    EXPECT(c, tutti_rank(t) == rank && tutti_size(t) == size);
    pattern_expect(&pattern, size, (struct scales){ 1, 1 }, expected, COUNT);
    for (int i = 0; i < 4; i++) {
        pattern_fill(&pattern, rank, values, COUNT);
        EXPECT_OK(c,
                tutti_allreduce(t, "sums", values, values, COUNT, TUTTI_FLOAT32,
                        TUTTI_SUM, NULL));
        EXPECT(c, memcmp(values, expected, sizeof values) == 0);
    }
}

/* Every second rank, in reverse; both halves at the same time as the world. */
static void halves(struct checks *c)
{
    MPI_Comm half = MPI_COMM_NULL;
    tutti *world = NULL;
    tutti *part = NULL;

    checks_step(c, "halves in reverse");
    (void)MPI_Comm_split(MPI_COMM_WORLD, c->rank % 2, -c->rank, &half);
    EXPECT_OK(c, tutti_init_mpi(&world, MPI_COMM_WORLD, NULL));
    EXPECT_OK(c, tutti_init_mpi(&part, half, NULL));
    check_sums(part, c, half);
    check_sums(world, c, MPI_COMM_WORLD);
    check_sums(part, c, half);
    EXPECT_OK(c, tutti_finalize(world));
    check_sums(part, c, half);
    EXPECT_OK(c, tutti_finalize(part));
    (void)MPI_Comm_free(&half);
}

/* Only some ranks of the world take part, and the communicator is freed at once. */
static void without_rank_0(struct checks *c)
{
    MPI_Comm others = MPI_COMM_NULL;
    MPI_Comm copy = MPI_COMM_NULL;
    tutti *t = NULL;

    checks_step(c, "without rank 0");
    (void)MPI_Comm_split(
            MPI_COMM_WORLD, c->rank == 0 ? MPI_UNDEFINED : 1, c->rank, &others);
    if (c->rank > 0) {
        (void)MPI_Comm_dup(others, &copy);
        EXPECT_OK(c, tutti_init_mpi(&t, others, NULL));
        (void)MPI_Comm_free(&others);
        check_sums(t, c, copy);
        EXPECT_OK(c, tutti_finalize(t));
        (void)MPI_Comm_free(&copy);
    }
}

/* Lists that overlap, made by their members alone, while the contexts before them live. */
static void among_neighbours(struct checks *c)
{
    tutti *with_next = NULL;
    tutti *with_previous = NULL;

    checks_step(c, "among neighbours");
    for (int first = 0; first + 1 < c->size; first++) {
        const int pair[2] = { first + 1, first };

        if (c->rank == first || c->rank == first + 1) {
            tutti **t = c->rank == first ? &with_next : &with_previous;
            int32_t sum = c->rank;

            EXPECT_OK(c, tutti_init_ranks(t, pair, 2, NULL));
            EXPECT(c, tutti_rank(*t) == (c->rank == first ? 1 : 0));
            EXPECT_OK(c,
                    tutti_allreduce(
                            *t, "pair", &sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, NULL));
            EXPECT(c, sum == 2 * first + 1);
        }
    }
    EXPECT_OK(c, tutti_finalize(with_previous));
    EXPECT_OK(c, tutti_finalize(with_next));
}

static void refuse_lists(struct checks *c)
{
    const int twice[2] = { c->rank, c->rank };
    const int outside[2] = { c->rank, c->size };
    const int other = c->rank + 1 < c->size ? c->rank + 1 : 0;
    tutti *t = NULL;

    checks_step(c, "refused lists");
    checks_refused(c, "a list of no ranks", TUTTI_ERR_INVALID,
            tutti_init_ranks(&t, twice, 0, NULL));
    checks_refused(
            c, "a rank twice", TUTTI_ERR_INVALID, tutti_init_ranks(&t, twice, 2, NULL));
    checks_refused(c, "a rank outside", TUTTI_ERR_INVALID,
            tutti_init_ranks(&t, outside, 2, NULL));
    checks_refused(
            c, "NULL", TUTTI_ERR_INVALID, tutti_init_ranks(NULL, &c->rank, 1, NULL));
    if (c->size > 1) {
        checks_refused(c, "a list without this rank", TUTTI_ERR_INVALID,
                tutti_init_ranks(&t, &other, 1, NULL));
    }
    EXPECT(c, t == NULL);
}

/* The caller's messages, with any tag, do not meet ours; its error handler stays. */
static void beside_traffic(struct checks *c)
{
    const int next = (c->rank + 1) % c->size;
    const int previous = (c->rank + c->size - 1) % c->size;
    MPI_Errhandler before = MPI_ERRHANDLER_NULL;
    MPI_Errhandler after = MPI_ERRHANDLER_NULL;
    tutti *t = NULL;
    int got[3] = { -1, -1, -1 };
    MPI_Request requests[3];

    checks_step(c, "beside the caller's traffic");
    (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    for (int tag = 0; tag < 3; tag++) {
        (void)MPI_Irecv(&got[tag], 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD,
                &requests[tag]);
    }
    EXPECT_OK(c, tutti_init_mpi(&t, MPI_COMM_WORLD, NULL));
    check_sums(t, c, MPI_COMM_WORLD);
    for (int tag = 0; tag < 3; tag++) {
        const int value = 10 * c->rank + tag;

        (void)MPI_Send(&value, 1, MPI_INT, next, tag, MPI_COMM_WORLD);
    }
    check_sums(t, c, MPI_COMM_WORLD);
    EXPECT_OK(c, tutti_finalize(t));
    for (int tag = 0; tag < 3; tag++) {
        (void)MPI_Wait(&requests[tag], MPI_STATUS_IGNORE);
        EXPECT(c, got[tag] == 10 * previous + tag);
    }
    (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    EXPECT(c, before == after);
}

static void refused(struct checks *c)
{
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    tutti *t = NULL;
    int other;

    checks_step(c, "refused communicators");
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_init_mpi(&t, MPI_COMM_NULL, NULL));
    EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_init_mpi(NULL, MPI_COMM_WORLD, NULL));
    if (c->size > 1) {
        (void)MPI_Comm_split(MPI_COMM_WORLD, c->rank % 2, c->rank, &half);
        other = c->rank % 2 == 0 ? 1 : 0;
        (void)MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 9, &inter);
        EXPECT_STATUS(c, TUTTI_ERR_INVALID, tutti_init_mpi(&t, inter, NULL));
        (void)MPI_Comm_free(&inter);
        (void)MPI_Comm_free(&half);
    }
    EXPECT(c, t == NULL);
}

static void mpi_goes_on(struct checks *c)
{
    int finalized = 1;
    int sum = 1;

    checks_step(c, "MPI goes on");
    (void)MPI_Finalized(&finalized);
    EXPECT(c, finalized == 0);
    (void)MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(c, sum == c->size);
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    struct checks checks;
    struct job job;
    int level = 0;
    int status;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, &checks, &world);
    atomic_store(&checks.topic, "communicators");
    for (int i = 0; i < 3; i++) {
        halves(&checks);
        without_rank_0(&checks);
        among_neighbours(&checks);
        beside_traffic(&checks);
    }
    refused(&checks);
    refuse_lists(&checks);
    mpi_goes_on(&checks);
    status = process_job_end(&job, &checks);
    (void)MPI_Finalize();
    return status;
}
