/*
 * Flags that say what a rank gets of its host.
 */
#include <string.h>

#include "base/error.h"
#include "launcher/flags.h"

static const char bind_choices[] = "auto|none|mpi";

static tutti_status apply_bind(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, bind_choices, &index);

    options->bind.how = (enum options_bind)index;
    return status;
}

static tutti_status apply_gpus_visible(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, "all|one", &index);

    options->bind.one_gpu = index == 1;
    return status;
}

static tutti_status apply_show_binding(
        struct options *options, const char *value, const char *origin)
{
    const char *ending = value == NULL ? NULL : strrchr(value, '.');
    bool is_svg = value != NULL &&
            (strcmp(value, "svg") == 0 ||
                    (ending != NULL && strcmp(ending, ".svg") == 0));

    if (value != NULL && !is_svg && strcmp(value, "text") != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: choose text, svg or a file whose name ends in .svg", origin,
                value);
    }
    options->bind.show = true;
    options->bind.show_as = is_svg ? value : NULL;
    return TUTTI_OK;
}

static const struct flag flags[] = {
    {
            .name = "bind",
            .argument = "HOW",
            .choices = bind_choices,
            .help = "auto: each rank gets a GPU and its share of the cores near it; "
                    "none: nobody binds; mpi: left to mpirun",
            .apply = apply_bind,
    },
    {
            .name = "gpus-visible",
            .argument = "HOW",
            .choices = "all|one",
            .help = "all: a rank sees all GPUs of its host, and TUTTI_LOCAL_DEVICE "
                    "says "
                    "which is its own; one: it sees only that one, as device 0",
            .apply = apply_gpus_visible,
    },
    {
            .name = "show-binding",
            .argument = "FORM",
            .optional = true,
            .help = "draw what each rank would get of this host, and start nothing; as "
                    "text, as svg, or into a file whose name ends in .svg",
            .apply = apply_show_binding,
    },
};

const struct flag_group bind_flags = {
    .heading = "What a rank gets of its host",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
