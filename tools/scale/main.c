/*
 * bench-scale: how long ranks take to agree, how many messages and how much memory that
 * takes, at numbers of ranks that no machine here has. The negotiators are those of the
 * library; hosts and network are a model, whose parameters are options and in every row.
 * docs/results/scale.md says what was found, and what the model leaves out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/core/jsonline.h"
#include "bench/core/workloads.h"
#include "test/sim/grow.h"
#include "tools/scale/other.h"
#include "tools/scale/world.h"

enum {
    STEPS_MAX = 64,
    PLAN_AFTER = 5 /* steps; the third is the first that can be planned */
};

struct options {
    double ranks, tensors, fanout, per_node, steps, seed, record_bytes, place_bytes,
            late_us, stride;
    double latency_us, local_us, gbit, header, overhead_us, entry_us, jitter_us,
            skew_us;
    double hiccup_chance, hiccup_us, straggler_chance, straggler_factor;
    const char *workload, *scenario;
};

/* A number among the options: what it is called, its range, and what it means. */
static const struct row {
    const char *name;
    size_t at;
    double standard, least, most;
    const char *help;
} rows[] = {
#define NUMBER(name, standard, least, most, help) \
    { \
#        name, offsetof(struct options, name), standard, least, most, help \
    }
    NUMBER(ranks, 1024, 2, 4e6, "of the job"),
    NUMBER(tensors, 0, 0, 16384, "of a step, all alike; 0: those of the workload"),
    NUMBER(per_node, 8, 1, 1024, "ranks of a node"),
    NUMBER(fanout, 16, 2, 1024, "of the tree (TUTTI_TREE_FANOUT)"),
    NUMBER(steps, 10, 1, STEPS_MAX,
            "measured; a row has the least, the median and the most"),
    NUMBER(seed, 1, 0, 1e9, "of all chances"),
    NUMBER(latency_us, 1.5, 0, 1e6, "of a message between nodes"),
    NUMBER(local_us, 0.15, 0, 1e6, "of a message within a node"),
    NUMBER(gbit, 100, 0.001, 1e4, "10^9 bits per second of the link of a node"),
    NUMBER(header, 64, 0, 1e4,
            "bytes on the link for each message, beside those of tutti"),
    NUMBER(overhead_us, 0.5, 0, 1e6, "of the host, for each message sent or received"),
    NUMBER(entry_us, 0.15, 0, 1e3,
            "of the host, for each tensor that a message is about"),
    NUMBER(jitter_us, 0.3, 0, 1e6, "mean of an exponential time added to each message"),
    NUMBER(hiccup_chance, 0.001, 0, 1, "that a turn of a rank is held up"),
    NUMBER(hiccup_us, 20, 0, 1e6, "by that, and up to twice as long"),
    NUMBER(straggler_chance, 0.001, 0, 1, "that a host is slow"),
    NUMBER(straggler_factor, 2, 1, 1e3, "by which it is slower"),
    NUMBER(skew_us, 50, 0, 1e9, "within which all ranks are ready"),
    NUMBER(late_us, 10000, 0, 1e9, "by which the late rank is late"),
    NUMBER(stride, 2, 1, 1e6, "the set that is created has every so-many-th node"),
    NUMBER(record_bytes, 300, 1, 1e5,
            "at the start: of what must be equal on all ranks"),
    NUMBER(place_bytes, 80, 1, 1e3,
            "at the start: of the names of a node and its cache"),
#undef NUMBER
};

static const char *const scenarios[] = { "start", "slow", "planned", "set", "death",
    "model", NULL };

static void help(FILE *out)
{
    (void)fprintf(out,
            "usage: bench-scale [SCENARIO] [--NAME VALUE]...\n\n"
            "Scenarios (all but model, if none is named); a line of JSON for each "
            "row:\n"
            "  start     until all ranks know that they agree, and where all are\n"
            "  slow      without plans: a step by names, steps by numbers,\n"
            "            and one for which a rank is late\n"
            "  planned   the same with plans\n"
            "  set       a process set of every stride-th node is created, and used\n"
            "  death     the news of the death of a rank\n"
            "  model     slow steps by the max-plus recurrence, and Horovod's "
            "schemes\n\n"
            "  --workload %-6s gradients: resnet50, bert-base, ... (tutti-bench)\n",
            "resnet50");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)fprintf(out, "  --%-16s %-8g %s\n", rows[i].name, rows[i].standard,
                rows[i].help);
    }
}

