/*
 * The defaults of an optimizer, and what is refused.
 */
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "optimizer/optimizer.h"

void tutti_optimizer_options_default_sized(
        tutti_optimizer_options *options, size_t size)
{
    const tutti_optimizer_options defaults = {
        .size = size,
        .kind = TUTTI_OPTIMIZER_ADAMW,
        .learning_rate = 1e-3,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .prefix = "optimizer",
    };

    options_give(options, size, &defaults, sizeof defaults);
}

const char *optimizer_kind_name(tutti_optimizer_kind kind)
{
    static const char *const names[] = { "SGD", "Adam", "AdamW", "LAMB", "custom" };

    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

/** A number among the options, which must be the same on all ranks. */
struct number {
    const char *name;
    double value; /* 0 or more, and below the next */
    double below;
};

enum {
    NUMBERS = 10
};

static void list_numbers(
        const tutti_optimizer_options *options, struct number numbers[NUMBERS])
{
    const struct number mine[NUMBERS] = {
        { "options.kind", options->kind, TUTTI_OPTIMIZER_CUSTOM + 1 },
        { "options.learning_rate", options->learning_rate, INFINITY },
        { "options.momentum", options->momentum, INFINITY },
        { "options.nesterov", options->nesterov, INFINITY },
        { "options.beta1", options->beta1, 1 },
        { "options.beta2", options->beta2, 1 },
        { "options.epsilon", options->epsilon, INFINITY },
        { "options.weight_decay", options->weight_decay, INFINITY },
        { "options.sharded", options->sharded, INFINITY },
        { "options.state_bytes", (double)options->state_bytes,
                OPTIMIZER_STATE_BYTES_MAX + 1 },
    };

    memcpy(numbers, mine, sizeof mine);
}

static tutti_status check_numbers(const tutti_optimizer_options *options)
{
    struct number numbers[NUMBERS];

    list_numbers(options, numbers);
    for (int i = 0; i < NUMBERS; i++) {
        if (!(numbers[i].value >= 0 && numbers[i].value < numbers[i].below)) {
            return error_set(TUTTI_ERR_INVALID,
                    "tutti_optimizer_create: %s is %g; it must be 0 or more and below "
                    "%g",
                    numbers[i].name, numbers[i].value, numbers[i].below);
        }
    }
    return TUTTI_OK;
}

tutti_status optimizer_agree(const struct state_group *group, tutti_status status,
        const tutti_optimizer_options *options)
{
    struct number numbers[NUMBERS];
    struct setting settings[NUMBERS + 1];

    list_numbers(options, numbers);
    for (int i = 0; i < NUMBERS; i++) {
        settings[i] = number_setting(numbers[i].name, numbers[i].value);
    }
    settings[NUMBERS] = text_setting("options.prefix", options->prefix);
    return group_same(group, status, settings, NUMBERS + 1, NULL);
}

static tutti_status check_combination(
        const tutti_optimizer_options *options, const tutti_reducer *reducer)
{
    const char *why = NULL;

    if (options->nesterov &&
            (options->kind != TUTTI_OPTIMIZER_SGD || options->momentum <= 0)) {
        why = "options.nesterov is for SGD with a momentum above 0";
    } else if ((options->kind == TUTTI_OPTIMIZER_CUSTOM) != (options->update != NULL)) {
        why = "options.update is for TUTTI_OPTIMIZER_CUSTOM, which needs it";
    } else if (options->state_bytes > 0 && options->update == NULL) {
        why = "options.state_bytes is for a custom update";
    } else if (options->prefix == NULL || options->prefix[0] == '\0' ||
            strlen(options->prefix) > OPTIMIZER_PREFIX_MAX) {
        why = "options.prefix must have 1 to 40 bytes";
    }
    if (why != NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_optimizer_create: %s", why);
    }
    if (options->kind == TUTTI_OPTIMIZER_LAMB && options->sharded &&
            reducer_options(reducer)->shards > 0) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "tutti_optimizer_create: the norms of a sharded LAMB are sums over "
                "ranks, whose bits depend on the number of ranks; with "
                "reducer_options.shards set sharded to false");
    }
    return TUTTI_OK;
}

tutti_status optimizer_take_options(
        tutti_optimizer *optimizer, const tutti_optimizer_options *options)
{
    tutti_optimizer_options *mine = &optimizer->options;
    tutti_status status;

    tutti_optimizer_options_default(mine);
    if (options != NULL && options->size == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_optimizer_create: options.size is 0; call "
                "tutti_optimizer_options_default()");
    }
    options_take(mine, sizeof *mine, options);
    status = check_numbers(mine);
    if (status == TUTTI_OK) {
        status = check_combination(mine, optimizer->reducer);
    }
    if (status == TUTTI_OK) {
        (void)snprintf(optimizer->prefix, sizeof optimizer->prefix, "%s", mine->prefix);
        mine->prefix = optimizer->prefix;
    }
    return status;
}
