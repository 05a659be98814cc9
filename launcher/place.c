#include "launcher/place.h"

#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/join/join.h"
#include "launcher/join/secret.h"
#include "launcher/session/server.h"

enum {
    JOIN_PORT = 47108
};

/* A variable of the ranks, unless the user set it. */
static void export_number(struct options *options, const char *name, int number)
{
    char text[16];

    if (!arguments_has(&options->export, name)) {
        (void)snprintf(text, sizeof text, "%d", number);
        arguments_set(&options->export, name, text);
    }
}

static tutti_status take(struct options *options, const struct placement *placement)
{
    struct host_list hosts = { .hosts = NULL };
    tutti_status status = host_list_copy(&hosts, &placement->hosts);

    if (status != TUTTI_OK) {
        return status;
    }
    host_list_fini(&options->hosts);
    options->hosts = hosts;
    if (options->np == 0) {
        options->np = placement->ranks;
    }
    status = options_settle_ranks(options, &options->hosts);
    if (status == TUTTI_OK && placement->shard.count > 0) {
        export_number(options, "SHARD_INDEX", placement->shard.index);
        export_number(options, "SHARD_COUNT", placement->shard.count);
        status = arguments_status(&options->export);
    }
    return status;
}

/* Tells the ranks what they are, if that was asked for and is known. */
static tutti_status export_roles(
        struct options *options, const struct placement *placement)
{
    if (!options->roles) {
        return TUTTI_OK;
    }
    if (placement->roles == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--roles takes the hosts and roles of TF_CONFIG, but the hosts are "
                "from %s",
                placement->source);
    }
    arguments_set(&options->export, "TUTTI_ROLES", placement->roles);
    return arguments_status(&options->export);
}

static void say(const struct options *options, const struct placement *placement)
{
    char text[ERROR_TEXT_MAX];

    (void)fprintf(stderr, "tuttirun: %s\n",
            placement_describe(placement, options->np, text, sizeof text));
    if (placement->shard.count > 0) {
        (void)fprintf(stderr,
                "tuttirun: an array job: its ranks have SHARD_INDEX=%d of "
                "SHARD_COUNT=%d\n",
                placement->shard.index, placement->shard.count);
    }
}

/* The hosts that join us. A dry run asks nobody, and so knows only those with names. */
static tutti_status gather(const struct options *options, struct placement *placement)
{
    const int slots = options->slots_per_host > 0 ? options->slots_per_host : 1;
    const int ranks = options->np > 0 ? options->np : placement->join.nodes * slots;

    if (!options->dry_run) {
        /* They may take minutes, after which it would be too late to say that they are too many. */
        if (options->supervise && server_raise_limit(ranks) != TUTTI_OK) {
            return TUTTI_ERR_INVALID;
        }
        return join_gather(placement, options->join_timeout, options->slots_per_host);
    }
    return placement->hosts.count > 0
            ? TUTTI_OK
            : error_set(TUTTI_ERR_INVALID,
                      "%s: its hosts are known when they have joined, for which "
                      "--dry-run does not wait",
                      placement->source);
}

tutti_status place_wait(
        const struct options *options, const struct placement *placement)
{
    if (placement->join.nodes == 0 || options->dry_run) {
        (void)fprintf(
                stderr, "tuttirun: %s: another host runs the job\n", placement->source);
        return TUTTI_OK;
    }
    if (options->verbose) {
        (void)fprintf(stderr, "tuttirun: %s: host %s runs the job\n", placement->source,
                placement->join.first);
    }
    return join_serve(placement, options->join_timeout);
}

tutti_status place_ranks(
        struct options *options, char *const *environment, struct placement *placement)
{
    char own_name[HOST_NAME_LIMIT] = "";
    struct source_facts facts = {
        .options = options,
        .environment = environment,
        .root = "",
        .own_name = own_name,
    };
    tutti_status status;

    (void)gethostname(own_name, sizeof own_name - 1);
    status = source_resolve(&facts, placement);
    if (options->join_port > 0 || placement->join.port == 0) {
        placement->join.port = options->join_port > 0 ? options->join_port : JOIN_PORT;
    }
    if (status == TUTTI_OK && placement->join.nodes > 1 && !options->dry_run) {
        status = join_secret_read(options, environment, &placement->join);
    }
    if (status != TUTTI_OK || placement->waits) {
        return status;
    }
    if (placement->join.nodes > 1) {
        status = gather(options, placement);
    }
    if (status == TUTTI_OK) {
        status = take(options, placement);
    }
    if (status == TUTTI_OK) {
        status = export_roles(options, placement);
    }
    if (status == TUTTI_OK && (options->verbose || options->dry_run)) {
        say(options, placement);
    }
    return status;
}
