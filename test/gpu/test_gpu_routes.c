/*
 * Which way every operation on device memory goes, for every type, through the public API: the
 * table below, over the simulated GPU. Each is done negotiated and in a plan, with one
 * tensor, with several that are packed, and with several that lie side by side; every bit of
 * the results is compared, and the counters must say that it went the way of the table and no
 * other. docs/gpu.md ("NCCL or staging") says the same in words: change both.
 *
 *     test_gpu_routes RANKS NCCL all|few [bare]
 *
 * NCCL is a library, or "none": then all is staged. few: fewer types. bare: some rank
 * has no kernels, and what needs some is staged.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

#include "test/gpu/route.h"
#include "test/gpusim/gpusim_test.h"

#define NO_BINARY_FOR_GPU 209

enum {
    SLOW_TIMES = 4, /* iterations of what is never planned                         */
    PLANNED_WITHIN = 500, /* iterations until what is planned has been, at most    */
    TYPES = TUTTI_FLOAT8_E5M2 + 1,
    PLANNED_TIMES = 4 /* a plan that is left sooner makes the next ones hesitate   */
};

/* -------------------------------------------------------------------- the table */

#define ALLREDUCE \
    { \
        "allreduce", TUTTI_ALLREDUCE, FORM_EQUAL, false \
    }
#define REDUCE \
    { \
        "reduce", TUTTI_REDUCE, FORM_EQUAL, false \
    }
#define REDUCESCATTER \
    { \
        "reducescatter", TUTTI_REDUCESCATTER, FORM_EQUAL, false \
    }
#define REDUCESCATTER_UNEVEN \
    { \
        "reducescatter uneven", TUTTI_REDUCESCATTER, FORM_EQUAL, true \
    }
#define REDUCESCATTER_LISTED \
    { \
        "reducescatter listed", TUTTI_REDUCESCATTER, FORM_LISTED, false \
    }

static const struct route_kind reductions[] = { ALLREDUCE, REDUCE, REDUCESCATTER,
    REDUCESCATTER_UNEVEN, REDUCESCATTER_LISTED };

/*
 *     .   NCCL takes the elements as they are
 *     +   likewise, and a kernel goes over the result
 *     k   they travel as another type: always packed by kernels
 *     s   staged: through host memory
 *     -   refused: TUTTI_ERR_UNSUPPORTED
 */
/* clang-format off */
static const struct {
    tutti_reduce_op op;
    const char *ways; /* of each type */
} reduced[] = {
    /*                 uint  int uint int uint int uint int float bfloat float float bool float8 float8
                          8    8  16   16  32   32  64   64   16     16    32    64       e4m3   e5m2 */
    { TUTTI_SUM,     " .    .   k    k   .    .   .    .    k      k     .     .    -     -      -  " },
    { TUTTI_AVERAGE, " k    k   k    k   k    k   +    +    k      k     +     +    -     -      -  " },
    { TUTTI_MIN,     " .    .   k    k   .    .   .    .    .      .     .     .    k     -      -  " },
    { TUTTI_MAX,     " .    .   k    k   .    .   .    .    .      .     .     .    k     -      -  " },
    { TUTTI_PRODUCT, " .    .   k    k   .    .   .    .    k      k     .     .    -     -      -  " },
};

/* Bytes are bytes: one way for all types. */
static const struct {
    struct route_kind kind;
    const char *way;
    bool is_planned;
} moved[] = {
    { { "broadcast",         TUTTI_BROADCAST, FORM_EQUAL,   false }, ".", true  },
    { { "allgather",         TUTTI_ALLGATHER, FORM_EQUAL,   false }, ".", true  },
    { { "allgather listed",  TUTTI_ALLGATHER, FORM_LISTED,  false }, ".", true  },
    { { "allgather unknown", TUTTI_ALLGATHER, FORM_UNKNOWN, false }, "s", true  },
    { { "alltoall",          TUTTI_ALLTOALL,  FORM_EQUAL,   false }, ".", true  },
    { { "alltoall listed",   TUTTI_ALLTOALL,  FORM_LISTED,  false }, ".", false },
    { { "alltoall unknown",  TUTTI_ALLTOALL,  FORM_UNKNOWN, false }, "s", true  },
    { { "gather",            TUTTI_GATHER,    FORM_EQUAL,   false }, "s", false },
    { { "gather listed",     TUTTI_GATHER,    FORM_LISTED,  false }, "s", false },
    { { "scatter",           TUTTI_SCATTER,   FORM_EQUAL,   false }, "s", false },
    { { "scatter listed",    TUTTI_SCATTER,   FORM_LISTED,  false }, "s", false },
};

