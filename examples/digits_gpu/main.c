/*
 * Trains a small network on handwritten digits on the GPUs of any number of ranks.
 *
 *   tuttirun -np 2 digits_gpu
 *
 * main.c     start, options, progress lines and the summary
 * train.c    what is particular to data-parallel training on GPUs
 * network.c  the network, as kernels on a stream
 * kernels    what they do (.cuh), and their entry points for nvcc (.cu)
 * gpu.c      the little of CUDA that is used
 *
 * The images, and what a batch is made of, are those of examples/digits.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "train.h"

/** Exit statuses. */
enum {
    EXIT_TRAINED = 0,
    EXIT_FAILED = 1,
    EXIT_BAD_INPUT = 2
};

static const char usage[] =
        "usage: digits_gpu [options]\n"
        "Trains a network on handwritten digits; a rank takes the GPU of its number.\n"
        "Start it alone or with: tuttirun -np N digits_gpu [options]\n"
        "  --epochs N      passes over the training images (30)\n"
        "  --batch N       images per step, over all ranks (32)\n"
        "  --lr X          peak learning rate (0.1)\n"
        "  --seed N        of shuffling and of the first parameters (1)\n"
        "  --data FILE     the images (digits.csv beside the program)\n"
        "  --kernels FILE  the kernels (digits_gpu.fatbin beside the program)\n"
        "  --cuda FILE     the CUDA driver (libcuda.so.1)\n"
        "  --quiet         only the summary\n"
        "  --help          this text\n";

/** What is needed before training starts; zeroed is valid for inputs_fini(). */
struct inputs {
    struct options options;
    struct dataset data;
    struct gpu gpu;
    char kernels[4096]; /* path */
    char error[512];
};

static bool complain(struct inputs *inputs, const char *option, const char *text)
{
    (void)snprintf(
            inputs->error, sizeof inputs->error, "%s %s: see --help", option, text);
    return false;
}

/* A number from `least` to `most`. */
static bool read_number(const char *text, double least, double most, double *number)
{
    char *end;

    errno = 0;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && *number >= least &&
            *number <= most;
}

/* Some options are numbers. @return false for one that is not, or is out of its range */
static bool apply(struct options *options, int letter)
{
    double number = 0;
    const bool is_number = strchr("ebls", letter) != NULL;

    if (is_number && !read_number(optarg, letter == 'l' ? 1e-9 : 1, 1e5, &number)) {
        return false;
    }
    options->epochs = letter == 'e' ? (int)number : options->epochs;
    options->batch = letter == 'b' ? (int)number : options->batch;
    options->rate = letter == 'l' ? number : options->rate;
    options->seed = letter == 's' ? (uint64_t)number : options->seed;
    options->data = letter == 'd' ? optarg : options->data;
    options->kernels = letter == 'k' ? optarg : options->kernels;
    options->library = letter == 'c' ? optarg : options->library;
    options->quiet = options->quiet || letter == 'q';
    options->help = options->help || letter == 'h';
    return true;
}

