/*
 * Flags that say where ranks run.
 */
#include "base/error.h"
#include "base/text.h"
#include "launcher/flags.h"

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
    if (options->hosts.list.count == 0) {
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

    return status != TUTTI_OK ? status : host_list_parse(&options->hosts.list, value);
}

static tutti_status apply_hostfile(
        struct options *options, const char *value, const char *origin)
{
    tutti_status status = refuse_second_hosts(options, value, origin);

    return status != TUTTI_OK ? status : host_list_read(&options->hosts.list, value);
}

static tutti_status apply_script(
        struct options *options, const char *value, const char *origin)
{
    if (value[0] == '\0') {
        return error_set(TUTTI_ERR_INVALID, "%s: the script has no name", origin);
    }
    options->hosts.script = value;
    return TUTTI_OK;
}

static tutti_status apply_slots_per_host(
        struct options *options, const char *value, const char *origin)
{
    int64_t slots;

    if (!text_to_int64(value, &slots) || slots < 1 || slots > HOST_SLOTS_LIMIT) {
        return error_set(TUTTI_ERR_INVALID,
                "%s %s: the slots of a host are from 1 to %d", origin, value,
                HOST_SLOTS_LIMIT);
    }
    options->hosts.slots_per_host = (int)slots;
    return TUTTI_OK;
}

static const struct flag flags[] = {
    {
            .name = "np",
            .alias = "num-proc",
            .letter = 'n',
            .argument = "N",
            .help = "number of ranks; without it all slots of the hosts given",
            .apply = apply_ranks,
    },
    {
            .name = "hosts",
            .alias = "host",
            .letter = 'H',
            .argument = "LIST",
            .help = "hosts and their slots, a:2,b:4; one slot where no number is",
            .apply = apply_hosts,
    },
    {
            .name = "hostfile",
            .argument = "FILE",
            .help = "hosts from a file: lines 'host slots=N' or 'host:N', # comments",
            .apply = apply_hostfile,
    },
    {
            .name = "host-discovery-script",
            .argument = "FILE",
            .help = "hosts from a program that prints lines 'host' or 'host:N'",
            .apply = apply_script,
    },
    {
            .name = "slots-per-host",
            .argument = "N",
            .help = "slots of each host that comes without a number of them",
            .apply = apply_slots_per_host,
    },
};

const struct flag_group hosts_flags = {
    .heading = "Ranks and hosts",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};