static double *option_at(struct options *options, const struct row *row)
{
    return (double *)(void *)((char *)options + row->at);
}

/* --NAME VALUE; dashes and underscores are alike. */
static bool set_option(struct options *options, const char *name, const char *value)
{
    char text[32];
    char *end = NULL;

    (void)snprintf(text, sizeof text, "%s", name);
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '-') {
            *c = '_';
        }
    }
    if (strcmp(text, "workload") == 0) {
        options->workload = value;
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double *number = option_at(options, &rows[i]);

        if (strcmp(text, rows[i].name) != 0) {
            continue;
        }
        *number = strtod(value, &end);
        if (end == value || *end != '\0' || !(*number >= rows[i].least) ||
                *number > rows[i].most) {
            (void)fprintf(stderr,
                    "bench-scale: --%s %s: must be a number of %g to %g\n", name, value,
                    rows[i].least, rows[i].most);
            return false;
        }
        return true;
    }
    (void)fprintf(stderr, "bench-scale: no option --%s; see --help\n", name);
    return false;
}

static bool is_scenario(const char *word)
{
    for (int i = 0; scenarios[i] != NULL; i++) {
        if (strcmp(word, scenarios[i]) == 0) {
            return true;
        }
    }
    (void)fprintf(stderr, "bench-scale: no scenario \"%s\"; see --help\n", word);
    return false;
}

static bool parse(struct options *options, int argc, char **argv)
{
    bool ok = true;

    *options = (struct options){ .workload = "resnet50" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *option_at(options, &rows[i]) = rows[i].standard;
    }
    for (int i = 1; ok && i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            options->scenario = argv[i];
            ok = is_scenario(argv[i]);
        } else if (i + 1 == argc) {
            (void)fprintf(
                    stderr, "bench-scale: %s needs a value; see --help\n", argv[i]);
            ok = false;
        } else {
            ok = set_option(options, argv[i] + 2, argv[i + 1]);
            i++;
        }
    }
    return ok;
}

static struct model model_of(const struct options *options)
{
    return (struct model){ .per_node = (int)options->per_node,
        .latency_ns = 1e3 * options->latency_us,
        .local_ns = 1e3 * options->local_us,
        .byte_ns = 8 / options->gbit,
        .header_bytes = options->header,
        .overhead_ns = 1e3 * options->overhead_us,
        .entry_ns = 1e3 * options->entry_us,
        .jitter_ns = 1e3 * options->jitter_us,
        .hiccup_chance = options->hiccup_chance,
        .hiccup_ns = 1e3 * options->hiccup_us,
        .straggler_chance = options->straggler_chance,
        .straggler_factor = options->straggler_factor,
        .skew_ns = 1e3 * options->skew_us };
}

/* ---------------------------------------------------------------------- a bench */

/** What all scenarios share. */
struct bench {
    struct options options;
    struct model model;
    struct bench_workload workload;
    struct call gradients; /* of the world; owned */
};

static struct request request_of(int collective, const char *name, int64_t count)
{
    static char cookie; /* outcomes are counted, not told apart */

    return (struct request){ .collective = collective,
        .name = name,
        .name_len = strlen(name),
        .hash = request_hash(collective, name, strlen(name)),
        .meta = { .count = count,
                .dtype = TUTTI_FLOAT32,
                .prescale = 1,
                .postscale = 1 },
        .cookie = &cookie };
}

static bool bench_init(struct bench *bench)
{
    const bool uniform = bench->options.tensors > 0;

    if (uniform ? !bench_workload_init_uniform(
                          &bench->workload, (size_t)bench->options.tensors, 16384)
                : !bench_workload_init(&bench->workload, bench->options.workload)) {
        (void)fprintf(
                stderr, "bench-scale: no workload \"%s\"\n", bench->options.workload);
        return false;
    }
    bench->model = model_of(&bench->options);
    bench->gradients.count = (int)bench->workload.count;
    bench->gradients.requests =
            sim_alloc(bench->workload.count, sizeof *bench->gradients.requests);
    for (size_t i = 0; i < bench->workload.count; i++) {
        const struct bench_tensor *tensor =
                &bench->workload.tensors[bench->workload.count - 1 - i];

        bench->gradients.requests[i] =
                request_of(TUTTI_ALLREDUCE, tensor->name, (int64_t)tensor->count);
    }
    return true;
}

