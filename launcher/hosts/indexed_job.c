/*
 * An indexed Job of Kubernetes, with --engine here: tuttirun is started in each pod. A pod knows
 * its number and its name, NAME-NUMBER, but not how many there are: -np and --slots-per-host tell.
 * Other pods are found below the domain of the Job's subdomain, which is in /etc/hosts.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/hosts/resolver.h"

static const char variable[] = "JOB_COMPLETION_INDEX";

/* Takes the domain of the longer name of this pod, if a line has it. */
static void take_domain(char *line, const char *name, char domain[HOST_NAME_LIMIT])
{
    const size_t len = strlen(name);
    char *word;

    while ((word = resolver_word(&line)) != NULL) {
        if (strncmp(word, name, len) == 0 && word[len] == '.') {
            (void)snprintf(domain, HOST_NAME_LIMIT, "%s", word + len);
        }
    }
}

/* ".train.default.svc.cluster.local" */
static bool find_domain(const struct source_facts *facts, const char *name,
        char domain[HOST_NAME_LIMIT])
{
    char path[RESOLVER_PATH_MAX];
    char line[2 * HOST_NAME_LIMIT];
    FILE *file = fopen(resolver_path(facts, "/etc/hosts", path), "re");

    domain[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        take_domain(line, name, domain);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return domain[0] != '\0';
}

static tutti_status add_pods(const struct source_facts *facts,
        struct placement *placement, const char *name, int index)
{
    const struct options *options = facts->options;
    const int slots = options->slots_per_host;
    const int nodes = (options->np + slots - 1) / slots;
    const int base = (int)(strrchr(name, '-') - name);
    char domain[HOST_NAME_LIMIT];
    char pod[3 * HOST_NAME_LIMIT];
    tutti_status status = TUTTI_OK;

    if (!find_domain(facts, name, domain)) {
        return error_set(TUTTI_ERR_INVALID,
                "%s=%d: /etc/hosts has no name of %s with a domain; give the pods a "
                "subdomain, that of a headless service",
                variable, index, name);
    }
    if (index >= nodes) {
        return error_set(TUTTI_ERR_INVALID,
                "%s=%d, but -np %d with --slots-per-host %d is for %d pods", variable,
                index, options->np, slots, nodes);
    }
    for (int i = 0; status == TUTTI_OK && i < nodes; i++) {
        (void)snprintf(pod, sizeof pod, "%.*s-%d%s", base, name, i, domain);
        status = resolver_add(placement, variable, pod, slots);
    }
    if (status == TUTTI_OK && nodes > 1) {
        placement->join = (struct join_place){ .nodes = nodes, .index = index };
        placement->waits = index > 0;
        (void)snprintf(placement->join.first, sizeof placement->join.first, "%s",
                placement->hosts.hosts[0].name);
        (void)snprintf(placement->own, sizeof placement->own, "%s",
                placement->hosts.hosts[index].name);
    }
    return status;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *name = resolver_get(facts, "HOSTNAME");
    const char *dash = name == NULL ? NULL : strrchr(name, '-');
    char number[16];
    int index = 0;
    bool is_pod;

    /* Otherwise the pods may be jobs of their own. */
    if (facts->options->engine != MPI_KIND_HERE ||
            resolver_get(facts, variable) == NULL) {
        return TUTTI_OK;
    }
    is_pod = environment_get_int(facts->environment, variable, 0, &index) &&
            dash != NULL && strlen(name) < HOST_NAME_LIMIT;
    (void)snprintf(number, sizeof number, "%d", index);
    if (!is_pod || strcmp(dash + 1, number) != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s=%.32s, but HOSTNAME=%.200s is no pod of that number of an indexed "
                "Job",
                variable, resolver_get(facts, variable), name == NULL ? "" : name);
    }
    if (facts->options->np == 0 || facts->options->slots_per_host == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: Kubernetes does not say how many pods there are: give -np, for "
                "all, and --slots-per-host",
                variable);
    }
    resolver_describe(placement, "an indexed Job (%s)", variable);
    return add_pods(facts, placement, name, index);
}

const struct resolver resolver_indexed = {
    .name = "an indexed Job",
    .resolve = resolve,
};
