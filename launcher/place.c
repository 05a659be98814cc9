/*
 * Where the ranks of a command line run.
 */
#include "launcher/place.h"

#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

/* A variable of the ranks, unless the user set it. */
static void export_number(struct options *options, const char *name, int number)
{
    char text[16];

    if (!arguments_has(&options->exports, name)) {
        (void)snprintf(text, sizeof text, "%d", number);
        arguments_set(&options->exports, name, text);
    }
}

static tutti_status take(struct options *options, const struct placement *placement)
{
    struct host_list hosts = { .hosts = NULL };
    tutti_status status = host_list_copy(&hosts, &placement->hosts);

    if (status != TUTTI_OK) {
        return status;
    }
    host_list_fini(&options->hosts.list);
    options->hosts.list = hosts;
    if (options->ranks == 0) {
        options->ranks = placement->ranks;
    }
    status = options_settle_ranks(options, &options->hosts.list);
    if (status == TUTTI_OK && placement->shard.count > 0) {
        export_number(options, "SHARD_INDEX", placement->shard.index);
        export_number(options, "SHARD_COUNT", placement->shard.count);
        status = arguments_status(&options->exports);
    }
    return status;
}

static void say(const struct options *options, const struct placement *placement)
{
    char text[ERROR_TEXT_MAX];

    (void)fprintf(stderr, "tuttirun: %s\n",
            placement_describe(placement, options->ranks, text, sizeof text));
    if (placement->shard.count > 0) {
        (void)fprintf(stderr,
                "tuttirun: an array job: its ranks have SHARD_INDEX=%d of "
                "SHARD_COUNT=%d\n",
                placement->shard.index, placement->shard.count);
    }
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
    if (status != TUTTI_OK || placement->waits) {
        return status;
    }
    status = take(options, placement);
    if (status == TUTTI_OK && (options->verbose || options->dry_run)) {
        say(options, placement);
    }
    return status;
}
