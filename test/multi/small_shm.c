/*
 * A kernel without memfd and a small /dev/shm: too small for two ranks, who then exchange
 * messages and say why; or too small for their tensors, which then lie in the heap.
 *
 *   small_shm refused|kept
 */
#include <errno.h>
#include <string.h>

#include <tutti/mpi.h>

#include "process_job.h"

enum {
    PIECES = 4,
    FLOATS = 8 << 20 /* of a piece: one fits into what there is, all do not */
};

/* In front of the C library's: there is none. */
__attribute__((visibility("default"))) int memfd_create(
        const char *name, unsigned flags);

int memfd_create(const char *name, unsigned flags)
{
    (void)name;
    (void)flags;
    errno = ENOSYS;
    return -1;
}

/* Where the pieces are, and whether all of them can be summed. */
static void fill(struct checks *c, tutti *t)
{
    void *pieces[PIECES];

    for (int i = 0; i < PIECES; i++) {
        float *values = NULL;

        EXPECT_OK(c,
                tutti_alloc(t, FLOATS * sizeof(float), TUTTI_HOST, (void **)&values));
        pieces[i] = values;
        if (values == NULL) {
            return;
        }
        values[FLOATS - 1] = (float)c->rank;
        EXPECT_OK(c,
                tutti_allreduce(t, "piece", values, values, FLOATS, TUTTI_FLOAT32,
                        TUTTI_SUM, NULL));
        EXPECT(c, values[FLOATS - 1] == (float)(c->size * (c->size - 1) / 2));
    }
    for (int i = 0; i < PIECES; i++) {
        EXPECT_OK(c, tutti_free(t, pieces[i]));
    }
}

static void share_too_much(struct checks *c, tutti *t)
{
    static char memory[256 << 20];

    EXPECT_STATUS(c, TUTTI_ERR_NO_MEMORY, tutti_share(t, memory, sizeof memory));
    EXPECT(c, strstr(tutti_last_error(), "/dev/shm is full") != NULL);
}

int main(int argc, char **argv)
{
    const struct setting shm[] = { { "backend", "shm" }, { NULL, NULL } };
    const bool is_refused = argc == 2 && strcmp(argv[1], "refused") == 0;
    MPI_Comm world = MPI_COMM_WORLD;
    struct checks checks;
    struct checks *c = &checks;
    struct job job;
    char line[LOG_TEXT_MAX];
    tutti *t = NULL;
    int level = 0;
    int status;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        return 2;
    }
    process_job_init(&job, c, &world);
    checks_step(c, "a small /dev/shm");
    if (is_refused) {
        EXPECT_STATUS(c, TUTTI_ERR_CONFIG, job_try_open(c, shm, &t));
        EXPECT(c, strstr(tutti_last_error(), "/dev/shm has") != NULL);
    }
    job_clear_log(c);
    EXPECT_OK(c, job_try_open(c, is_refused ? NULL : shm, &t));
    EXPECT(c,
            job_find_line(c, c->rank, "cannot share memory", line) ==
                    (is_refused && c->rank == 0));
    if (t != NULL) {
        fill(c, t);
        if (!is_refused) {
            share_too_much(c, t);
        }
        EXPECT_OK(c, tutti_finalize(t));
    }
    status = process_job_end(&job, c);
    (void)MPI_Finalize();
    return status;
}
