#include "launcher/hosts/source.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/hosts/resolver.h"

/* What the user says comes before what a scheduler says before what a platform says. */
static const struct resolver *const resolvers[] = {
    &resolver_script,
    &resolver_slurm,
    &resolver_pbs,
    &resolver_lsf,
    &resolver_sge,
    &resolver_sagemaker,
    &resolver_batch,
    &resolver_indexed,
    &resolver_kubeflow,
    &resolver_tf_config,
    &resolver_tpu,
};

enum {
    RESOLVERS = sizeof resolvers / sizeof resolvers[0]
};

void placement_fini(struct placement *placement)
{
    host_list_fini(&placement->hosts);
    mem_free(placement->roles);
    placement->roles = NULL;
}

static bool is_address(const char *name)
{
    struct in_addr address;

    return strchr(name, ':') != NULL || inet_pton(AF_INET, name, &address) == 1;
}

/* The same host, where one name may be the short form of the other. */
static bool is_same_host(const char *a, const char *b)
{
    size_t short_a = strcspn(a, ".");
    size_t short_b = strcspn(b, ".");

    if (strcmp(a, b) == 0) {
        return true;
    }
    return short_a == short_b && strncmp(a, b, short_a) == 0 &&
            (a[short_a] == '\0' || b[short_b] == '\0');
}

static bool has_host(const struct host_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (is_same_host(list->hosts[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* Hosts of the command line must be ours. Addresses cannot be compared with names. */
static tutti_status check_allocated(
        const struct host_list *asked, const struct placement *allocation)
{
    for (size_t i = 0; allocation->hosts.count > 0 && i < asked->count; i++) {
        const char *name = asked->hosts[i].name;

        if (is_address(name) || strcmp(name, "localhost") == 0 ||
                has_host(&allocation->hosts, name)) {
            continue;
        }
        return error_set(TUTTI_ERR_INVALID,
                "host %s is not one of %s, which has %s%s; without -H all its hosts "
                "are taken",
                name, allocation->source, allocation->hosts.hosts[0].name,
                allocation->hosts.count > 1 ? " and others" : "");
    }
    return TUTTI_OK;
}

/*
 * The allocation that we are in, if any. One that cannot be understood does not count:
 * naming the hosts is the way out of that.
 */
static void find_allocation(
        const struct source_facts *facts, struct placement *allocation)
{
    for (size_t i = 0; i < RESOLVERS; i++) {
        if (!resolvers[i]->allocates) {
            continue;
        }
        if (resolvers[i]->resolve(facts, allocation) != TUTTI_OK) {
            placement_fini(allocation);
            *allocation = (struct placement){ .ranks = 0 };
        }
        if (allocation->source[0] != '\0') {
            return;
        }
    }
}

/*
 * Where a source starts tuttirun on every host, the first of the hosts that are named runs
 * the job, the other named ones join it, and the rest has nothing to do.
 */
static void take_join(struct placement *placement, const struct placement *allocation)
{
    const struct host_list *hosts = &placement->hosts;
    size_t index = 0;

    memcpy(placement->own, allocation->own, sizeof placement->own);
    memcpy(placement->failure, allocation->failure, sizeof placement->failure);
    if (allocation->join.nodes == 0) {
        return;
    }
    while (index < hosts->count &&
            !is_same_host(hosts->hosts[index].name, allocation->own)) {
        index++;
    }
    placement->waits = index > 0;
    if (index == hosts->count || hosts->count == 1) {
        return;
    }
    placement->join = allocation->join;
    placement->join.nodes = (int)hosts->count;
    placement->join.index = (int)index;
    memcpy(placement->join.first, hosts->hosts[0].name, sizeof placement->join.first);
}

static tutti_status take_command_line(
        const struct source_facts *facts, struct placement *placement)
{
    const struct host_list *asked = &facts->options->hosts;
    struct placement allocation = { .ranks = 0 };
    tutti_status status;

    find_allocation(facts, &allocation);
    status = check_allocated(asked, &allocation);
    if (status == TUTTI_OK) {
        status = host_list_copy(&placement->hosts, asked);
    }
    if (status == TUTTI_OK) {
        placement->is_slurm = allocation.is_slurm;
        take_join(placement, &allocation);
        resolver_describe(placement, "the command line");
    }
    placement_fini(&allocation);
    return status;
}

static tutti_status take_first_source(
        const struct source_facts *facts, struct placement *placement)
{
    for (size_t i = 0; i < RESOLVERS; i++) {
        tutti_status status = resolvers[i]->resolve(facts, placement);

        if (status != TUTTI_OK || placement->source[0] != '\0') {
            return status;
        }
    }
    resolver_describe(placement, "this machine");
    return TUTTI_OK;
}

tutti_status source_resolve(
        const struct source_facts *facts, struct placement *placement)
{
    struct placement found = { .ranks = 0 };
    int slots = facts->options->slots_per_host;
    tutti_status status = facts->options->hosts.count > 0
            ? take_command_line(facts, &found)
            : take_first_source(facts, &found);

    if (status == TUTTI_OK) {
        status = host_list_imply(&found.hosts, slots > 0 ? slots : 1);
    }
    if (status == TUTTI_OK) {
        status = shard_find(facts->environment, &found.shard);
    }
    if (status != TUTTI_OK) {
        placement_fini(&found);
        return status;
    }
    *placement = found;
    return TUTTI_OK;
}

const char *placement_describe(
        const struct placement *placement, int ranks, char *text, size_t capacity)
{
    char *hosts = host_list_format(&placement->hosts);
    size_t count = placement->hosts.count;

    if (count == 0) {
        (void)snprintf(text, capacity, "%d rank%s on this machine", ranks,
                ranks == 1 ? "" : "s");
    } else {
        (void)snprintf(text, capacity, "%d rank%s on %zu host%s from %s: %.600s", ranks,
                ranks == 1 ? "" : "s", count, count == 1 ? "" : "s", placement->source,
                hosts == NULL ? "" : hosts);
    }
    mem_free(hosts);
    return text;
}
