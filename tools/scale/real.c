/*
 * bench-scale-real: how long the ranks of a real job take to agree on a tensor of no elements,
 * for which nothing moves. From when the last rank submits until the last one knows the
 * outcome; so all ranks need one clock, as those of hosts that are namespaces have.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

enum {
    TIMES_MAX = 256,
    WARM_UP = 4 /* by name, by name, by number */
};

struct times {
    int64_t submitted[TIMES_MAX], known[TIMES_MAX]; /* ns */
};

static int64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    const struct timespec time = { .tv_sec = ns / 1000000000,
        .tv_nsec = ns % 1000000000 };

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static tutti_status agree(tutti *t, int times, int64_t period_ns, struct times *mine)
{
    int64_t begin_ns = now_ns() + period_ns;
    int64_t nothing = 0;
    tutti_status status =
            tutti_broadcast(t, "begin", &begin_ns, 1, TUTTI_INT64, 0, NULL);

    for (int i = 0; i < times && status == TUTTI_OK; i++) {
        sleep_until(begin_ns + (i + 1) * period_ns);
        mine->submitted[i] = now_ns();
        status = tutti_allreduce(
                t, "nothing", &nothing, &nothing, 0, TUTTI_INT64, TUTTI_SUM, NULL);
        mine->known[i] = now_ns();
    }
    return status;
}

static int by_time(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;

    return left < right ? -1 : left > right;
}

static void print(const struct times *all, int ranks, int times)
{
    int64_t took[TIMES_MAX];
    const int count = times - WARM_UP;
    const int middle = count / 2;

    for (int i = 0; i < count; i++) {
        int64_t submitted = 0;
        int64_t known = 0;

        for (int r = 0; r < ranks; r++) {
            const struct times *of = &all[r];

            submitted = of->submitted[i + WARM_UP] > submitted
                    ? of->submitted[i + WARM_UP]
                    : submitted;
            known = of->known[i + WARM_UP] > known ? of->known[i + WARM_UP] : known;
        }
        took[i] = known - submitted;
    }
    qsort(took, (size_t)count, sizeof *took, by_time);
    (void)printf("{\"ranks\":%d,\"us_low\":%.0f,\"us\":%.0f,\"us_high\":%.0f}\n", ranks,
            (double)took[0] * 1e-3, (double)took[middle] * 1e-3,
            (double)took[count - 1] * 1e-3);
}

int main(int argc, char **argv)
{
    const int times = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 24;
    const int64_t period_ns =
            INT64_C(1000000) * (argc > 2 ? strtol(argv[2], NULL, 10) : 100);
    static struct times mine;
    struct times *all = NULL;
    tutti *t = NULL;
    tutti_status status = tutti_init(&t, NULL);

    if (status == TUTTI_OK && times > WARM_UP && times <= TIMES_MAX) {
        all = calloc((size_t)tutti_size(t), sizeof *all);
        status = agree(t, times, period_ns, &mine);
    }
    if (status == TUTTI_OK && all != NULL) {
        status = tutti_allgather(t, "times", &mine, all, 1,
                sizeof mine / sizeof(int64_t), NULL, TUTTI_INT64, NULL);
    }
    if (status == TUTTI_OK && all != NULL && tutti_rank(t) == 0) {
        print(all, tutti_size(t), times);
    }
    if (status != TUTTI_OK) {
        (void)fprintf(stderr, "bench-scale-real: %s\n", tutti_last_error());
    }
    free(all);
    return status == TUTTI_OK && tutti_finalize(t) == TUTTI_OK ? 0 : 1;
}
