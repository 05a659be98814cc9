/*
 * --host-discovery-script, as horovodrun has it: lines "host" or "host:slots".
 */
#include "launcher/hosts/resolver.h"
#include "launcher/hosts/script_hosts.h"

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *file = facts->options->host_discovery_script;
    tutti_status status;

    if (file == NULL) {
        return TUTTI_OK;
    }
    status = script_hosts(facts, file, &placement->hosts);
    if (status == TUTTI_OK) {
        resolver_describe(placement, "%.200s", file);
    }
    return status;
}

const struct resolver resolver_script = {
    .name = "the discovery script",
    .resolve = resolve,
};
