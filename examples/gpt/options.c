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
        "usage: gpt [options]\n"
        "\n"
        "Trains a small transformer on the bytes of a text.\n"
        "Start it alone or with: tuttirun -np N gpt [options]\n"
        "\n"
        "  --text FILE        what to learn (gpt.txt beside the program)\n"
        "  --layers N         (2)\n"
        "  --channels N       a multiple of the heads (64)\n"
        "  --heads N          of attention (4)\n"
        "  --context N        bytes of a sequence (32)\n"
        "  --untied           the head has a table of its own\n"
        "  --batch N          sequences per step over all ranks (24)\n"
        "  --steps N          (1000)\n"
        "  --learning-rate X  the peak, reached after a tenth of the steps (0.003)\n"
        "  --seed N           of the first parameters, batches and the sample (1)\n"
        "  --shards N         the same bits on any number of ranks: the batch is N\n"
        "                     virtual shards; 0: off (0)\n"
        "  --log FILE         write step and loss of every step\n"
        "  --every N          steps from one line of progress, with their mean loss, "
        "to the\n"
        "                     next (100)\n"
        "  --checkpoint DIR   save parameters and optimizer there, every --every "
        "steps\n"
        "                     and at the end; the last two are kept\n"
        "  --resume           go on from the newest checkpoint in DIR, if there is "
        "one;\n"
        "                     on any number of ranks\n"
        "  --commit N         under tuttirun --min-np: keep the state in the memory of "
        "the\n"
        "                     hosts every N steps, and go on from there when a rank "
        "dies;\n"
        "                     0: off (0)\n"
        "  --sample N         write N bytes at the end (0)\n"
        "  --kernels NAME     auto, plain, avx2 or avx512: all with the same bits "
        "(auto)\n"
        "  --shuffle-ready    mark gradients in a random order\n"
        "  --help             print this text\n";

/** An option with a whole number. */
struct number {
    const char *name;
    int min;
    int max;
    size_t offset; /* of an int in struct options */
};

static const struct number numbers[] = {
    { "layers", 1, MODEL_LAYERS_MAX, offsetof(struct options, shape.layers) },
    { "channels", 1, 4096, offsetof(struct options, shape.channels) },
    { "heads", 1, 64, offsetof(struct options, shape.heads) },
    { "context", 1, 4096, offsetof(struct options, shape.context) },
    { "batch", 1, 65536, offsetof(struct options, batch) },
    { "steps", 1, 1000000000, offsetof(struct options, steps) },
    { "shards", 0, 65536, offsetof(struct options, shards) },
    { "sample", 0, 1000000, offsetof(struct options, sample) },
    { "every", 1, 1000000000, offsetof(struct options, every) },
    { "commit", 0, 1000000000, offsetof(struct options, commit) },
};

enum {
    NUMBER_COUNT = sizeof numbers / sizeof numbers[0]
};

/** Values of the other long options; those before are the index of a number. */
enum {
    OPTION_FIRST = 256, /* ASCII is left to getopt's own answers */
    OPTION_TEXT = OPTION_FIRST + NUMBER_COUNT,
    OPTION_LOG,
    OPTION_RATE,
    OPTION_SEED,
    OPTION_KERNELS,
    OPTION_CHECKPOINT,
    OPTION_RESUME,
    OPTION_UNTIED,
    OPTION_SHUFFLE,
    OPTION_HELP
};

static const struct option others[] = {
    { "text", required_argument, NULL, OPTION_TEXT },
    { "log", required_argument, NULL, OPTION_LOG },
    { "learning-rate", required_argument, NULL, OPTION_RATE },
    { "seed", required_argument, NULL, OPTION_SEED },
    { "kernels", required_argument, NULL, OPTION_KERNELS },
    { "checkpoint", required_argument, NULL, OPTION_CHECKPOINT },
    { "resume", no_argument, NULL, OPTION_RESUME },
    { "untied", no_argument, NULL, OPTION_UNTIED },
    { "shuffle-ready", no_argument, NULL, OPTION_SHUFFLE },
    { "help", no_argument, NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

/** Where a failed option reports. */
struct complaint {
    char *text; /* receives the reason */
    size_t bytes; /* room in text */
};

static bool parse_number(const struct complaint *complaint, const struct number *number,
        const char *text, struct options *options)
{
    int *value = (int *)(void *)((char *)options + number->offset);
    char *end;
    long parsed;

    errno = 0;
    parsed = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || parsed < number->min ||
            parsed > number->max) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--%s %s: expected a whole number from %d to %d", number->name, text,
                number->min, number->max);
        return false;
    }
    *value = (int)parsed;
    return true;
}