/* Which batches of "." are copied by kernels, and where: to a slab, and from there. */
static const struct {
    tutti_collective collective;
    const char *packs[ROUTE_PLACINGS]; /* single, fused, arena: inputs are packed */
    const char *unpacks[ROUTE_PLACINGS]; /* outputs are unpacked                   */
} copied[] = {
    { TUTTI_ALLREDUCE,     { "never", "always", "never"  }, { "never", "always",  "never"  } },
    { TUTTI_REDUCE,        { "never", "always", "never"  }, { "never", "root",    "never"  } },
    { TUTTI_REDUCESCATTER, { "never", "always", "always" }, { "never", "always",  "never"  } },
    { TUTTI_BROADCAST,     { "never", "root",   "never"  }, { "never", "others",  "never"  } },
    { TUTTI_ALLGATHER,     { "never", "always", "never"  }, { "never", "always",  "always" } },
    { TUTTI_ALLTOALL,      { "never", "never",  "never"  }, { "never", "never",   "never"  } },
};
/* clang-format on */

/* ---------------------------------------------------------------------- the job */

static struct {
    int size;
    bool has_nccl;
    bool has_kernels;
    bool few;
    pthread_barrier_t barrier;
    _Atomic int planned; /* ranks on which this iteration ran in a plan             */
    _Atomic int wrong; /* checks that have failed                                   */
    _Atomic int routes; /* of this table that were gone on rank 0                   */
} job;

enum {
    REDUCTIONS = sizeof reductions / sizeof *reductions,
    MOVES = sizeof moved / sizeof *moved
};

/** A rank, and what it does. */
struct walker {
    struct route_rank rank;
    struct route_place reductions[ROUTE_PLACINGS][REDUCTIONS];
    struct route_place moves[ROUTE_PLACINGS][MOVES];
    struct route route; /* the last one */
    int iteration;
    pthread_t thread;
};

static void expect(const struct walker *w, bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "rank %d of %d, %s, iteration %d: %s\n", w->rank.rank,
                w->rank.size, w->route.names[0], w->iteration, what);
        atomic_fetch_add(&job.wrong, 1);
    }
}

static void expect_ok(const struct walker *w, tutti_status status)
{
    if (status != TUTTI_OK) {
        expect(w, false, tutti_last_error());
    }
}

static void expect_count(
        const struct walker *w, uint64_t wanted, uint64_t got, const char *what)
{
    if (wanted != got) {
        (void)fprintf(stderr,
                "rank %d of %d, %s, iteration %d: %s: %llu instead of %llu\n",
                w->rank.rank, w->rank.size, w->route.names[0], w->iteration, what,
                (unsigned long long)got, (unsigned long long)wanted);
        atomic_fetch_add(&job.wrong, 1);
    }
}

static void meet(void)
{
    (void)pthread_barrier_wait(&job.barrier);
}

static tutti_stats stats_of(const struct walker *w)
{
    tutti_stats stats = { .size = sizeof stats };

    if (tutti_stats_get(w->rank.t, &stats) != TUTTI_OK) {
        abort();
    }
    return stats;
}

/* -------------------------------------------------------------------- the ways */

static bool applies(const struct walker *w, const char *when)
{
    const bool is_root = w->rank.rank == w->route.operations[0].root;

    return job.has_kernels &&
            (strcmp(when, "always") == 0 || (strcmp(when, "root") == 0 && is_root) ||
                    (strcmp(when, "others") == 0 && !is_root));
}

/* A batch through NCCL: what is packed, and how many kernels there are. */
static void check_nccl(const struct walker *w, char way, const tutti_stats *before,
        const tutti_stats *after)
{
    const struct route_place *place = w->route.place;
    bool packs = way == 'k';
    bool unpacks = way != '.' && route_has_output(&w->rank, place->kind);
    bool is_packed = way == 'k';

    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        if (copied[i].collective == place->kind->collective) {
            const char *to = copied[i].packs[place->placing];
            const char *from = copied[i].unpacks[place->placing];

            packs = packs || applies(w, to);
            unpacks = unpacks || applies(w, from);
            is_packed = is_packed ||
                    (job.has_kernels &&
                            (strcmp(to, "never") != 0 || strcmp(from, "never") != 0));
        }
    }
    expect_count(w, 1, after->batches - before->batches, "batches");
    expect_count(w, 1, after->device_batches - before->device_batches, "on the device");
    expect_count(w, 0, after->device_staged - before->device_staged, "staged");
    expect_count(w, is_packed, after->device_packed - before->device_packed, "packed");
    expect_count(w, !is_packed && place->tensors > 1,
            after->device_in_place - before->device_in_place, "in place");
    expect_count(w, (uint64_t)packs + (uint64_t)unpacks,
            after->device_launches - before->device_launches, "launches");
}

