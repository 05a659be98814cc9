/*
 * TF_CONFIG: the cluster of a TensorFlow program. Its chief and workers are ranks, in that
 * order; with --roles parameter servers and evaluators follow. An entry is a process, so that a host may
 * be there several times. A list may be an object of index and address, where some are
 * missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/hosts/resolver.h"
#include "launcher/json.h"

static const char variable[] = "TF_CONFIG";

/* Whose processes are ranks, in the order of their ranks. */
static const char *const rank_roles[] = { "chief", "master", "worker", "ps",
    "evaluator" };

enum {
    RANK_ROLES = 3, /* as a rule          */
    ALL_ROLES = sizeof rank_roles / sizeof rank_roles[0] /* with --roles */
};

/* Where a process is, and what. */
struct part {
    size_t host; /* in the list of hosts */
    const char *role;
};

/* An entry of a list of processes. */
struct process {
    int64_t index;
    const char *address; /* host:port, of the JSON */
};

/* What is known of the cluster while its processes are read. */
struct cluster {
    struct placement *placement;
    const char *role; /* of this process, in the JSON; NULL: it does not say */
    int64_t index; /* in that role                                        */
    int count; /* processes so far                                    */
    int own; /* which of them is this one; -1: none                 */
    int port; /* of the first of them; 0: none                       */
    struct part *parts; /* of the processes so far                             */
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

/* The port of an address; 0 when it has none. */
static int port_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    int64_t port;

    return colon != NULL && text_to_int64(colon + 1, &port) && port > 0 && port < 65536
            ? (int)port
            : 0;
}

/* Notes how many processes there are, where the first is, and which is ours. */
static void note_process(
        struct cluster *cluster, const char *role, const struct process *process)
{
    if (cluster->role != NULL && strcmp(role, cluster->role) == 0 &&
            process->index == cluster->index) {
        cluster->own = cluster->count;
    }
    if (cluster->count++ == 0) {
        cluster->port = port_of(process->address);
    }
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

static tutti_status add_processes(struct cluster *cluster, const char *role,
        const struct process *processes, size_t count)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; status == TUTTI_OK && i < count; i++) {
        if (processes[i].address == NULL) {
            return error_set(TUTTI_ERR_INVALID, "%s: an address of %s is no text",
                    variable, role);
        }
        status = add_process(cluster->placement, processes[i].address);
        if (status == TUTTI_OK) {
            cluster->parts[cluster->count] =
                    (struct part){ .host = cluster->placement->hosts.last,
                        .role = role };
            note_process(cluster, role, &processes[i]);
        }
    }
    return status;
}

/* Adds the processes of a role; none when the cluster does not have it. */
static tutti_status add_role(
        struct cluster *cluster, const json_t *lists, const char *role)
{
    json_t *list = json_object_get(lists, role);
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
        status = add_processes(cluster, role, processes, count);
    }
    mem_free(processes);
    return status;
}

static bool is_rank(const char *role, size_t roles)
{
    bool is = false;

    for (size_t i = 0; i < roles; i++) {
        is = is || strcmp(role, rank_roles[i]) == 0;
    }
    return is;
}

static tutti_status check_task(const json_t *config, size_t roles)
{
    const json_t *task = json_object_get(config, "task");
    const char *role = json_member(task, "type");

    if (role != NULL && is_rank(role, roles) &&
            !json_is_integer(json_object_get(task, "index"))) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: the task of this process has no number as its index", variable);
    }
    if (role == NULL || is_rank(role, roles)) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID,
            "%s: the task of this process is '%.32s', which is no rank; start tuttirun "
            "where it is chief or worker, or give --roles",
            variable, role);
}

/*
 * Where it says which process this is, a tuttirun is started for each: that of the first
 * runs the job, and the others join it at the port that is the first's.
 */
