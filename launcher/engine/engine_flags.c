/*
 * Flags that say what starts the ranks.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/flags.h"

static const char engine_choices[] = "auto|openmpi|mpich|intel|srun";

static tutti_status apply_engine(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, engine_choices, &index);

    options->engine.kind = (enum engine_kind)index;
    return status;
}

static tutti_status apply_mpirun(
        struct options *options, const char *value, const char *origin)
{
    if (value[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s: the path is empty", origin);
    }
    options->engine.mpirun = value;
    return TUTTI_OK;
}

static tutti_status apply_mpi_args(
        struct options *options, const char *value, const char *origin)
{
    return arguments_split(&options->engine.mpi_args, value, origin);
}

/* A word that must not be empty and is kept as it is. */
static tutti_status keep_text(const char **kept, const char *value, const char *origin)
{
    if (value[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s: the value is empty", origin);
    }
    *kept = value;
    return TUTTI_OK;
}

static tutti_status apply_nic(
        struct options *options, const char *value, const char *origin)
{
    return keep_text(&options->engine.nic, value, origin);
}

static tutti_status apply_ssh_port(
        struct options *options, const char *value, const char *origin)
{
    int64_t port;

    if (!text_to_int64(value, &port) || port < 1 || port > 65535) {
        return error_set(
                TUTTI_ERR_INVALID, "%s %s: write a port, 1 to 65535", origin, value);
    }
    options->engine.ssh_port = (int)port;
    return TUTTI_OK;
}

static tutti_status apply_ssh_identity(
        struct options *options, const char *value, const char *origin)
{
    return keep_text(&options->engine.ssh_identity, value, origin);
}

static tutti_status apply_ssh_config(
        struct options *options, const char *value, const char *origin)
{
    return keep_text(&options->engine.ssh_config, value, origin);
}

static tutti_status apply_ssh_args(
        struct options *options, const char *value, const char *origin)
{
    return arguments_split(&options->engine.ssh_args, value, origin);
}

static tutti_status apply_any_mpi(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->engine.any_mpi = true;
    return TUTTI_OK;
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

static const struct flag flags[] = {
    {
            .name = "engine",
            .alias = "mpi",
            .argument = "NAME",
            .choices = engine_choices,
            .help = "what starts the ranks: openmpi, mpich, intel, srun or auto: the "
                    "mpirun of the MPI in use, else srun",
            .apply = apply_engine,
    },
    {
            .name = "mpirun",
            .argument = "PATH",
            .help = "the mpirun to use",
            .apply = apply_mpirun,
    },
    {
            .name = "mpi-args",
            .argument = "ARGS",
            .help = "more arguments for mpirun, in one word: --mpi-args "
                    "\"--tag-output\"",
            .apply = apply_mpi_args,
    },
    {
            .name = "any-mpi",
            .help = "start a program that is linked to another MPI than the engine's",
            .apply = apply_any_mpi,
    },
    {
            .name = "nic",
            .argument = "RANGES",
            .help = "the network to use, by addresses: 10.0.0.0/8,fd00::/64; without: "
                    "the one on the way to the hosts; mpi: whichever MPI chooses",
            .apply = apply_nic,
    },
    {
            .name = "ssh-port",
            .letter = 'p',
            .argument = "PORT",
            .help = "the port of the hosts' ssh servers",
            .apply = apply_ssh_port,
    },
    {
            .name = "ssh-identity-file",
            .alias = "ssh-identity",
            .letter = 'i',
            .argument = "FILE",
            .help = "the key that ssh shows",
            .apply = apply_ssh_identity,
    },
    {
            .name = "ssh-config",
            .argument = "FILE",
            .help = "ssh's configuration",
            .apply = apply_ssh_config,
    },
    {
            .name = "ssh-args",
            .argument = "ARGS",
            .help = "more arguments for ssh, in one word: --ssh-args \"-o "
                    "LogLevel=ERROR\"",
            .apply = apply_ssh_args,
    },
    {
            .name = "export",
            .letter = 'x',
            .argument = "NAME[=VALUE]",
            .help = "set a variable for all ranks, or hand ours on to them; TUTTI_* "
                    "and "
                    "HOROVOD_* are handed on by themselves",
            .apply = apply_export,
    },
};

const struct flag_group engine_flags = {
    .heading = "How they are started",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
