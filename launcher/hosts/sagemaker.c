/*
 * SageMaker training: the same program is started on every host; tuttirun runs the job on
 * the first, and starts the ranks of the others there. The hosts are taken in the order given: sorted, algo-10
 * would come before algo-2.
 *
 * The GPUs are known of our own host only, so hosts of other instance types need a number.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/hosts/resolver.h"
#include "launcher/json.h"

static const char config_path[] = "/opt/ml/input/config/resourceconfig.json";
static const char output_path[] = "/opt/ml/output";

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

static tutti_status add_hosts(const struct source_facts *facts, const char *origin,
        const json_t *hosts, struct placement *placement)
{
    /* Our GPUs, else one; 0 leaves it to --slots-per-host. */
    int slots = facts->options->slots_per_host > 0
            ? 0
            : resolver_count(facts, "SM_NUM_GPUS");
    tutti_status status = slots < 0 ? TUTTI_ERR_INVALID : TUTTI_OK;

    if (status == TUTTI_OK && json_array_size(hosts) == 0) {
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

/* The others join the first host, so that no sshd is needed. */
static tutti_status set_join(const struct source_facts *facts,
        struct placement *placement, const char *origin)
{
    const struct host_list *hosts = &placement->hosts;
    const char *job = resolver_get(facts, "TRAINING_JOB_ARN");
    struct join_place *place = &placement->join;
    size_t index = 0;

    while (index < hosts->count &&
            strcmp(hosts->hosts[index].name, placement->own) != 0) {
        index++;
    }
    if (index == hosts->count) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: this host, %s, is not one of its hosts", origin, placement->own);
    }
    if (job == NULL) {
        job = resolver_get(facts, "TRAINING_JOB_NAME");
    }
    if (hosts->count > 1) {
        *place = (struct join_place){ .nodes = (int)hosts->count, .index = (int)index };
        (void)snprintf(place->first, sizeof place->first, "%s", hosts->hosts[0].name);
        (void)snprintf(place->key, sizeof place->key, "%s", job == NULL ? "" : job);
    }
    return TUTTI_OK;
}

/* The platform shows the beginning of this file as the reason why the job failed. */
static void set_failure(const struct source_facts *facts, struct placement *placement)
{
    char path[RESOLVER_PATH_MAX];
    struct stat folder;

    if (stat(resolver_path(facts, output_path, path), &folder) == 0 &&
            S_ISDIR(folder.st_mode)) {
        (void)snprintf(placement->failure, sizeof placement->failure, "%s%s/failure",
                facts->root, output_path);
    }
}

static tutti_status set_own(const struct source_facts *facts,
        struct placement *placement, const char *origin, const char *own)
{
    if (own == NULL || strlen(own) >= sizeof placement->own) {
        return error_set(TUTTI_ERR_INVALID,
                "%s does not say which of the hosts this one is", origin);
    }
    (void)snprintf(placement->own, sizeof placement->own, "%s", own);
    placement->waits = strcmp(own, placement->hosts.hosts[0].name) != 0;
    resolver_describe(placement, "SageMaker (%s)", origin);
    set_failure(facts, placement);
    return set_join(facts, placement, origin);
}

static tutti_status take_config(const struct source_facts *facts, const char *origin,
        const json_t *config, struct placement *placement)
{
    bool is_counted =
            facts->options->slots_per_host > 0 || facts->options->hosts.count > 0;
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
            ? set_own(facts, placement, origin, json_member(config, "current_host"))
            : status;
}

/* SM_HOSTS: the list alone. */
static tutti_status take_list(const struct source_facts *facts, const char *origin,
        const json_t *hosts, struct placement *placement)
{
    tutti_status status = add_hosts(facts, origin, hosts, placement);

    return status == TUTTI_OK
            ? set_own(facts, placement, origin, resolver_get(facts, "SM_CURRENT_HOST"))
            : status;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *config = resolver_get(facts, "SM_RESOURCE_CONFIG");
    const char *hosts = resolver_get(facts, "SM_HOSTS");
    char file[RESOLVER_PATH_MAX];
    json_t *json = NULL;
    tutti_status status = TUTTI_OK;

    if (access(resolver_path(facts, config_path, file), F_OK) == 0) {
        status = json_read_file(&json, file);
        if (status == TUTTI_OK) {
            status = take_config(facts, config_path, json, placement);
        }
    } else if (config != NULL) {
        status = json_read_text(&json, config, "SM_RESOURCE_CONFIG");
        if (status == TUTTI_OK) {
            status = take_config(facts, "SM_RESOURCE_CONFIG", json, placement);
        }
    } else if (hosts != NULL) {
        status = json_read_text(&json, hosts, "SM_HOSTS");
        if (status == TUTTI_OK) {
            status = take_list(facts, "SM_HOSTS", json, placement);
        }
    }
    json_decref(json);
    return status;
}

const struct resolver resolver_sagemaker = {
    .name = "SageMaker",
    .allocates = true,
    .resolve = resolve,
};