static tutti_status set_join(const struct cluster *cluster)
{
    struct placement *placement = cluster->placement;
    const struct host_list *hosts = &placement->hosts;
    struct join_place *place = &placement->join;

    if (cluster->role == NULL || cluster->count < 2) {
        return TUTTI_OK;
    }
    if (cluster->own < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: the task of this process is %s %lld, which is not in the cluster",
                variable, cluster->role, (long long)cluster->index);
    }
    if ((size_t)cluster->count != hosts->count) {
        return error_set(TUTTI_ERR_INVALID,
                "%s has several processes on one host, each with a tuttirun of its "
                "own; start one tuttirun, and name the hosts with -H",
                variable);
    }
    *place = (struct join_place){
        .nodes = cluster->count, .index = cluster->own, .port = cluster->port
    };
    (void)snprintf(place->first, sizeof place->first, "%s", hosts->hosts[0].name);
    (void)snprintf(place->key, sizeof place->key, "%s", variable);
    (void)snprintf(placement->own, sizeof placement->own, "%s",
            hosts->hosts[cluster->own].name);
    placement->waits = cluster->own > 0;
    return TUTTI_OK;
}

/* Appends the roles of a host's ranks; returns how long the list is then. */
static size_t append_roles(
        const struct cluster *cluster, size_t host, size_t used, size_t capacity)
{
    for (int i = 0; i < cluster->count; i++) {
        if (cluster->parts[i].host == host) {
            used += (size_t)snprintf(cluster->placement->roles + used, capacity - used,
                    "%s%s", used == 0 ? "" : ",", cluster->parts[i].role);
        }
    }
    return used;
}

/* The roles of the ranks, which fill the slots of one host after the other. */
static tutti_status list_roles(const struct cluster *cluster)
{
    struct placement *placement = cluster->placement;
    size_t capacity = 1;
    size_t used = 0;

    for (int i = 0; i < cluster->count; i++) {
        capacity += strlen(cluster->parts[i].role) + 1;
    }
    placement->roles = mem_calloc(capacity, 1);
    if (placement->roles == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %s", variable);
    }
    for (size_t host = 0; host < placement->hosts.count; host++) {
        used = append_roles(cluster, host, used, capacity);
    }
    return TUTTI_OK;
}

/* All processes of the roles, one role after the other. */
static tutti_status add_roles(
        struct cluster *cluster, const json_t *lists, size_t roles)
{
    tutti_status status = TUTTI_OK;
    size_t total = 0;

    for (size_t i = 0; i < roles; i++) {
        const json_t *list = json_object_get(lists, rank_roles[i]);

        total += json_array_size(list) + json_object_size(list);
    }
    cluster->parts = mem_calloc(total + 1, sizeof *cluster->parts);
    if (cluster->parts == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %s", variable);
    }
    for (size_t i = 0; status == TUTTI_OK && i < roles; i++) {
        status = add_role(cluster, lists, rank_roles[i]);
    }
    return status;
}

static tutti_status take_cluster(
        struct placement *placement, const json_t *config, bool all)
{
    size_t roles = all ? ALL_ROLES : RANK_ROLES;
    const json_t *task = json_object_get(config, "task");
    const json_t *lists = json_object_get(config, "cluster");
    struct cluster cluster = {
        .placement = placement,
        .role = json_member(task, "type"),
        .index = (int64_t)json_integer_value(json_object_get(task, "index")),
        .own = -1,
    };
    tutti_status status = check_task(config, roles);

    if (!json_is_object(config) || (lists != NULL && !json_is_object(lists)) ||
            (task != NULL && !json_is_object(task))) {
        status = error_set(TUTTI_ERR_INVALID,
                "%s, its cluster and its task are objects: {\"cluster\": {\"worker\": "
                "[\"host:port\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
                variable);
    }
    if (status == TUTTI_OK) {
        status = add_roles(&cluster, lists, roles);
    }
    if (status == TUTTI_OK && placement->hosts.count == 0 &&
            json_object_size(lists) > 0) {
        status = error_set(TUTTI_ERR_INVALID,
                "%s: the cluster has no chief and no worker, which are the ranks "
                "(parameter servers and evaluators only with --roles); name the hosts "
                "with -H",
                variable);
    }
    if (status == TUTTI_OK && placement->hosts.count > 0) {
        resolver_describe(placement, "%s", variable);
        status = set_join(&cluster);
    }
    if (status == TUTTI_OK && all && placement->hosts.count > 0) {
        status = list_roles(&cluster);
    }
    mem_free(cluster.parts);
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
        status = take_cluster(placement, config, facts->options->roles);
    }
    json_decref(config);
    return status;
}

const struct resolver resolver_tf_config = {
    .name = "TF_CONFIG",
    .resolve = resolve,
};
