/*
 * Flags that say what starts the ranks.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/flags.h"

static tutti_status apply_mpi(
        struct options *options, const char *value, const char *origin)
{
    int index = 0;
    tutti_status status = flag_read_choice(value, origin, "auto|openmpi|mpich", &index);

    options->engine.family = (enum mpi_family)index;
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

static tutti_status apply_ssh_port(
        struct options *options, const char *value, const char *origin)
{
    int64_t port;

    if (!text_to_int64(value, &port) || port < 1 || port > 65535) {
        return error_set(
                TUTTI_ERR_INVALID, "%s %s: a port is from 1 to 65535", origin, value);
    }
    options->engine.ssh_port = (int)port;
    return TUTTI_OK;
}

static tutti_status apply_ssh_identity(
        struct options *options, const char *value, const char *origin)
{
    (void)origin;
    options->engine.ssh_identity = value;
    return TUTTI_OK;
}

static tutti_status apply_ssh_config(
        struct options *options, const char *value, const char *origin)
{
    (void)origin;
    options->engine.ssh_config = value;
    return TUTTI_OK;
}

static tutti_status apply_ssh_args(
        struct options *options, const char *value, const char *origin)
{
    return arguments_split(&options->engine.ssh_args, value, origin);
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
            .name = "mpi",
            .argument = "NAME",
            .help = "openmpi, mpich or auto: the one that tutti was built with",
            .apply = apply_mpi,
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
            .name = "ssh-port",
            .letter = 'p',
            .argument = "PORT",
            .help = "the port of sshd on the hosts",
            .apply = apply_ssh_port,
    },
    {
            .name = "ssh-identity-file",
            .letter = 'i',
            .argument = "FILE",
            .help = "the key that ssh uses",
            .apply = apply_ssh_identity,
    },
    {
            .name = "ssh-config",
            .argument = "FILE",
            .help = "the configuration that ssh uses, instead of ~/.ssh/config",
            .apply = apply_ssh_config,
    },
    {
            .name = "ssh-args",
            .argument = "ARGS",
            .help = "more arguments for ssh, in one word",
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
