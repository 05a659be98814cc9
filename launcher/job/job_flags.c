/*
 * Flags that say how a job is run, shown and ended.
 */
#include "launcher/flags.h"

static tutti_status apply_supervise(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, "off|on", &index);

    options->job.supervise = index == 1;
    return status;
}

static tutti_status apply_report(
        struct options *options, const char *value, const char *origin)
{
    (void)origin;
    options->job.report = value;
    return TUTTI_OK;
}

static const struct flag flags[] = {
    {
            .name = "supervise",
            .argument = "HOW",
            .help = "on: each rank has a supervisor that reports to tuttirun; off: "
                    "mpirun "
                    "alone looks after them",
            .apply = apply_supervise,
    },
    {
            .name = "report",
            .argument = "FILE",
            .help = "write what happened as JSON",
            .apply = apply_report,
    },
};

const struct flag_group job_flags = {
    .heading = "Output, failures and the end",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
