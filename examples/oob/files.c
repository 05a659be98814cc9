/*
 * Ranks that meet in a directory which all of them see, without MPI and without a launcher.
 *
 *   files RANK SIZE DIRECTORY    once for each rank, on any hosts; an empty directory each time
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

struct meeting {
    int rank, size, round;
    const char *directory;
};

/* Each rank writes a file and reads those of all. A file is whole when it has its name. */
static int allgather(void *user, const void *mine, void *all, size_t bytes)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    struct meeting *m = user;
    char path[4096], unfinished[4096];
    FILE *file;

    m->round++;
    (void)snprintf(path, sizeof path, "%s/%d.%d", m->directory, m->round, m->rank);
    (void)snprintf(unfinished, sizeof unfinished, "%s/new.%d", m->directory, m->rank);
    file = fopen(unfinished, "wb");
    if (file == NULL || fwrite(mine, 1, bytes, file) != bytes || fclose(file) != 0 ||
            rename(unfinished, path) != 0) {
        return 1;
    }
    for (int r = 0; r < m->size; r++) {
        (void)snprintf(path, sizeof path, "%s/%d.%d", m->directory, m->round, r);
        file = fopen(path, "rb");
        for (int tries = 0; file == NULL && tries < 60000; tries++) { /* a minute */
            (void)nanosleep(&moment, NULL);
            file = fopen(path, "rb");
        }
        if (file == NULL ||
                fread((char *)all + (size_t)r * bytes, 1, bytes, file) != bytes ||
                fclose(file) != 0) {
            return 2;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct meeting m = { .rank = argc > 3 ? (int)strtol(argv[1], NULL, 10) : 0,
        .size = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 1,
        .directory = argc > 3 ? argv[3] : "." };
    float value = (float)m.rank;
    tutti *t;

    if (tutti_init_oob(&t, m.rank, m.size, allgather, &m, NULL) != TUTTI_OK ||
            tutti_allreduce(t, "value", &value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM,
                    NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    (void)printf("rank %d of %d: the ranks add up to %g\n", m.rank, m.size, value);
    return tutti_finalize(t) == TUTTI_OK ? 0 : 1;
}
