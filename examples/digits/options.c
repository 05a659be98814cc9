/*
 * The command line, strictly: a value that is no number or out of range is an error
 * that names the option, the value and the range.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char options_usage[] =
        "usage: digits [options]\n"
        "\n"
        "Trains a small network on 1500 handwritten digits and tests it on 297 "
        "others.\n"
        "Start it alone or with: tuttirun -np N digits [options]\n"
        "\n"
        "  --epochs N          passes over the training images (50)\n"
        "  --batch N           images per step over all ranks (60)\n"
        "  --batch-per-rank N  images per step and rank: the batch grows with the job\n"
        "  --lr X              learning rate (0.1)\n"
        "  --scale-lr          multiply the rate by the number of ranks, reached over "
        "a\n"
        "                      warm-up of 5 epochs\n"
        "  --seed N            seed of shuffling and of the first parameters (1)\n"
        "  --hidden N,N,...    widths of the hidden layers (64)\n"
        "  --data FILE         the images (digits.csv beside the program)\n"
        "  --log FILE          write step and loss of every step\n"
        "  --quiet             print the summary only\n"
        "  --help              print this text\n";

/** Where a failed option reports. */
struct complaint {
    char *text; /* receives the reason */
    size_t bytes; /* room in text */
};

static bool parse_int(const struct complaint *complaint, const char *option,
        const char *text, int max, int *value)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < 1 || number > max) {
        (void)snprintf(complaint->text, complaint->bytes,
                "%s %s: expected a whole number from 1 to %d", option, text, max);
        return false;
    }
    *value = (int)number;
    return true;
}

static bool parse_rate(
        const struct complaint *complaint, const char *text, double *value)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number) ||
            number <= 0.0 || number > 100.0) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--lr %s: expected a number above 0 and up to 100", text);
        return false;
    }
    *value = number;
    return true;
}

static bool parse_seed(
        const struct complaint *complaint, const char *text, uint64_t *value)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *text == '-') {
        (void)snprintf(complaint->text, complaint->bytes,
                "--seed %s: expected a whole number from 0 to 2^64 - 1", text);
        return false;
    }
    *value = number;
    return true;
}

static bool parse_hidden(
        const struct complaint *complaint, const char *text, struct options *options)
{
    const char *at = text;
    char *end;
    long width;

    options->hidden_count = 0;
    for (;;) {
        errno = 0;
        width = strtol(at, &end, 10);
        if (end == at || errno != 0 || width < 1 || width > HIDDEN_WIDTH_MAX ||
                (*end != ',' && *end != '\0') || options->hidden_count == HIDDEN_MAX) {
            (void)snprintf(complaint->text, complaint->bytes,
                    "--hidden %s: expected 1 to %d widths from 1 to %d, separated by "
                    "commas",
                    text, HIDDEN_MAX, HIDDEN_WIDTH_MAX);
            return false;
        }
        options->hidden[options->hidden_count++] = (int)width;
        if (*end == '\0') {
            return true;
        }
        at = end + 1;
    }
}

/** Numbers of the long options; ASCII is left to getopt's own answers. */
enum {
    OPTION_EPOCHS = 256,
    OPTION_BATCH,
    OPTION_BATCH_PER_RANK,
    OPTION_RATE,
    OPTION_SCALE_RATE,
    OPTION_SEED,
    OPTION_HIDDEN,
    OPTION_DATA,
    OPTION_LOG,
    OPTION_QUIET,
    OPTION_HELP
};

static const struct option option_table[] = {
    { "epochs", required_argument, NULL, OPTION_EPOCHS },
    { "batch", required_argument, NULL, OPTION_BATCH },
    { "batch-per-rank", required_argument, NULL, OPTION_BATCH_PER_RANK },
    { "lr", required_argument, NULL, OPTION_RATE },
    { "scale-lr", no_argument, NULL, OPTION_SCALE_RATE },
    { "seed", required_argument, NULL, OPTION_SEED },
    { "hidden", required_argument, NULL, OPTION_HIDDEN },
    { "data", required_argument, NULL, OPTION_DATA },
    { "log", required_argument, NULL, OPTION_LOG },
    { "quiet", no_argument, NULL, OPTION_QUIET },
    { "help", no_argument, NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

/** Takes one option over; `given` is how the user wrote it. */
static bool apply(const struct complaint *complaint, int option, const char *given,
        struct options *options)
{
    switch (option) {
    case OPTION_EPOCHS:
        return parse_int(complaint, "--epochs", optarg, 100000, &options->epochs);
    case OPTION_BATCH:
        return parse_int(complaint, "--batch", optarg, 100000, &options->batch);
    case OPTION_BATCH_PER_RANK:
        return parse_int(complaint, "--batch-per-rank", optarg, 100000,
                &options->batch_per_rank);
    case OPTION_RATE:
        return parse_rate(complaint, optarg, &options->rate);
    case OPTION_SCALE_RATE:
        options->scale_rate = true;
        return true;
    case OPTION_SEED:
        return parse_seed(complaint, optarg, &options->seed);
    case OPTION_HIDDEN:
        return parse_hidden(complaint, optarg, options);
    case OPTION_DATA:
        options->data = optarg;
        return true;
    case OPTION_LOG:
        options->log = optarg;
        return true;
    case OPTION_QUIET:
        options->quiet = true;
        return true;
    case OPTION_HELP:
        options->help = true;
        return true;
    case ':':
        (void)snprintf(complaint->text, complaint->bytes, "%s needs a value", given);
        return false;
    default:
        (void)snprintf(complaint->text, complaint->bytes,
                "unknown or ambiguous option %s; see --help", given);
        return false;
    }
}

bool options_parse(
        struct options *options, int argc, char **argv, char *error, size_t error_bytes)
{
    struct complaint complaint = { .text = error, .bytes = error_bytes };
    int option;

    *options = (struct options){
        .epochs = 50,
        .rate = 0.1,
        .seed = 1,
        .hidden = { 64 },
        .hidden_count = 1,
    };
    opterr = 0; /* getopt would print on every rank */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the example has one thread of its own */
    while ((option = getopt_long(argc, argv, ":", option_table, NULL)) != -1) {
        if (!apply(&complaint, option, argv[optind - 1], options)) {
            return false;
        }
    }
    if (optind < argc) {
        (void)snprintf(
                error, error_bytes, "unexpected argument %s; see --help", argv[optind]);
        return false;
    }
    if (options->batch != 0 && options->batch_per_rank != 0) {
        (void)snprintf(error, error_bytes,
                "--batch and --batch-per-rank contradict each other; give one");
        return false;
    }
    if (options->batch == 0 && options->batch_per_rank == 0) {
        options->batch = 60;
    }
    return true;
}