static struct world *make_world(const struct bench *bench, bool plans)
{
    return world_create(&bench->model, (int)bench->options.ranks,
            (int)bench->options.fanout, plans, (uint64_t)bench->options.seed);
}

/* Begins a row; what it is about, and the parameters. */
static void row_begin(
        struct bench_json *json, const struct bench *bench, const char *scenario)
{
    *json = (struct bench_json){ .used = 0 };
    bench_json_text(json, "scenario", scenario);
    bench_json_integer(json, "ranks", (int64_t)bench->options.ranks);
    bench_json_integer(json, "tensors", bench->gradients.count);
}

static bool row_end(struct bench_json *json, const struct bench *bench)
{
    const char *text;
    struct options options = bench->options;

    for (size_t i = 2; i < sizeof rows / sizeof *rows; i++) {
        bench_json_number(json, rows[i].name, *option_at(&options, &rows[i]));
    }
    text = bench_json_finish(json);
    if (text == NULL) {
        return false;
    }
    (void)fputs(text, stdout);
    return fflush(stdout) == 0;
}

static int by_time(const void *a, const void *b)
{
    const double left = ((const struct step *)a)->ns;
    const double right = ((const struct step *)b)->ns;

    return left < right ? -1 : left > right;
}

/* A row of steps that were alike. */
static bool print_steps(const struct bench *bench, const char *scenario,
        struct step *steps, int count, const struct world *world)
{
    struct bench_json json;
    struct step most = steps[0];

    qsort(steps, (size_t)count, sizeof *steps, by_time);
    for (int i = 0; i < count; i++) {
        if (steps[i].failed > 0) {
            (void)fprintf(stderr, "bench-scale: %s: %d failed: %s\n", scenario,
                    steps[i].failed, world->error);
            return false;
        }
        most.messages_most = steps[i].messages_most > most.messages_most
                ? steps[i].messages_most
                : most.messages_most;
        most.bytes_most = steps[i].bytes_most > most.bytes_most ? steps[i].bytes_most
                                                                : most.bytes_most;
    }
    row_begin(&json, bench, scenario);
    bench_json_integer(&json, "members", most.members);
    bench_json_integer(&json, "rows", count);
    bench_json_number(&json, "us_low", steps[0].ns * 1e-3);
    bench_json_number(&json, "us", steps[count / 2].ns * 1e-3);
    bench_json_number(&json, "us_high", steps[count - 1].ns * 1e-3);
    bench_json_number(&json, "messages_mean", steps[count / 2].messages_mean);
    bench_json_integer(&json, "messages_most", most.messages_most);
    bench_json_integer(&json, "bytes_most", most.bytes_most);
    bench_json_integer(&json, "memory_mean", world->memory_all / world->ranks);
    bench_json_integer(&json, "memory_root", world->memory_root);
    bench_json_number(&json, "host_entry_ns", world->cpu_ns / (double)world->entries);
    return row_end(&json, bench);
}

/* Steps that are alike, as a row. */
static bool run_steps(const struct bench *bench, const char *scenario,
        struct world *world, int count, int late)
{
    struct step steps[STEPS_MAX];

    for (int i = 0; i < count; i++) {
        steps[i] = world_step(
                world, &bench->gradients, late, 1e3 * bench->options.late_us);
    }
    return print_steps(bench, scenario, steps, count, world);
}

static void warm_up(struct world *world, const struct bench *bench, int steps)
{
    for (int i = 0; i < steps; i++) {
        (void)world_step(world, &bench->gradients, -1, 0);
    }
}

/* ------------------------------------------------------------------ the scenarios */

static bool run_start(const struct bench *bench)
{
    const struct start start = other_start(&bench->model, (int)bench->options.ranks,
            bench->options.record_bytes, bench->options.place_bytes);
    struct bench_json json;

    row_begin(&json, bench, "start");
    bench_json_number(&json, "us", 1e-3 * start.ns);
    bench_json_number(&json, "bytes_most", start.bytes_most);
    return row_end(&json, bench);
}

static bool run_slow(const struct bench *bench)
{
    struct world *world = make_world(bench, false);
    bool ok = run_steps(bench, "named", world, 1, -1);

    warm_up(world, bench, 1);
    ok = ok && run_steps(bench, "slow", world, (int)bench->options.steps, -1);
    ok = ok && run_steps(bench, "slow-late", world, 1, (int)bench->options.ranks - 1);
    world_destroy(world);
    return ok;
}