/* Through host memory: as many batches as it likes. */
static void check_staged(
        const struct walker *w, const tutti_stats *before, const tutti_stats *after)
{
    const uint64_t batches = after->batches - before->batches;

    expect(w, batches >= 1 && batches <= (uint64_t)w->route.place->tensors, "batches");
    expect_count(w, batches, after->device_batches - before->device_batches,
            "on the device");
    expect_count(w, batches, after->device_staged - before->device_staged, "staged");
    expect_count(w, 0, after->device_packed - before->device_packed, "packed");
    expect_count(w, 0, after->device_in_place - before->device_in_place, "in place");
    expect_count(w, 0, after->device_launches - before->device_launches, "launches");
}

/* Once; true when it was in a plan. */
static bool go_once(struct walker *w, char way)
{
    tutti_stats before;
    tutti_stats after;

    route_fill(&w->rank, &w->route, (uint32_t)w->iteration);
    before = stats_of(w);
    expect_ok(w, route_submit(&w->rank, &w->route));
    expect_ok(w, route_wait(&w->rank, &w->route));
    expect(w, route_is_right(&w->rank, &w->route), "the result is wrong");
    after = stats_of(w);
    if (way == 's') {
        check_staged(w, &before, &after);
    } else {
        check_nccl(w, way, &before, &after);
    }
    return after.planned - before.planned == (uint64_t)w->route.place->tensors;
}

/* True when it is so on all ranks. */
static bool is_everywhere(const struct walker *w, bool is_here)
{
    bool all;

    atomic_fetch_add(&job.planned, is_here ? 1 : 0);
    meet();
    all = atomic_load(&job.planned) == job.size;
    meet();
    if (w->rank.rank == 0) {
        atomic_store(&job.planned, 0);
    }
    meet();
    return all;
}

/* Negotiated at first, and until it has been in a plan. */
static void go(struct walker *w, char way, bool is_planned)
{
    const int limit = is_planned ? PLANNED_WITHIN : SLOW_TIMES;
    int planned = 0;

    for (w->iteration = 0; w->iteration < limit && planned < PLANNED_TIMES;
            w->iteration++) {
        planned += is_everywhere(w, go_once(w, way)) ? 1 : 0;
        expect(w, planned == 0 || w->iteration > 0, "planned before it was known");
    }
    expect_count(w, is_planned ? PLANNED_TIMES : 0, (uint64_t)planned, "planned");
    if (w->rank.rank == 0) {
        atomic_fetch_add(&job.routes, 1);
    }
}

static void refuse(struct walker *w)
{
    const tutti_stats before = stats_of(w);

    w->iteration = 0;
    expect(w, route_submit(&w->rank, &w->route) == TUTTI_ERR_UNSUPPORTED,
            "not refused");
    expect_count(w, before.submitted, stats_of(w).submitted, "submitted");
    expect(w,
            strstr(tutti_last_error(),
                    tutti_dtype_name(w->route.operations[0].pattern.dtype)) != NULL,
            "the type is not named");
}

/* A way of the table in a job that may lack what it takes. */
static char way_here(char way)
{
    if (job.has_nccl && (job.has_kernels || way == '.')) {
        return way;
    }
    return 's';
}

static void take(struct walker *w, const struct route_place *place, tutti_dtype dtype,
        tutti_reduce_op op, char way, bool is_planned)
{
    route_make(&w->rank, place, dtype, op, &w->route);
    if (way == '-') {
        refuse(w);
    } else {
        go(w, way_here(way), is_planned);
    }
}

/* ---------------------------------------------------------------- the whole table */

static bool is_wanted(tutti_dtype dtype)
{
    return !job.few || dtype == TUTTI_INT16 || dtype == TUTTI_INT64 ||
            dtype == TUTTI_FLOAT16 || dtype == TUTTI_FLOAT32 || dtype == TUTTI_BOOL;
}

/* The mark of a type in a row; a row of one mark has it for all. */
static char way_of(const char *ways, int dtype)
{
    for (int d = 0; *ways != '\0'; ways++) {
        if (ways[1] == '\0' || (*ways != ' ' && d++ == dtype)) {
            return *ways;
        }
    }
    return '?';
}

/* All types of a row. */
static void walk_row(struct walker *w, const struct route_place *place,
        tutti_reduce_op op, const char *ways, bool is_planned)
{
    for (int d = 0; d < TYPES; d++) {
        if (is_wanted((tutti_dtype)d)) {
            take(w, place, (tutti_dtype)d, op, way_of(ways, d), is_planned);
        }
    }
}

