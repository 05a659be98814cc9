/*
 * TF_CONFIG: the cluster of a TensorFlow program. Its chief and workers are ranks, in that
 * order; evaluators and parameter servers are not. An entry is a process, so that a host may
 * be there several times. A list may be an object of index and address, where some are
 * missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/hosts/json.h"
#include "launcher/hosts/resolver.h"

static const char variable[] = "TF_CONFIG";

/* An entry of a list of processes. */
struct process {
    int64_t index;
    const char *address; /* host:port, of the JSON */
};

static int compare_processes(const void *a, const void *b)
{
    const struct process *left = a;
    const struct process *right = b;

    return (left->index > right->index) - (left->index < right->index);
}

/* "host:port", "[address]:port" or a host: one slot on it. */
static tutti_status add_process(struct placement *placement, const char *address)
{
    const char *bracket = strrchr(address, ']');
    const char *colon = strrchr(bracket == NULL ? address : bracket, ':');
    size_t len = colon == NULL ? strlen(address) : (size_t)(colon - address);
    char name[HOST_NAME_LIMIT];

    if (len >= sizeof name) {
        return error_set(TUTTI_ERR_INVALID, "%s: an address is too long", variable);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)len, address);
    return resolver_add(placement, variable, name, 1);
}

/* The processes of a list, or of an object with numbers as keys; their count is known. */
static tutti_status read_processes(
        const char *role, json_t *list, struct process *processes)
{
    size_t count = 0;
    const char *key;
    json_t *value;

    for (; count < json_array_size(list); count++) {
        processes[count].index = (int64_t)count;
        processes[count].address = json_string_value(json_array_get(list, count));
    }
    json_object_foreach(list, key, value)
    {
        if (!text_to_int64(key, &processes[count].index)) {
            return error_set(TUTTI_ERR_INVALID, "%s: %s has the index '%.100s'",
                    variable, role, key);
        }
        processes[count++].address = json_string_value(value);
    }
    qsort(processes, count, sizeof *processes, compare_processes);
    return TUTTI_OK;
}

static tutti_status add_processes(struct placement *placement, const char *role,
        const struct process *processes, size_t count)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; status == TUTTI_OK && i < count; i++) {
        status = processes[i].address == NULL
                ? error_set(TUTTI_ERR_INVALID, "%s: an address of %s is no text",
                          variable, role)
                : add_process(placement, processes[i].address);
    }
    return status;
}

/* Adds the processes of a role; none when the cluster does not have it. */
static tutti_status add_role(
        struct placement *placement, const json_t *cluster, const char *role)
{
    json_t *list = json_object_get(cluster, role);
    size_t count =
            json_is_object(list) ? json_object_size(list) : json_array_size(list);
    struct process *processes;
    tutti_status status;

    if (list != NULL && !json_is_object(list) && !json_is_array(list)) {
        return error_set(TUTTI_ERR_INVALID, "%s: %s is no list", variable, role);
    }
    if (count == 0) {
        return TUTTI_OK;
    }
    processes = mem_calloc(count, sizeof *processes);
    if (processes == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %s", variable);
    }
    status = read_processes(role, list, processes);
    if (status == TUTTI_OK) {
        status = add_processes(placement, role, processes, count);
    }
    mem_free(processes);
    return status;
}

static bool is_rank(const char *role)
{
    static const char *const roles[] = { "chief", "master", "worker" };
    bool is = false;

    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        is = is || strcmp(role, roles[i]) == 0;
    }
    return is;
}

static tutti_status check_task(const json_t *config)
{
    const char *role = json_member(json_object_get(config, "task"), "type");

    if (role == NULL || is_rank(role)) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "%s: the task of this process is '%.32s', which is no rank; start tuttirun "
            "where it is chief or worker",
            variable, role);
}

static tutti_status take_cluster(struct placement *placement, const json_t *config)
{
    const json_t *cluster = json_object_get(config, "cluster");
    tutti_status status = check_task(config);

    if (status == TUTTI_OK) {
        status = add_role(placement, cluster, "chief");
    }
    if (status == TUTTI_OK) {
        status = add_role(placement, cluster, "master");
    }
    if (status == TUTTI_OK) {
        status = add_role(placement, cluster, "worker");
    }
    if (status == TUTTI_OK && placement->hosts.count > 0) {
        resolver_describe(placement, "%s", variable);
    }
    return status;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *text = resolver_get(facts, variable);
    json_t *config = NULL;
    tutti_status status;

    if (text == NULL) {
        return TUTTI_OK;
    }
    status = json_read_text(&config, text, variable);
    if (status == TUTTI_OK) {
        /* Without a cluster the program is alone. */
        status = take_cluster(placement, config);
    }
    json_decref(config);
    return status;
}

const struct resolver resolver_tf_config = {
    .name = "TF_CONFIG",
    .resolve = resolve,
};
