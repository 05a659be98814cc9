/*
 * The table of horovodrun's flags.
 */
#include "launcher/horovod_flags.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum {
    WORD_MAX = 64, /* bytes of a word of `to` with its terminating zero */
    VALUE_MAX = 32 /* bytes of a converted value                        */
};

/* Megabytes, of which none means no fusion: here 1 byte does. */
static bool convert_megabytes(const char *value, char *text, size_t capacity)
{
    int64_t megabytes;

    if (!text_to_int64(value, &megabytes) || megabytes < 0) {
        return false;
    }
    return megabytes == 0 ? snprintf(text, capacity, "1") > 0
                          : snprintf(text, capacity, "%sm", value) < (int)capacity;
}

/* Names that differ; others are checked by the parameter. */
static bool convert_level(const char *value, char *text, size_t capacity)
{
    int index;

    if (text_to_choice(value, "warning|fatal", &index)) {
        return text_from_choice("warn|error", index, text, capacity);
    }
    return snprintf(text, capacity, "%s", value) < (int)capacity;
}

static bool convert_seconds(const char *value, char *text, size_t capacity)
{
    double seconds;

    return text_to_real(value, &seconds) && seconds >= 0 &&
            snprintf(text, capacity, "%s", value) < (int)capacity;
}

/* clang-format off */
static const struct horovod_flag flags[] = {
    { .name = "num-proc", .alias = "np", .argument = "N", .meaning = HOROVOD_SAME },
    { .name = "version", .meaning = HOROVOD_SAME,
      .note = "its letter is -V; -v is --verbose here, as mpirun has it" },
    { .name = "check-build", .alias = "cb", .meaning = HOROVOD_IS,
      .to = "--verbose --version", .note = "says what tutti was built with" },
    { .name = "help", .meaning = HOROVOD_SAME },
    { .name = "verbose", .meaning = HOROVOD_SAME },
    { .name = "config-file", .argument = "FILE", .meaning = HOROVOD_SAME,
      .note = "an unknown key is an error" },
    { .name = "disable-cache", .meaning = HOROVOD_NOTHING,
      .note = "what was found out about hosts is never kept for the next job" },
    { .name = "start-timeout", .argument = "SECONDS", .meaning = HOROVOD_SAME },
    { .name = "output-filename", .argument = "DIR", .meaning = HOROVOD_IS,
      .to = "--log-dir %" },
    { .name = "network-interfaces", .alias = "network-interface", .argument = "NAMES",
      .meaning = HOROVOD_REFUSED,
      .note = "names differ between hosts; say which network, as --nic 10.0.0.0/8" },
    { .name = "ssh-port", .argument = "PORT", .meaning = HOROVOD_SAME },
    { .name = "ssh-identity-file", .argument = "FILE", .meaning = HOROVOD_SAME },

    { .name = "hosts", .argument = "LIST", .meaning = HOROVOD_SAME,
      .note = "slots may be left out" },
    { .name = "hostfile", .argument = "FILE", .meaning = HOROVOD_SAME },
    { .name = "host-discovery-script", .argument = "FILE", .meaning = HOROVOD_SAME,
      .note = "asked once, when the job starts" },
    { .name = "slots-per-host", .argument = "N", .meaning = HOROVOD_SAME },

    { .name = "mpi", .meaning = HOROVOD_SAME, .key = "controller",
      .note = "alone it chooses nothing; before openmpi, mpich, ... it is our flag of "
              "that name" },
    { .name = "gloo", .meaning = HOROVOD_REFUSED,
      .note = "ranks are started by MPI or srun, and tutti has shared memory and MPI to "
              "reach them; leave the flag out" },
    { .name = "jsrun", .meaning = HOROVOD_REFUSED,
      .note = "jsrun is not among the engines; under LSF the hosts are found and mpirun "
              "starts the ranks: leave the flag out" },
    { .name = "mpi-args", .argument = "ARGS", .meaning = HOROVOD_SAME },
    { .name = "binding-args", .argument = "ARGS", .meaning = HOROVOD_IS,
      .to = "--bind mpi --mpi-args %", .note = "better: --bind auto, the default" },
    { .name = "tcp", .meaning = HOROVOD_REFUSED,
      .note = "the transports are MPI's to choose; with Open MPI give --mpi-args \"--mca "
              "pml ob1 --mca btl tcp,self\", with MPICH -x UCX_TLS=tcp,self" },
    { .name = "mpi-threads-disable", .meaning = HOROVOD_REFUSED,
      .key = "library_options.mpi_threads_disable", .off = "no-mpi-threads-disable",
      .note = "the program chooses MPI's thread level: what it asks of MPI_Init_thread() "
              "before tutti_init() is respected" },
    { .name = "no-mpi-threads-disable", .meaning = HOROVOD_NOTHING,
      .note = "the default" },
    { .name = "num-nccl-streams", .argument = "N", .meaning = HOROVOD_REFUSED,
      .key = "library_options.num_nccl_streams",
      .note = "all process sets share one NCCL stream, in one order; leave it out" },
    { .name = "thread-affinity", .argument = "CORES", .meaning = HOROVOD_REFUSED,
      .key = "library_options.thread_affinity",
      .note = "--bind auto, the default, leaves room for the library's thread on each "
              "rank's cores; leave it out" },
    { .name = "gloo-timeout-seconds", .argument = "N", .meaning = HOROVOD_REFUSED,
      .key = "library_options.gloo_timeout_seconds",
      .note = "there is no Gloo; how long a start may take is --start-timeout" },

    { .name = "fusion-threshold-mb", .argument = "N", .meaning = HOROVOD_IS,
      .key = "params.fusion_threshold_mb", .to = "--fusion-bytes %",
      .convert = convert_megabytes,
      .note = "64 becomes 64m, and 0 (no fusion) becomes 1; left out, the cache decides" },
    { .name = "cycle-time-ms", .argument = "N", .meaning = HOROVOD_NOTHING, .told = true,
      .key = "params.cycle_time_ms",
      .note = "there is no cycle: an operation starts when the last rank has submitted "
              "it" },
    { .name = "cache-capacity", .argument = "N", .meaning = HOROVOD_SAME,
      .key = "params.cache_capacity" },
    { .name = "hierarchical-allreduce", .meaning = HOROVOD_IS, .to = "--hierarchy auto",
      .key = "params.hierarchical_allreduce", .off = "no-hierarchical-allreduce",
      .note = "the default" },
    { .name = "no-hierarchical-allreduce", .meaning = HOROVOD_IS,
      .to = "--hierarchy flat", .note = "of all collectives" },
    { .name = "hierarchical-allgather", .meaning = HOROVOD_NOTHING,
      .key = "params.hierarchical_allgather", .off = "no-hierarchical-allgather",
      .note = "--hierarchy is of all collectives, and auto by default" },
    { .name = "no-hierarchical-allgather", .meaning = HOROVOD_NOTHING, .told = true,
      .note = "--hierarchy is of all collectives; flat switches it off" },
    { .name = "torus-allreduce", .meaning = HOROVOD_REFUSED,
      .key = "params.torus_allreduce", .off = "no-torus-allreduce",
      .note = "it belongs to GPUs, which are not there yet; --hierarchy says what there "
              "is" },
    { .name = "no-torus-allreduce", .meaning = HOROVOD_NOTHING, .note = "the default" },

    { .name = "autotune", .meaning = HOROVOD_REFUSED, .key = "autotune.enabled",
      .off = "no-autotune",
      .note = "nothing is tuned by trial: fusion follows the cache, and the layout of "
              "plans what was measured; leave it out" },
    { .name = "no-autotune", .meaning = HOROVOD_NOTHING, .note = "nothing is tuned" },
    { .name = "autotune-log-file", .argument = "FILE", .meaning = HOROVOD_REFUSED,
      .key = "autotune.log_file",
      .note = "nothing is tuned by trial; --log-level info says what plans do" },
    { .name = "autotune-warmup-samples", .argument = "N", .meaning = HOROVOD_REFUSED,
      .key = "autotune.warmup_samples",
      .note = "nothing is tuned by trial, so no samples are thrown away; leave it out" },
    { .name = "autotune-steps-per-sample", .argument = "N", .meaning = HOROVOD_REFUSED,
      .key = "autotune.steps_per_sample",
      .note = "nothing is tuned by trial, so there are no samples; leave it out" },
    { .name = "autotune-bayes-opt-max-samples", .argument = "N",
      .meaning = HOROVOD_REFUSED, .key = "autotune.bayes_opt_max_samples",
      .note = "nothing is tuned by trial, so there is no search to bound; leave it out" },
    { .name = "autotune-gaussian-process-noise", .argument = "X",
      .meaning = HOROVOD_REFUSED, .key = "autotune.gaussian_process_noise",
      .note = "nothing is tuned by trial, so there is no model with noise; leave it "
              "out" },

    { .name = "min-num-proc", .alias = "min-np", .argument = "N",
      .meaning = HOROVOD_REFUSED,
      .note = "elastic jobs are not there yet; the number of ranks is -np" },
    { .name = "max-num-proc", .alias = "max-np", .argument = "N",
      .meaning = HOROVOD_REFUSED,
      .note = "elastic jobs are not there yet, so a job cannot grow; the number of "
              "ranks is -np" },
    { .name = "elastic-timeout", .argument = "SECONDS", .meaning = HOROVOD_REFUSED,
      .note = "elastic jobs are not there yet; how long a start may take is "
              "--start-timeout" },
    { .name = "reset-limit", .argument = "N", .meaning = HOROVOD_REFUSED,
      .note = "elastic jobs are not there yet: a job that failed is not started again" },
    { .name = "blacklist-cooldown-range", .argument = "MIN MAX",
      .meaning = HOROVOD_REFUSED,
      .note = "elastic jobs are not there yet, and no host is ever blacklisted" },

    { .name = "timeline-filename", .argument = "FILE", .meaning = HOROVOD_REFUSED,
      .key = "timeline.filename",
      .note = "there is no timeline yet; tutti_stats_get() counts, and --log-level info "
              "tells" },
    { .name = "timeline-mark-cycles", .meaning = HOROVOD_REFUSED,
      .key = "timeline.mark_cycles", .off = "no-timeline-mark-cycles",
      .note = "there is no timeline yet, and there are no cycles; leave it out" },
    { .name = "no-timeline-mark-cycles", .meaning = HOROVOD_NOTHING,
      .note = "the default" },

    { .name = "stall-check", .meaning = HOROVOD_NOTHING, .key = "stall_check.enabled",
      .off = "no-stall-check", .note = "the default" },
    { .name = "no-stall-check", .meaning = HOROVOD_IS,
      .to = "--stall-warning-s 0 --stall-fail-s 0" },
    { .name = "stall-check-warning-time-seconds", .argument = "SECONDS",
      .meaning = HOROVOD_IS, .key = "stall_check.warning_time_seconds",
      .to = "--stall-warning-s %", .convert = convert_seconds },
    { .name = "stall-check-shutdown-time-seconds", .argument = "SECONDS",
      .meaning = HOROVOD_IS, .key = "stall_check.shutdown_time_seconds",
      .to = "--stall-fail-s %", .convert = convert_seconds },

    { .name = "log-level", .argument = "LEVEL", .meaning = HOROVOD_IS,
      .key = "logging.level", .to = "--log-level %", .convert = convert_level,
      .note = "WARNING is warn, FATAL is error" },
    { .name = "log-with-timestamp", .meaning = HOROVOD_REFUSED,
      .key = "logging.with_timestamp", .off = "log-without-timestamp",
      .note = "the library's log carries no time; --timestamps puts it before all that "
              "ranks print" },
    { .name = "log-without-timestamp", .meaning = HOROVOD_NOTHING,
      .note = "the default" },
    { .name = "prefix-output-with-timestamp", .alias = "prefix-timestamp",
      .meaning = HOROVOD_IS, .to = "--timestamps" },
};
/* clang-format on */

