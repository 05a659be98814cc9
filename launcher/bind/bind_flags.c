/*
 * Flags that say what a rank gets of its host.
 */
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

static const struct flag flags[] = {
    {
            .name = "bind",
            .argument = "HOW",
            .choices = bind_choices,
            .help = "auto: each rank gets its share of its host's cores; none: nobody "
                    "binds; mpi: left to mpirun",
            .apply = apply_bind,
    },
};

const struct flag_group bind_flags = {
    .heading = "What a rank gets of its host",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
