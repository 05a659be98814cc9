/*
 * SageMaker training: the same program is started on every host; tuttirun runs the job on
 * the first and waits on the others. The hosts are taken in the order given: sorted, algo-10
 * would come before algo-2.
 *
 * The GPUs are known of our own host only, so hosts of other instance types need a number.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/hosts/json.h"
#include "launcher/hosts/resolver.h"

static const char config_path[] = "/opt/ml/input/config/resourceconfig.json";

/* True when all instance groups are of the type of our own host. */
static bool is_homogeneous(const json_t *config)
{
    const char *own = json_member(config, "current_instance_type");
    const json_t *groups = json_object_get(config, "instance_groups");

    for (size_t i = 0; own != NULL && i < json_array_size(groups); i++) {
        const char *type = json_member(json_array_get(groups, i), "instance_type");

        if (type != NULL && strcmp(type, own) != 0) {
            return false;
        }
    }
    return true;
}

/* Our slots: GPUs, else one; 0 leaves it to --slots-per-host. */
static int own_slots(const struct source_facts *facts)
{
    int gpus = resolver_count(facts, "SM_NUM_GPUS");

    return facts->options->hosts.slots_per_host > 0 || gpus > HOST_SLOTS_LIMIT ? 0
                                                                               : gpus;
}

static tutti_status add_hosts(const struct source_facts *facts, const char *origin,
        const json_t *hosts, struct placement *placement)
{
    int slots = own_slots(facts);
    tutti_status status = TUTTI_OK;

    if (json_array_size(hosts) == 0) {
        return error_set(TUTTI_ERR_INVALID, "%s has no list of hosts", origin);
    }
    for (size_t i = 0; status == TUTTI_OK && i < json_array_size(hosts); i++) {
        const char *name = json_string_value(json_array_get(hosts, i));

        status = name == NULL
                ? error_set(TUTTI_ERR_INVALID, "%s: host %zu is no text", origin, i)
                : resolver_add(placement, origin, name, slots);
    }
    return status;
}

static tutti_status set_own(
        struct placement *placement, const char *origin, const char *own)
{
    if (own == NULL || strlen(own) >= sizeof placement->own) {
        return error_set(TUTTI_ERR_INVALID,
                "%s does not say which of the hosts this one is", origin);
    }
    (void)snprintf(placement->own, sizeof placement->own, "%s", own);
    placement->waits = strcmp(own, placement->hosts.hosts[0].name) != 0;
    resolver_describe(placement, "SageMaker (%s)", origin);
    return TUTTI_OK;
}

static tutti_status take_config(const struct source_facts *facts, const char *origin,
        const json_t *config, struct placement *placement)
{
    bool is_counted = facts->options->hosts.slots_per_host > 0 ||
            facts->options->hosts.list.count > 0;
    tutti_status status =
            add_hosts(facts, origin, json_object_get(config, "hosts"), placement);

    if (status == TUTTI_OK && !is_counted && !is_homogeneous(config)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s has hosts of different types, and only the GPUs of this one are "
                "known; say how many ranks each takes: -H host:N,... or "
                "--slots-per-host",
                origin);
    }
    return status == TUTTI_OK
            ? set_own(placement, origin, json_member(config, "current_host"))
            : status;
}

static tutti_status take_file(
        const struct source_facts *facts, const char *path, struct placement *placement)
{
    json_t *config = NULL;
    tutti_status status = json_read_file(&config, path);

    if (status == TUTTI_OK) {
        status = take_config(facts, config_path, config, placement);
    }
    json_decref(config);
    return status;
}

static tutti_status take_config_variable(
        const struct source_facts *facts, struct placement *placement)
{
    static const char name[] = "SM_RESOURCE_CONFIG";
    json_t *config = NULL;
    tutti_status status = json_read_text(&config, resolver_get(facts, name), name);

    if (status == TUTTI_OK) {
        status = take_config(facts, name, config, placement);
    }
    json_decref(config);
    return status;
}

static tutti_status take_hosts_variable(
        const struct source_facts *facts, struct placement *placement)
{
    static const char name[] = "SM_HOSTS";
    json_t *hosts = NULL;
    tutti_status status = json_read_text(&hosts, resolver_get(facts, name), name);

    if (status == TUTTI_OK) {
        status = add_hosts(facts, name, hosts, placement);
    }
    json_decref(hosts);
    return status == TUTTI_OK
            ? set_own(placement, name, resolver_get(facts, "SM_CURRENT_HOST"))
            : status;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    char file[RESOLVER_PATH_MAX];

    if (access(resolver_path(facts, config_path, file), F_OK) == 0) {
        return take_file(facts, file, placement);
    }
    if (resolver_get(facts, "SM_RESOURCE_CONFIG") != NULL) {
        return take_config_variable(facts, placement);
    }
    return resolver_get(facts, "SM_HOSTS") != NULL
            ? take_hosts_variable(facts, placement)
            : TUTTI_OK;
}

const struct resolver resolver_sagemaker = {
    .name = "SageMaker",
    .allocates = true,
    .resolve = resolve,
};
