/*
 * The flags of tuttirun itself, and what each does.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/options.h"

static tutti_status apply_ranks(
        struct options *options, const char *value, const char *origin)
{
    int64_t ranks;

    if (!text_to_int64(value, &ranks) || ranks < 1 || ranks > RANKS_LIMIT) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: the number of ranks is from 1 to %d", origin, value,
                RANKS_LIMIT);
    }
    options->ranks = (int)ranks;
    return TUTTI_OK;
}

static tutti_status refuse_second_hosts(
        const struct options *options, const char *value, const char *origin)
{
    if (options->hosts.count == 0) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "%s %s: hosts are given already; use one of -H and --hostfile, once",
            origin, value);
}

static tutti_status apply_hosts(
        struct options *options, const char *value, const char *origin)
{
    tutti_status status = refuse_second_hosts(options, value, origin);

    return status != TUTTI_OK ? status : host_list_parse(&options->hosts, value);
}

static tutti_status apply_hostfile(
        struct options *options, const char *value, const char *origin)
{
    tutti_status status = refuse_second_hosts(options, value, origin);

    return status != TUTTI_OK ? status : host_list_read(&options->hosts, value);
}

static tutti_status read_choice(
        const char *value, const char *origin, const char *choices, int *index)
{
    if (!text_to_choice(value, choices, index)) {
        return error_set(
                TUTTI_ERR_INVALID, "%s %s: choose one of %s", origin, value, choices);
    }
    return TUTTI_OK;
}

static tutti_status apply_mpi(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = read_choice(value, origin, "auto|openmpi|mpich", &index);

    options->family = (enum mpi_family)index;
    return status;
}

static tutti_status apply_mpirun(
        struct options *options, const char *value, const char *origin)
{
    if (value[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s: the path is empty", origin);
    }
    options->mpirun = value;
    return TUTTI_OK;
}

static tutti_status apply_mpi_args(
        struct options *options, const char *value, const char *origin)
{
    return arguments_split(&options->mpi_args, value, origin);
}

static tutti_status apply_bind(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = read_choice(value, origin, "auto|none|mpi", &index);

    options->bind = (enum options_bind)index;
    return status;
}

static tutti_status apply_export(
        struct options *options, const char *value, const char *origin)
{
    char name[256];
    size_t len = strcspn(value, "=");

    if (len == 0 || len >= sizeof name || isdigit((unsigned char)value[0]) != 0 ||
            strspn(value,
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                    "0123456789_") != len) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: write NAME or NAME=VALUE, a name of letters, digits and '_'",
                origin, value);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)len, value);
    arguments_set(&options->exports, name, value[len] == '=' ? value + len + 1 : NULL);
    return TUTTI_OK;
}

static tutti_status apply_dry_run(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->dry_run = true;
    return TUTTI_OK;
}

static tutti_status apply_verbose(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->verbose = true;
    return TUTTI_OK;
}

static tutti_status apply_help(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->action = OPTIONS_HELP;
    return TUTTI_OK;
}

static tutti_status apply_version(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->action = OPTIONS_VERSION;
    return TUTTI_OK;
}

static const char ranks_group[] = "Ranks and hosts";
static const char mpi_group[] = "How they are started";
static const char other_group[] = "Other";

static const struct flag flags[] = {
    {
            .name = "np",
            .alias = "num-proc",
            .letter = 'n',
            .argument = "N",
            .group = ranks_group,
            .help = "number of ranks; without it all slots of the hosts given",
            .apply = apply_ranks,
    },
    {
            .name = "hosts",
            .alias = "host",
            .letter = 'H',
            .argument = "LIST",
            .group = ranks_group,
            .help = "hosts and their slots, a:2,b:4; one slot where no number is",
            .apply = apply_hosts,
    },
    {
            .name = "hostfile",
            .argument = "FILE",
            .group = ranks_group,
            .help = "hosts from a file: lines 'host slots=N' or 'host:N', # comments",
            .apply = apply_hostfile,
    },
    {
            .name = "mpi",
            .argument = "NAME",
            .group = mpi_group,
            .help = "openmpi, mpich or auto: the one that tutti was built with",
            .apply = apply_mpi,
    },
    {
            .name = "mpirun",
            .argument = "PATH",
            .group = mpi_group,
            .help = "the mpirun to use",
            .apply = apply_mpirun,
    },
    {
            .name = "mpi-args",
            .argument = "ARGS",
            .group = mpi_group,
            .help = "more arguments for mpirun, in one word: --mpi-args "
                    "\"--tag-output\"",
            .apply = apply_mpi_args,
    },
    {
            .name = "bind",
            .argument = "HOW",
            .group = mpi_group,
            .help = "auto: each rank gets its share of its host's cores; none: nobody "
                    "binds; mpi: left to mpirun",
            .apply = apply_bind,
    },
    {
            .name = "export",
            .letter = 'x',
            .argument = "NAME[=VALUE]",
            .group = mpi_group,
            .help = "set a variable for all ranks, or hand ours on to them; TUTTI_* "
                    "and "
                    "HOROVOD_* are handed on by themselves",
            .apply = apply_export,
    },
    {
            .name = "dry-run",
            .group = other_group,
            .help = "print the command that would be run, and run nothing",
            .apply = apply_dry_run,
    },
    {
            .name = "verbose",
            .letter = 'v',
            .group = other_group,
            .help = "say what is run and how ranks are bound",
            .apply = apply_verbose,
    },
    {
            .name = "version",
            .letter = 'V',
            .group = other_group,
            .help = "print the version",
            .apply = apply_version,
    },
    {
            .name = "help",
            .letter = 'h',
            .group = other_group,
            .help = "print this",
            .apply = apply_help,
    },
};

const struct flag *options_flags(size_t *count)
{
    *count = sizeof flags / sizeof flags[0];
    return flags;
}