static bool parse(struct inputs *inputs, int argc, char **argv)
{
    static const struct option longs[] = { { "epochs", required_argument, NULL, 'e' },
        { "batch", required_argument, NULL, 'b' },
        { "lr", required_argument, NULL, 'l' },
        { "seed", required_argument, NULL, 's' },
        { "data", required_argument, NULL, 'd' },
        { "kernels", required_argument, NULL, 'k' },
        { "cuda", required_argument, NULL, 'c' }, { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
    int letter;

    inputs->options = (struct options){
        .epochs = 30, .batch = 32, .rate = 0.1, .seed = 1, .library = "libcuda.so.1"
    };
    opterr = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((letter = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (letter == '?') {
            return complain(inputs, argv[optind - 1], "is unknown, or wants a value");
        }
        if (!apply(&inputs->options, letter)) {
            return complain(inputs, optarg, "is no number that makes sense there");
        }
    }
    return optind == argc || complain(inputs, argv[optind], "is unexpected");
}

/* The kernels, which the build puts beside the program. */
static const char *kernels_path(struct inputs *inputs)
{
    static const char name[] = "digits_gpu.fatbin";
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = NULL;

    if (inputs->options.kernels != NULL) {
        return inputs->options.kernels;
    }
    program[length > 0 ? length : 0] = '\0';
    slash = strrchr(program, '/');
    (void)snprintf(inputs->kernels, sizeof inputs->kernels, "%.*s%s",
            slash != NULL ? (int)(slash + 1 - program) : 0, program, name);
    return inputs->kernels;
}

/* Everything this rank needs; on failure the reason is in inputs->error. */
static bool inputs_read(struct inputs *inputs, tutti *job, int argc, char **argv)
{
    if (!parse(inputs, argc, argv)) {
        return false;
    }
    if (inputs->options.help) {
        return true;
    }
    if (!dataset_load(&inputs->data, inputs->options.data, inputs->error,
                sizeof inputs->error)) {
        return false;
    }
    if (inputs->options.batch > inputs->data.train) {
        return complain(inputs, "--batch", "is more than there are images");
    }
    if (!gpu_open(&inputs->gpu, inputs->options.library, kernels_path(inputs),
                tutti_local_rank(job))) {
        (void)snprintf(inputs->error, sizeof inputs->error, "%s", inputs->gpu.error);
        return false;
    }
    return true;
}

static void inputs_fini(struct inputs *inputs)
{
    gpu_close(&inputs->gpu);
    dataset_fini(&inputs->data);
}

/**
 * Agrees on bad input: no rank starts when one cannot. The lowest that found something
 * wrong says so; the others keep quiet.
 */
static tutti_status agree(
        tutti *job, const struct inputs *inputs, bool mine, bool *good)
{
    int32_t rank = tutti_rank(job);
    int32_t size = tutti_size(job);
    int32_t first = mine ? size : rank;
    tutti_status status = tutti_allreduce(
            job, "bad input", &first, &first, 1, TUTTI_INT32, TUTTI_MIN, NULL);

    if (status == TUTTI_OK) {
        *good = first == size;
        if (first == rank) {
            (void)fprintf(stderr, "digits_gpu: %s\n", inputs->error);
        }
    }
    return status;
}

static tutti_status print_summary(
        const struct trainer *trainer, const struct progress *last, double seconds)
{
    tutti_stats stats = { .size = sizeof stats };
    tutti_status status = tutti_stats_get(trainer->job, &stats);

    if (status == TUTTI_OK) {
        printf("summary: accuracy %.2f %%, loss %.4f, %lld steps in %.2f s: %llu "
               "batches "
               "on the GPU, %llu reduced in place, %llu packed, %llu through the "
               "host\n",
                100.0 * last->accuracy, last->loss, (long long)trainer->step, seconds,
                (unsigned long long)stats.device_batches,
                (unsigned long long)stats.device_in_place,
                (unsigned long long)stats.device_packed,
                (unsigned long long)stats.device_staged);
    }
    return status;
}

static tutti_status train(struct trainer *trainer)
{
    const struct options *options = trainer->options;
    struct progress epoch = { .loss = 0 };
    double seconds = 0;

    for (int e = 1; e <= options->epochs; e++) {
        const tutti_status status = trainer_epoch(trainer, e, &epoch);

        if (status != TUTTI_OK) {
            return status;
        }
        seconds += epoch.seconds;
        if (trainer->rank == 0 && !options->quiet) {
            printf("epoch %3d/%d  loss %.4f  accuracy %6.2f %%  %6.1f ms\n", e,
                    options->epochs, epoch.loss, 100.0 * epoch.accuracy,
                    1e3 * epoch.seconds);
            (void)fflush(stdout);
        }
    }
    return trainer->rank == 0 ? print_summary(trainer, &epoch, seconds) : TUTTI_OK;
}

/** Everything between joining the job and leaving it. */
static tutti_status run(tutti *job, struct inputs *inputs, bool mine, int *code)
{
    struct trainer trainer = { .job = NULL };
    bool good = false;
    tutti_status status = agree(job, inputs, mine, &good);

    if (status != TUTTI_OK || !good) {
        *code = EXIT_BAD_INPUT;
        return status;
    }
    if (inputs->options.help) {
        if (tutti_rank(job) == 0) {
            (void)fputs(usage, stdout);
        }
        return TUTTI_OK;
    }
    status = trainer_init(&trainer, job, &inputs->gpu, &inputs->options, &inputs->data);
    if (status == TUTTI_OK) {
        status = train(&trainer);
    }
    trainer_fini(&trainer);
    return status;
}

/* Ends the job. All ranks have the same text for a mismatch, so rank 0 says it. */
static void give_up(tutti *job, tutti_status status, const char *reason)
{
    char text[512];

    if (status != TUTTI_ERR_MISMATCH || tutti_rank(job) == 0) {
        (void)snprintf(text, sizeof text, "%s: %s", tutti_status_text(status), reason);
        /* logs it; the others may wait for what this rank no longer submits */
        (void)tutti_abort(job, text);
    }
}

int main(int argc, char **argv)
{
    static struct inputs inputs;
    tutti *job;
    int code = EXIT_TRAINED;
    bool mine;
    tutti_status status;

    /* before the GPU is used: tutti takes the one of this rank's local number, too */
    if (tutti_init(&job, NULL) != TUTTI_OK) {
        (void)fprintf(stderr, "digits_gpu: %s\n", tutti_last_error());
        return EXIT_FAILED;
    }
    mine = inputs_read(&inputs, job, argc, argv);
    status = run(job, &inputs, mine, &code);
    if (status != TUTTI_OK) {
        give_up(job, status,
                gpu_is_well(&inputs.gpu) ? tutti_last_error() : inputs.gpu.error);
        code = EXIT_FAILED;
    }
    if (tutti_finalize(job) != TUTTI_OK && code == EXIT_TRAINED) {
        (void)fprintf(stderr, "digits_gpu: %s\n", tutti_last_error());
        code = EXIT_FAILED;
    }
    inputs_fini(&inputs);
    return code;
}
