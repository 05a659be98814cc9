/*
 * A rank that goes on: it repeats a sum whose result it knows, until FOLDER/end is there.
 *
 *   steady FOLDER
 *
 * When it runs it writes its process and that of its parent to FOLDER/rank.N. A wait that is
 * not over in half a second writes the words to FOLDER/waits.N, and goes on.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum {
    NAME_MAX_BYTES = 512,
    WAIT_NS = 500000000
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "steady: %s: %s\n", what, tutti_last_error());
    exit(1); /* NOLINT(concurrency-mt-unsafe): the last thing that it does */
}

static void append(const char *folder, const char *what, int rank, const char *text)
{
    char name[NAME_MAX_BYTES];
    FILE *file;

    (void)snprintf(name, sizeof name, "%s/%s.%d", folder, what, rank);
    file = fopen(name, "a");
    if (file == NULL) {
        fail("a file");
    }
    (void)fprintf(file, "%s\n", text);
    (void)fclose(file);
}

/* The sum of a step over all ranks, added to `more` of each. */
static int64_t sum(tutti *t, const char *folder, int64_t more)
{
    tutti_request request;
    int64_t value = more;
    tutti_status status = tutti_allreduce_async(
            t, "step", &value, &value, 1, TUTTI_INT64, TUTTI_SUM, NULL, &request);

    while (status == TUTTI_OK &&
            (status = tutti_wait(t, &request, WAIT_NS)) == TUTTI_ERR_TIMEOUT) {
        append(folder, "waits", tutti_rank(t), tutti_last_error());
        status = TUTTI_OK;
    }
    if (status != TUTTI_OK) {
        fail("a step");
    }
    return value;
}

/* Rank r adds (r + 1) * step; the first says in a high bit that it is the last step. */
static int64_t run(tutti *t, const char *folder)
{
    const int64_t last = INT64_C(1) << 48;
    const int64_t ranks = tutti_size(t);
    char end[NAME_MAX_BYTES];
    int64_t step = 0;
    int64_t total = 0;

    (void)snprintf(end, sizeof end, "%s/end", folder);
    while (total < last) {
        const bool is_last = tutti_rank(t) == 0 && access(end, F_OK) == 0;

        step++;
        total = sum(t, folder, (tutti_rank(t) + 1) * step + (is_last ? last : 0));
        if (total % last != step * ranks * (ranks + 1) / 2) {
            (void)fprintf(stderr, "step %" PRId64 ": %" PRId64 "\n", step, total);
            fail("wrong");
        }
    }
    return step;
}

int main(int argc, char **argv)
{
    char text[64];
    int64_t steps;
    tutti *t;

    if (argc != 2 || tutti_init(&t, NULL) != TUTTI_OK) {
        fail("init");
    }
    (void)snprintf(text, sizeof text, "%ld %ld", (long)getpid(), (long)getppid());
    append(argv[1], "rank", tutti_rank(t), text);
    steps = run(t, argv[1]);
    (void)printf("right, %" PRId64 " steps\n", steps);
    if (tutti_finalize(t) != TUTTI_OK) {
        fail("finalize");
    }
    return 0;
}