static bool run_planned(const struct bench *bench)
{
    struct world *world = make_world(bench, true);
    struct negotiator_stats *stats = &world->sets[0].negotiators[0].stats;
    bool ok;

    warm_up(world, bench, PLAN_AFTER);
    *stats = (struct negotiator_stats){ 0 };
    ok = run_steps(bench, "planned", world, (int)bench->options.steps, -1);
    if (ok && stats->slow_steps > 0) {
        (void)fprintf(stderr, "bench-scale: a step was not planned\n");
        ok = false;
    }
    ok = ok &&
            run_steps(bench, "planned-late", world, 1, (int)bench->options.ranks - 1);
    world_destroy(world);
    return ok;
}

/* All ranks create a set, and its members meet in it. */
static bool run_set(const struct bench *bench)
{
    const int stride = (int)bench->options.stride;
    struct world *world = make_world(bench, false);
    int64_t *ranks = sim_alloc((size_t)world->ranks, sizeof *ranks);
    struct request create = request_of(META_SET_CREATE, "set", 0);
    struct request meet = request_of(TUTTI_BARRIER, "meet", 0);
    struct step steps[2];
    bool ok;

    for (int r = 0; r < world->ranks; r++) {
        if (r / world->model->per_node % stride == 0) {
            ranks[create.meta.ndim++] = r;
        }
    }
    create.meta.dims = ranks;
    create.meta.dtype = meet.meta.dtype = TUTTI_UINT8;
    steps[0] = world_step(world, &(struct call){ 0, &create, 1 }, -1, 0);
    ok = print_steps(bench, "set-create", steps, 1, world);
    world_add_set(world, (int)bench->options.fanout, stride);
    steps[0] = world_step(world, &(struct call){ 1, &meet, 1 }, -1, 0);
    ok = ok && print_steps(bench, "set-meet", steps, 1, world);
    free(ranks);
    world_destroy(world);
    return ok;
}

static bool run_death(const struct bench *bench)
{
    const int ranks = (int)bench->options.ranks;
    const struct spread spread =
            other_death(&bench->model, ranks, (uint64_t)bench->options.seed);
    struct bench_json json;

    row_begin(&json, bench, "death");
    bench_json_number(&json, "us", 1e-3 * spread.ns);
    bench_json_integer(&json, "told", spread.told);
    bench_json_integer(&json, "messages_most", spread.messages_most);
    if (spread.told != ranks - 1) {
        (void)fprintf(stderr, "bench-scale: %d of %d ranks hear of a death\n",
                spread.told, ranks - 1);
        return false;
    }
    return row_end(&json, bench);
}

static bool run_model(const struct bench *bench)
{
    const int ranks = (int)bench->options.ranks;
    const int tensors = bench->gradients.count;
    struct bench_json json;

    row_begin(&json, bench, "model");
    bench_json_number(&json, "slow_us",
            1e-3 *
                    other_slow_ns(
                            &bench->model, ranks, (int)bench->options.fanout, tensors));
    bench_json_number(&json, "one_us",
            1e-3 * other_slow_ns(&bench->model, ranks, (int)bench->options.fanout, 1));
    bench_json_number(
            &json, "gather_us", 1e-3 * other_gather_ns(&bench->model, ranks, tensors));
    bench_json_number(
            &json, "bits_us", 1e-3 * other_bits_ns(&bench->model, ranks, tensors));
    return row_end(&json, bench);
}

static bool is_asked(const struct bench *bench, const char *scenario)
{
    const char *asked = bench->options.scenario;

    return asked == NULL ? strcmp(scenario, "model") != 0
                         : strcmp(scenario, asked) == 0;
}

static bool run(const struct bench *bench)
{
    bool ok = true;

    ok = ok && (!is_asked(bench, "start") || run_start(bench));
    ok = ok && (!is_asked(bench, "slow") || run_slow(bench));
    ok = ok && (!is_asked(bench, "planned") || run_planned(bench));
    ok = ok && (!is_asked(bench, "set") || run_set(bench));
    ok = ok && (!is_asked(bench, "death") || run_death(bench));
    return ok && (!is_asked(bench, "model") || run_model(bench));
}

int main(int argc, char **argv)
{
    struct bench bench = { .workload = { 0 } };
    bool ok;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        help(stdout);
        return 0;
    }
    if (!parse(&bench.options, argc, argv) || !bench_init(&bench)) {
        return 2;
    }
    ok = run(&bench);
    free(bench.gradients.requests);
    bench_workload_fini(&bench.workload);
    return ok ? 0 : 1;
}
