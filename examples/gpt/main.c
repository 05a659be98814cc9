/*
 * Trains a small transformer on the bytes of a text over any number of ranks.
 *
 *   tuttirun -np 2 gpt --text FILE
 *
 * main.c     start, progress lines and the summary
 * train.c    what is particular to data-parallel training
 * model.c    the transformer
 * kernels.c  its arithmetic, with the same bits however the work is divided
 * text.c     the text
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/common.h"
#include "options.h"
#include "sample.h"
#include "sha256.h"
#include "text.h"
#include "train.h"

/** Exit statuses. */
enum {
    EXIT_TRAINED = 0,
    EXIT_FAILED = 1,
    EXIT_BAD_INPUT = 2
};

static bool read_inputs(
        struct options *options, struct text *text, int argc, char **argv)
{
    char error[512];
    bool good = options_parse(options, argc, argv, error, sizeof error);

    if (good && !options->help) {
        good = text_load(text, options->text, error, sizeof error);
        if (good &&
                text->count < (size_t)options->shape.context + (size_t)options->batch) {
            (void)snprintf(error, sizeof error,
                    "the text has %zu bytes; --context %d and --batch %d need their "
                    "sum",
                    text->count, options->shape.context, options->batch);
            good = false;
        }
    }
    if (!good) {
        (void)fprintf(stderr, "gpt: %s\n", error);
    }
    return good;
}

static void print_start(const struct trainer *trainer)
{
    const struct options *options = trainer->options;

    printf("gpt: %d ranks on %d nodes, %zu bytes of text, %d different, %zu "
           "parameters, batch %d x "
           "%d, "
           "%d shards, kernels %s, seed %llu\n",
            trainer->ranks, tutti_node_count(trainer->job), trainer->text->count,
            trainer->text->vocabulary, trainer->model.value_count, options->batch,
            options->shape.context, options->shards, options->kernels->name,
            (unsigned long long)options->seed);
    (void)fflush(stdout);
}

static void hash_parameters(const struct trainer *trainer, char hash[SHA256_TEXT_BYTES])
{
    sha256(trainer->model.values,
            trainer->model.value_count * sizeof *trainer->model.values, hash);
}

static void print_summary(const struct trainer *trainer)
{
    const tutti_trainer_summary *summary = &trainer->summary;
    char hash[SHA256_TEXT_BYTES];
    double bytes = (double)trainer->steps * trainer->options->batch *
            trainer->options->shape.context;

    hash_parameters(trainer, hash);
    printf("summary: loss %.6f, %lld steps in %.2f s, %.0f tokens/s, communication "
           "%.1f "
           "%%, "
           "parameters %s\n",
            trainer->loss, (long long)summary->steps, summary->seconds,
            bytes / summary->seconds, 100.0 * summary->communication, hash);
}

/** What rank 0 writes when training is over. @return an exit status */
static int finish(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    char hash[SHA256_TEXT_BYTES];

    if (trainer->steps ==
            0) { /* also when a rank of an elastic job died after the last */
        hash_parameters(trainer, hash);
        printf("gpt: the checkpoint has %lld steps already, parameters %s; to go on, "
               "give "
               "more than --steps %d\n",
                (long long)trainer->summary.steps, hash, options->steps);
        return EXIT_TRAINED;
    }
    print_summary(trainer);
    if (options->sample > 0) {
        model_prepare(&trainer->model);
        if (!sample_write(&trainer->model, trainer->text, options->sample,
                    options->seed, stdout)) {
            (void)fprintf(stderr, "gpt: out of memory\n");
            return EXIT_FAILED;
        }
    }
    if (!isfinite(trainer->loss)) {
        (void)fprintf(stderr,
                "gpt: the loss is no longer finite; try a smaller --learning-rate\n");
        return EXIT_FAILED;
    }
    return EXIT_TRAINED;
}

/** False if not all of it could be written; NULL: it could not be opened. */
static bool close_log(FILE *log)
{
    bool written = log != NULL && ferror(log) == 0;

    return log != NULL && fclose(log) == 0 && written;
}

int main(int argc, char **argv)
{
    static struct trainer trainer; /* has room for the largest model */
    struct options options;
    struct text text = { .count = 0 };
    tutti *job = NULL;
    int code = EXIT_TRAINED;
    bool finished;

    if (!read_inputs(&options, &text, argc, argv)) {
        text_fini(&text);
        return EXIT_BAD_INPUT;
    }
    if (options.help) {
        (void)fputs(options_usage, stdout);
        return EXIT_TRAINED;
    }
    check(NULL, tutti_init(&job, NULL));
    trainer_init(&trainer, job, &options, &text);
    if (trainer.rank == 0) {
        print_start(&trainer);
        trainer.log = options.log != NULL
                ? fopen(options.log,
                          tutti_state_generation(trainer.state) > 1 ? "a" : "w")
                : NULL;
    }
    finished = trainer_run(&trainer);
    code = tutti_elastic_exit_status(finished ? TUTTI_OK : TUTTI_AGAIN);
    if (trainer.rank == 0) {
        code = finished ? finish(&trainer) : code;
        if (options.log != NULL && !close_log(trainer.log)) {
            (void)fprintf(stderr, "gpt: cannot write %s\n", options.log);
            code = EXIT_FAILED;
        }
    }
    tutti_state_destroy(trainer.state);
    trainer.state = NULL;
    check(NULL, tutti_finalize(job));
    trainer_fini(&trainer);
    text_fini(&text);
    return code;
}
