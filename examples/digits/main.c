/*
 * Trains a small network on handwritten digits over any number of ranks.
 *
 *   tuttirun -np 2 digits
 *
 * main.c     start, agreement on bad input, progress lines and the summary
 * train.c    what is particular to data-parallel training
 * network.c  the network
 * data.c     the images
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "../common/common.h"
#include "data.h"
#include "options.h"
#include "train.h"

/** Exit statuses. */
enum {
    EXIT_TRAINED = 0,
    EXIT_FAILED = 1,
    EXIT_BAD_INPUT = 2
};

/** What is needed before training starts; zeroed is valid for inputs_fini(). */
struct inputs {
    struct options options;
    struct dataset data;
    FILE *log; /* on rank 0, when asked for */
    char error[512];
};

/** A batch has each training image at most once. */
static bool check_batch(struct inputs *inputs, int size)
{
    const struct options *options = &inputs->options;
    long long batch = options->batch != 0 ? options->batch
                                          : (long long)options->batch_per_rank * size;

    if (batch > inputs->data.train) {
        (void)snprintf(inputs->error, sizeof inputs->error,
                "a batch of %lld is more than the %d training images", batch,
                inputs->data.train);
        return false;
    }
    return true;
}

/** Reads everything this rank needs; on failure the reason is in inputs->error. */
static bool inputs_read(struct inputs *inputs, tutti *job, int argc, char **argv)
{
    if (!options_parse(
                &inputs->options, argc, argv, inputs->error, sizeof inputs->error)) {
        return false;
    }
    if (inputs->options.help) {
        return true;
    }
    if (!dataset_load(&inputs->data, inputs->options.data, inputs->error,
                sizeof inputs->error) ||
            !check_batch(inputs, tutti_size(job))) {
        return false;
    }
    if (inputs->options.log != NULL && tutti_rank(job) == 0) {
        inputs->log = fopen(inputs->options.log, "w");
        if (inputs->log == NULL) {
            (void)snprintf(inputs->error, sizeof inputs->error, "cannot write %s",
                    inputs->options.log);
            return false;
        }
    }
    return true;
}

/** False when the file of losses could not be written whole. */
static bool inputs_fini(struct inputs *inputs)
{
    bool written = true;

    dataset_fini(&inputs->data);
    if (inputs->log != NULL) {
        written = ferror(inputs->log) == 0;
        written = fclose(inputs->log) == 0 && written;
    }
    return written;
}

/**
 * Agrees on bad input: a file may be missing on one host only, and then no rank must
 * start. The lowest rank that found something wrong says so; the others keep quiet.
 * @return equal on all ranks
 */
static bool agree(tutti *job, const struct inputs *inputs, bool mine)
{
    int32_t rank = tutti_rank(job);
    int32_t size = tutti_size(job);
    int32_t first = mine ? size : rank;

    check(job,
            tutti_allreduce(
                    job, "bad input", &first, &first, 1, TUTTI_INT32, TUTTI_MIN, NULL));
    if (first == rank) {
        (void)fprintf(stderr, "digits: %s\n", inputs->error);
    }
    return first == size;
}

static void print_start(const struct trainer *trainer)
{
    const struct options *options = trainer->options;

    printf("digits: %d ranks on %d nodes, %d training images, %d held out, %zu "
           "parameters, batch %d, learning rate %g%s, seed %llu\n",
            trainer->size, tutti_node_count(trainer->job), trainer->data->train,
            trainer->data->count - trainer->data->train, trainer->net.parameters,
            trainer->batch, trainer->rate,
            trainer->warm_up_steps > 0 ? " after warm-up" : "",
            (unsigned long long)options->seed);
}

static void print_progress(int epoch, int epochs, const struct progress *progress)
{
    printf("epoch %3d/%d  loss %.4f  accuracy %6.2f %%  %6.1f ms, communication "
           "%5.1f ms (%4.1f %%)\n",
            epoch, epochs, progress->loss, 100.0 * progress->accuracy,
            1e3 * progress->seconds, 1e3 * progress->communication,
            100.0 * progress->communication / progress->seconds);
}

static void print_summary(const struct trainer *trainer, const struct progress *total)
{
    tutti_stats stats = { .size = sizeof stats };

    check(trainer->job, tutti_stats_get(trainer->job, &stats));
    printf("summary: accuracy %.2f %%, loss %.4f, %lld steps in %.2f s (%.0f "
           "images/s), "
           "communication %.2f s (%.1f %%): %llu tensors, %.1f MB in %llu batches\n",
            100.0 * total->accuracy, total->loss, (long long)trainer->step,
            total->seconds,
            (double)trainer->data->train * trainer->options->epochs / total->seconds,
            total->communication, 100.0 * total->communication / total->seconds,
            (unsigned long long)stats.completed, (double)stats.bytes * 1e-6,
            (unsigned long long)stats.batches);
}

/** All epochs; rank 0 prints. @return false: the loss ran away */
static bool train(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    bool prints = trainer->rank == 0 && !options->quiet;
    struct progress total = { .loss = 0.0 };
    struct progress epoch;
    bool finite = true;

    if (prints) {
        print_start(trainer);
    }
    for (int e = 1; e <= options->epochs && finite; e++) {
        trainer_epoch(trainer, e, &epoch);
        total.loss = epoch.loss;
        total.accuracy = epoch.accuracy;
        total.seconds += epoch.seconds;
        total.communication += epoch.communication;
        finite = isfinite(epoch.loss);
        if (prints) {
            print_progress(e, options->epochs, &epoch);
            (void)fflush(stdout);
        }
    }
    if (!finite && trainer->rank == 0) {
        (void)fprintf(stderr,
                "digits: the loss is no longer finite after step %lld; "
                "try a smaller --lr\n",
                (long long)trainer->step);
    } else if (trainer->rank == 0) {
        print_summary(trainer, &total);
    }
    return finite;
}

/** Everything between joining the job and leaving it. @return an exit status */
static int run(tutti *job, struct inputs *inputs, bool mine)
{
    struct trainer trainer;
    bool finite;

    if (!agree(job, inputs, mine)) {
        return EXIT_BAD_INPUT;
    }
    if (inputs->options.help) {
        if (tutti_rank(job) == 0) {
            (void)fputs(options_usage, stdout);
        }
        return EXIT_TRAINED;
    }
    trainer_init(&trainer, job, &inputs->options, &inputs->data, inputs->log);
    finite = train(&trainer);
    trainer_fini(&trainer);
    return finite ? EXIT_TRAINED : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct inputs inputs = { .log = NULL };
    tutti *job = NULL;
    int code;
    bool mine;

    check(NULL, tutti_init(&job, NULL));
    mine = inputs_read(&inputs, job, argc, argv);
    code = run(job, &inputs, mine);
    if (!inputs_fini(&inputs)) {
        (void)fprintf(stderr, "digits: cannot write %s\n", inputs.options.log);
        code = EXIT_FAILED;
    }
    check(NULL, tutti_finalize(job));
    return code;
}