static bool parse_rate(
        const struct complaint *complaint, const char *text, double *value)
{
    char *end;

    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(*value > 0.0 && *value <= 1.0)) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--learning-rate %s: expected a number above 0 and up to 1", text);
        return false;
    }
    return true;
}

static bool parse_seed(
        const struct complaint *complaint, const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *text == '-') {
        (void)snprintf(complaint->text, complaint->bytes,
                "--seed %s: expected a whole number from 0 to 2^64 - 1", text);
        return false;
    }
    return true;
}

static bool parse_kernels(
        const struct complaint *complaint, const char *text, struct options *options)
{
    options->kernels = kernels_find(text);
    if (options->kernels == NULL) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--kernels %s: expected auto, plain, avx2 or avx512, as far as the "
                "processor has them",
                text);
        return false;
    }
    return true;
}

/** Takes one option over; `given` is how the user wrote it. */
static bool apply(const struct complaint *complaint, int option, const char *given,
        struct options *options)
{
    switch (option) {
    case OPTION_TEXT:
        options->text = optarg;
        return true;
    case OPTION_LOG:
        options->log = optarg;
        return true;
    case OPTION_RATE:
        return parse_rate(complaint, optarg, &options->rate);
    case OPTION_SEED:
        return parse_seed(complaint, optarg, &options->seed);
    case OPTION_KERNELS:
        return parse_kernels(complaint, optarg, options);
    case OPTION_CHECKPOINT:
        options->checkpoint = optarg;
        return true;
    case OPTION_RESUME:
        options->resume = true;
        return true;
    case OPTION_UNTIED:
        options->shape.tied = false;
        return true;
    case OPTION_SHUFFLE:
        options->shuffle_ready = true;
        return true;
    case OPTION_HELP:
        options->help = true;
        return true;
    case ':':
        (void)snprintf(complaint->text, complaint->bytes, "%s needs a value", given);
        return false;
    default:
        if (option >= OPTION_FIRST && option < OPTION_TEXT) {
            return parse_number(
                    complaint, &numbers[option - OPTION_FIRST], optarg, options);
        }
        (void)snprintf(complaint->text, complaint->bytes,
                "unknown or ambiguous option %s; see --help", given);
        return false;
    }
}

static bool check(const struct complaint *complaint, const struct options *options)
{
    if (options->shape.channels % options->shape.heads != 0) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--channels %d is not a multiple of --heads %d",
                options->shape.channels, options->shape.heads);
        return false;
    }
    if (options->resume && options->checkpoint == NULL) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--resume needs --checkpoint DIR, where the checkpoints are");
        return false;
    }
    if (options->shards > 0 && options->batch % options->shards != 0) {
        (void)snprintf(complaint->text, complaint->bytes,
                "--batch %d is not a multiple of --shards %d", options->batch,
                options->shards);
        return false;
    }
    return true;
}

bool options_parse(
        struct options *options, int argc, char **argv, char *error, size_t error_bytes)
{
    struct complaint complaint = { .text = error, .bytes = error_bytes };
    struct option table[NUMBER_COUNT + sizeof others / sizeof others[0]];
    int option;

    *options = (struct options){
        .shape = { .layers = 2,
                .channels = 64,
                .heads = 4,
                .context = 32,
                .tied = true },
        .batch = 24,
        .steps = 1000,
        .every = 100,
        .rate = 0.003,
        .seed = 1,
        .kernels = kernels_find("auto"),
    };
    for (int i = 0; i < NUMBER_COUNT; i++) {
        table[i] = (struct option){ numbers[i].name, required_argument, NULL,
            OPTION_FIRST + i };
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        table[NUMBER_COUNT + i] = others[i];
    }
    opterr = 0; /* getopt would print on every rank */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the example parses in one thread */
    while ((option = getopt_long(argc, argv, ":", table, NULL)) != -1) {
        if (!apply(&complaint, option, argv[optind - 1], options)) {
            return false;
        }
    }
    if (optind < argc) {
        (void)snprintf(
                error, error_bytes, "unexpected argument %s; see --help", argv[optind]);
        return false;
    }
    return check(&complaint, options);
}