static const char *const groups[] = { "params", "autotune", "timeline", "stall_check",
    "library_options", "logging" };

const struct horovod_flag *horovod_flags(size_t *count)
{
    *count = sizeof flags / sizeof flags[0];
    return flags;
}

/* Equal but for '_' and '-'. */
static bool is_name(const char *ours, const char *name)
{
    for (; *ours != '\0' && (*name == '_' ? '-' : *name) == *ours; ours++) {
        name++;
    }
    return *ours == '\0' && *name == '\0';
}

const struct horovod_flag *horovod_flag_of_name(const char *name)
{
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (is_name(flags[i].name, name) ||
                (flags[i].alias != NULL && is_name(flags[i].alias, name))) {
            return &flags[i];
        }
    }
    return NULL;
}

const struct horovod_flag *horovod_flag_of_key(const char *key)
{
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (flags[i].key != NULL && strcmp(flags[i].key, key) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

bool horovod_is_group(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (strcmp(groups[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The value in our words, kept as long as options; NULL, with the error, when bad. */
static const char *convert(struct options *options, const struct horovod_flag *flag,
        const char *value, const char *origin)
{
    char text[VALUE_MAX];

    if (value == NULL || flag->convert == NULL) {
        return value == NULL ? "" : value;
    }
    if (!flag->convert(value, text, sizeof text)) {
        error_note("%s %s: the value of horovodrun's --%s is malformed", origin, value,
                flag->name);
        return NULL;
    }
    return options_keep(options, text);
}

/* The next word of *text, cut if it is longer than any of the table; "" at the end. */
static const char *next_word(const char **text, char *word)
{
    size_t len = strcspn(*text, " ");

    (void)snprintf(word, WORD_MAX, "%.*s", (int)len, *text);
    *text += len;
    *text += strspn(*text, " ");
    return word;
}

/* Sets the flags of `to` one after the other. */
static tutti_status apply_ours(struct options *options, const struct horovod_flag *flag,
        const char *value, const char *origin)
{
    const char *rest = flag->to;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && *rest != '\0') {
        char name[WORD_MAX];
        char word[WORD_MAX];
        const char *ours = NULL;

        (void)next_word(&rest, name);
        if (*rest != '\0' && rest[0] != '-') {
            (void)next_word(&rest, word);
            ours = strcmp(word, "%") == 0 ? value : options_keep(options, word);
        }
        status = arguments_status(&options->kept);
        if (status == TUTTI_OK) {
            status = options_set(options, name + 2, ours, origin);
        }
    }
    return status;
}

tutti_status horovod_flag_apply(struct options *options,
        const struct horovod_flag *flag, const char *value, const char *origin)
{
    const char *ours;

    switch (flag->meaning) {
    case HOROVOD_SAME:
        return TUTTI_OK;
    case HOROVOD_NOTHING:
        if (flag->told) {
            arguments_add_format(
                    &options->notes, "%s does nothing: %s", origin, flag->note);
        }
        return TUTTI_OK;
    case HOROVOD_REFUSED:
        return error_set(TUTTI_ERR_INVALID, "%s: %s", origin, flag->note);
    case HOROVOD_IS:
        break;
    }
    ours = convert(options, flag, value, origin);
    return ours == NULL ? TUTTI_ERR_INVALID : apply_ours(options, flag, ours, origin);
}
