/*
 * sim_negotiator: many seeded schedules of the negotiator as it is in the library; with
 * --launches, of the launch order of device batches.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

struct options {
    uint64_t first;
    uint64_t count;
    int jobs;
    bool verbose;
    bool launches;
};

static int usage(void)
{
    (void)fprintf(stderr,
            "usage: sim_negotiator [--launches] [--first SEED] [--count N] [--jobs N]\n"
            "       sim_negotiator [--launches] --seed SEED [--verbose]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";

        if (strcmp(argv[i], "--verbose") == 0) {
            options->verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--launches") == 0) {
            options->launches = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--seed") == 0) {
            options->first = strtoull(value, NULL, 10);
            options->count = 1;
            options->jobs = 1;
        } else if (strcmp(argv[i - 1], "--first") == 0) {
            options->first = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--count") == 0) {
            options->count = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--jobs") == 0) {
            options->jobs = (int)strtol(value, NULL, 10);
        } else {
            return false;
        }
    }
    return options->count > 0 && options->jobs > 0;
}

static void report(
        const struct options *options, uint64_t seed, const struct run_result *result)
{
    (void)fprintf(stderr,
            "seed %" PRIu64 " (%s, %d ranks) fails the check \"%s\":\n  %s\n"
            "  rerun: sim_negotiator%s --seed %" PRIu64 " --verbose\n",
            seed, scenario_mode_name(result->mode), result->ranks,
            check_name(result->check), result->finding,
            options->launches ? " --launches" : "", seed);
}

/* Every jobs-th seed, starting with the job-th; returns the number of failures. */
static int run_share(const struct options *options, int job)
{
    uint64_t runs[MODE_COUNT] = { 0 };
    struct run_result sum = { .events = 0 };
    int failures = 0;
    int most_ranks = 0;

    for (uint64_t i = (uint64_t)job; i < options->count; i += (uint64_t)options->jobs) {
        const uint64_t seed = options->first + i;
        struct run_result result;

        (options->launches ? launches_run_seed : run_seed)(
                seed, options->verbose, &result);
        sum.events += result.events;
        sum.digest.decisions = hash_u64(sum.digest.decisions, result.digest.decisions);
        sum.digest.actions = hash_u64(sum.digest.actions, result.digest.actions);
        sum.by_number += result.by_number;
        sum.by_name += result.by_name;
        sum.operands += result.operands;
        sum.reused += result.reused;
        runs[result.mode]++;
        most_ranks = result.ranks > most_ranks ? result.ranks : most_ranks;
        if (result.check != CHECK_NONE && ++failures <= 10) {
            report(options, seed, &result);
        }
    }
    (void)printf("job %d: %" PRId64 " events, at most %d ranks, %d failures;", job,
            sum.events, most_ranks, failures);
    for (int m = 0; m < MODE_COUNT; m++) {
        (void)printf(" %s %" PRIu64, scenario_mode_name((enum sim_mode)m), runs[m]);
    }
    (void)printf("; announced by number %" PRIu64 ", by name %" PRIu64
                 "; with operands %" PRIu64 "; places used again %" PRIu64
                 "; digests: decisions %016" PRIx64 ", actions %016" PRIx64 "\n",
            sum.by_number, sum.by_name, sum.operands, sum.reused, sum.digest.decisions,
            sum.digest.actions);
    return failures;
}

static int run_jobs(const struct options *options)
{
    int failed = 0;
    int status;

    (void)fflush(stdout);
    for (int job = 0; job < options->jobs; job++) {
        const pid_t child = fork();

        if (child < 0) {
            perror("fork");
            return 2;
        }
        if (child == 0) {
            exit(run_share(options, job) == 0 ? 0 : 1);
        }
    }
    while (wait(&status) > 0) {
        failed += status == 0 ? 0 : 1;
    }
    return failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct options options = { .first = 1, .count = 10000, .jobs = 2 };
    int failed;

    if (!parse(argc, argv, &options)) {
        return usage();
    }
    failed = options.jobs == 1 ? run_share(&options, 0) : run_jobs(&options);
    (void)printf("%" PRIu64 " schedules: %s\n", options.count,
            failed == 0 ? "all as they must be" : "FAILED");
    return failed == 0 ? 0 : 1;
}
