/*
 * The flag that looks at hosts instead of running a job.
 */
#include "launcher/flags.h"

static tutti_status apply_check(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->check = true;
    return TUTTI_OK;
}

static const struct flag flags[] = {
    {
            .name = "check",
            .help = "run nothing; say whether jobs can run on the hosts: ssh, "
                    "versions, "
                    "MPI, shared memory, GPUs, connections between all of them",
            .apply = apply_check,
    },
};

const struct flag_group check_flags = {
    .heading = "Looking at hosts",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
