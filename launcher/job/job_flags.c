/*
 * Flags that say how a job is run, shown and ended.
 */
#include "base/error.h"
#include "base/text.h"
#include "launcher/flags.h"
#include "launcher/job/rank_list.h"

void job_options_init(struct job_options *job)
{
    *job = (struct job_options){
        .supervise = true,
        .beat_ms = 100,
        .silent_ms = 3000,
        .grace_ms = 300,
        .kill_ms = 300,
        .start_ms = 30000,
    };
}

enum {
    SECONDS_MAX = 2000000, /* whose milliseconds an int can hold              */
    SILENT_S_MAX = 86400 /* a day: supervisors are not told of more           */
};

/* With fewer, a rank would be given up between two of them. */
enum {
    BEATS_MIN = 2
};

tutti_status job_options_check(const struct job_options *job)
{
    if (job->silent_ms < BEATS_MIN * job->beat_ms) {
        return error_set(TUTTI_ERR_INVALID,
                "--heartbeat-timeout %g is shorter than %d heartbeats of "
                "--heartbeat-ms %d; raise it, or lower --heartbeat-ms",
                job->silent_ms / 1000.0, BEATS_MIN, job->beat_ms);
    }
    return TUTTI_OK;
}

static const char supervise_choices[] = "off|on";

static tutti_status apply_supervise(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, supervise_choices, &index);

    options->job.supervise = index == 1;
    return status;
}

static tutti_status apply_prefix(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, "auto|on|off", &index);

    options->job.prefix = (enum job_prefix)index;
    return status;
}

static tutti_status apply_timestamps(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    if (options->job.timestamps == JOB_TIMESTAMPS_OFF) {
        options->job.timestamps = JOB_TIMESTAMPS_ISO;
    }
    return TUTTI_OK;
}

static tutti_status apply_timestamp_form(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, "off|iso|seconds", &index);

    options->job.timestamps = (enum job_timestamps)index;
    return status;
}

static tutti_status apply_only_ranks(
        struct options *options, const char *value, const char *origin)
{
    if (!rank_list_is_valid(value)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: write ranks with commas between, such as 0,3-5", origin, value);
    }
    options->job.only_ranks = value;
    return TUTTI_OK;
}

static tutti_status read_path(const char **path, const char *value, const char *origin)
{
    if (value[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s: the path is empty", origin);
    }
    *path = value;
    return TUTTI_OK;
}

static tutti_status apply_log_dir(
        struct options *options, const char *value, const char *origin)
{
    return read_path(&options->job.log_folder, value, origin);
}

static tutti_status apply_report(
        struct options *options, const char *value, const char *origin)
{
    return read_path(&options->job.report, value, origin);
}

static tutti_status apply_output_rate(
        struct options *options, const char *value, const char *origin)
{
    if (!text_to_size(value, &options->job.output_rate)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: write bytes per second, such as 64k", origin, value);
    }
    return TUTTI_OK;
}

static tutti_status read_ms(int *ms, const char *value, const char *origin, int min)
{
    int64_t number;

    if (!text_to_int64(value, &number) || number < min || number > 3600000) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: write milliseconds, %d to 3600000",
                origin, value, min);
    }
    *ms = (int)number;
    return TUTTI_OK;
}

/* Seconds with a fraction, as milliseconds. */
static tutti_status read_seconds(
        int *ms, const char *value, const char *origin, double min, int max)
{
    double seconds;

    if (!text_to_real(value, &seconds) || seconds < min || seconds > max) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: write seconds, %g to %d", origin,
                value, min, max);
    }
    *ms = (int)(seconds * 1000);
    return TUTTI_OK;
}

static tutti_status apply_heartbeat_ms(
        struct options *options, const char *value, const char *origin)
{
    tutti_status status = read_ms(&options->job.beat_ms, value, origin, 10);

    if (status == TUTTI_OK && options->job.beat_ms > 60000) {
        return error_set(
                TUTTI_ERR_INVALID, "%s %s: at most 60000 milliseconds", origin, value);
    }
    return status;
}

static tutti_status apply_heartbeat_timeout(
        struct options *options, const char *value, const char *origin)
{
    return read_seconds(&options->job.silent_ms, value, origin, 0.1, SILENT_S_MAX);
}

static tutti_status apply_grace_ms(
        struct options *options, const char *value, const char *origin)
{
    return read_ms(&options->job.grace_ms, value, origin, 0);
}

static tutti_status apply_kill_ms(
        struct options *options, const char *value, const char *origin)
{
    return read_ms(&options->job.kill_ms, value, origin, 0);
}

static tutti_status apply_start_timeout(
        struct options *options, const char *value, const char *origin)
{
    return read_seconds(&options->job.start_ms, value, origin, 0.1, SECONDS_MAX);
}

static tutti_status apply_timeout(
        struct options *options, const char *value, const char *origin)
{
    return read_seconds(&options->job.timeout_ms, value, origin, 0.001, SECONDS_MAX);
}

static const struct flag flags[] = {
    {
            .name = "prefix",
            .argument = "HOW",
            .choices = "auto|on|off",
            .help = "auto, on or off: mark each line with [rank@host]; auto: when "
                    "there "
                    "is more than one rank",
            .apply = apply_prefix,
    },
    {
            .name = "timestamps",
            .help = "mark each line with when it was written",
            .apply = apply_timestamps,
    },
    {
            .name = "timestamp-form",
            .argument = "FORM",
            .choices = "off|iso|seconds",
            .help = "off, iso (date and time, UTC) or seconds (since the start)",
            .apply = apply_timestamp_form,
    },
    {
            .name = "only-ranks",
            .argument = "LIST",
            .help = "show the output of these ranks only: 0,3-5",
            .apply = apply_only_ranks,
    },
    {
            .name = "log-dir",
            .argument = "DIR",
            .help = "write the output of each rank to DIR/rank.N/stdout and stderr",
            .apply = apply_log_dir,
    },
    {
            .name = "output-rate",
            .argument = "BYTES",
            .help = "show at most so many bytes per second of each rank; 0: all",
            .apply = apply_output_rate,
    },
    {
            .name = "report",
            .argument = "FILE",
            .help = "write what happened to each rank to FILE, as JSON",
            .apply = apply_report,
    },
    {
            .name = "timeout",
            .argument = "SECONDS",
            .help = "end the job after this time, with exit status 124",
            .apply = apply_timeout,
    },
    {
            .name = "start-timeout",
            .argument = "SECONDS",
            .help = "give up when not all ranks have started by then; default 30",
            .apply = apply_start_timeout,
    },
    {
            .name = "heartbeat-timeout",
            .argument = "SECONDS",
            .help = "from the last sign of a rank that fell silent to the end of the "
                    "job; default 3",
            .apply = apply_heartbeat_timeout,
    },
    {
            .name = "heartbeat-ms",
            .argument = "MS",
            .help = "between two heartbeats; default 100",
            .apply = apply_heartbeat_ms,
    },
    {
            .name = "grace-ms",
            .argument = "MS",
            .help = "that ranks have to end by themselves after a failure; default 300",
            .apply = apply_grace_ms,
    },
    {
            .name = "kill-ms",
            .argument = "MS",
            .help = "between SIGTERM and SIGKILL for ranks that did not; default 300",
            .apply = apply_kill_ms,
    },
    {
            .name = "supervise",
            .argument = "HOW",
            .choices = "on|off",
            .help = "on: each rank has a supervisor that reports to tuttirun; off: "
                    "mpirun alone looks after them",
            .apply = apply_supervise,
    },
};

const struct flag_group job_flags = {
    .heading = "Output, failures and the end",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