static void walk_reductions(struct walker *w, enum route_placing placing)
{
    for (size_t k = 0; k < REDUCTIONS; k++) {
        for (size_t i = 0; i < sizeof reduced / sizeof *reduced; i++) {
            walk_row(w, &w->reductions[placing][k], reduced[i].op, reduced[i].ways,
                    true);
        }
    }
}

static void walk_moves(struct walker *w, enum route_placing placing)
{
    for (size_t k = 0; k < MOVES; k++) {
        walk_row(
                w, &w->moves[placing][k], TUTTI_SUM, moved[k].way, moved[k].is_planned);
    }
}

/* Before anything is freed, also by the library: neighbours are so where there are no holes. */
static void place_all(struct walker *w)
{
    for (int placing = 0; placing < ROUTE_PLACINGS; placing++) {
        for (size_t k = 0; k < REDUCTIONS; k++) {
            route_place(&w->rank, &reductions[k], (enum route_placing)placing,
                    &w->reductions[placing][k]);
        }
        for (size_t k = 0; k < MOVES; k++) {
            route_place(&w->rank, &moved[k].kind, (enum route_placing)placing,
                    &w->moves[placing][k]);
        }
    }
}

/* While a rank has joined, which is also the one that orders all launches. */
static void walk_joined(struct walker *w)
{
    if (w->rank.rank == 0) {
        expect_ok(w, tutti_join(w->rank.t, NULL, NULL));
        return;
    }
    w->rank.absent[0] = true;
    for (size_t k = 0; k < REDUCTIONS; k++) {
        route_make(&w->rank, &w->reductions[ROUTE_ARENA][k], TUTTI_FLOAT32,
                TUTTI_AVERAGE, &w->route);
        (void)go_once(w, 's');
    }
    expect_ok(w, tutti_join(w->rank.t, NULL, NULL));
}

static void *walk(void *argument)
{
    struct walker *w = argument;

    place_all(w);
    for (int placing = 0; placing < ROUTE_PLACINGS; placing++) {
        walk_reductions(w, (enum route_placing)placing);
        walk_moves(w, (enum route_placing)placing);
    }
    walk_joined(w);
    if (tutti_finalize(w->rank.t) != TUTTI_OK) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        atomic_fetch_add(&job.wrong, 1);
    }
    return NULL;
}

static void ignore_line(void *user, tutti_log_level level, int rank, const char *line)
{
    (void)user;
    (void)level;
    (void)rank;
    (void)line;
}

static bool start(tutti **contexts, const char *nccl)
{
    tutti_config *config = NULL;
    const bool ok = tutti_config_create(&config) == TUTTI_OK &&
            tutti_config_set_log(config, ignore_line, NULL) == TUTTI_OK &&
            tutti_config_set(config, "cuda_library", GPUSIM_CUDA) == TUTTI_OK &&
            tutti_config_set(config, "nccl_library",
                    job.has_nccl ? nccl : "no-such-nccl.so") == TUTTI_OK &&
            tutti_config_set(config, "gpu_kernels", "/proc/self/exe") == TUTTI_OK &&
            tutti_init_local(job.size, contexts, config) == TUTTI_OK;

    tutti_config_destroy(config);
    return ok;
}

int main(int argc, char **argv)
{
    static struct walker walkers[ROUTE_RANKS_MAX];
    tutti *contexts[ROUTE_RANKS_MAX];

    if (argc < 4 || argv[1][0] < '2' || argv[1][0] > '0' + ROUTE_RANKS_MAX) {
        return 2;
    }
    job.size = argv[1][0] - '0';
    job.has_nccl = strcmp(argv[2], "none") != 0;
    job.has_kernels = argc < 5 || strcmp(argv[4], "bare") != 0;
    job.few = strcmp(argv[3], "few") == 0;
    (void)pthread_barrier_init(&job.barrier, NULL, (unsigned)job.size);
    if (!job.has_kernels) {
        gpusim_fail("cuLibraryLoadData", 1, NO_BINARY_FOR_GPU);
    }
    if (!start(contexts, argv[2])) {
        (void)fprintf(stderr, "%s\n", tutti_last_error());
        return 1;
    }
    for (int r = 0; r < job.size; r++) {
        walkers[r] = (struct walker){ .rank = { .t = contexts[r],
                                              .rank = r,
                                              .size = job.size,
                                              .world = { 0, 1, 2, 3 } } };
        if (pthread_create(&walkers[r].thread, NULL, walk, &walkers[r]) != 0) {
            abort();
        }
    }
    for (int r = 0; r < job.size; r++) {
        (void)pthread_join(walkers[r].thread, NULL);
    }
    (void)printf("%d routes, %d checks have failed\n", atomic_load(&job.routes),
            atomic_load(&job.wrong));
    return atomic_load(&job.wrong) == 0 ? 0 : 1;
}
