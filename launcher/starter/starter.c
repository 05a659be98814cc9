/*
 * What all starters share: the supervisor's words, variables and the flags for ssh.
 */
#include "launcher/starter/starter.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/environment.h"
#include "launcher/session/link.h"
#include "launcher/starter/mpi_collectives.h"

void starter_command_fini(struct starter_command *command)
{
    arguments_fini(&command->words);
    arguments_fini(&command->variables);
    arguments_fini(&command->exports);
}

/* Which GPUs this host shows says nothing about others. */
static const char *const device_lists[] = { "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
    "NVIDIA_VISIBLE_DEVICES" };

static bool is_device_list(const char *entry)
{
    for (size_t i = 0; i < sizeof device_lists / sizeof device_lists[0]; i++) {
        size_t len = strlen(device_lists[i]);

        if (strncmp(entry, device_lists[i], len) == 0 && entry[len] == '=') {
            return true;
        }
    }
    return false;
}

void starter_environment(const struct starter_command *command,
        char *const *environment, struct arguments *variables)
{
    for (; *environment != NULL; environment++) {
        if (!command->is_remote || !is_device_list(*environment)) {
            arguments_add(variables, *environment);
        }
    }
    for (size_t i = 0; i < command->variables.count; i++) {
        const char *entry = command->variables.items[i];
        char name[256];
        size_t len = strcspn(entry, "=");

        (void)snprintf(name, sizeof name, "%.*s", (int)len, entry);
        arguments_set(variables, name, entry[len] == '=' ? entry + len + 1 : NULL);
    }
}

bool starter_is_remote(const struct starter_facts *facts)
{
    return !facts->is_here && !facts->is_slurm && facts->hosts->count > 0;
}

void starter_add_hosts(
        struct arguments *words, const char *flag, const struct host_list *hosts)
{
    char *text = host_list_format(hosts);

    if (text == NULL) {
        words->failed = true;
        return;
    }
    arguments_add(words, flag);
    arguments_add(words, text);
    mem_free(text);
}

/* Variables that the library reads are handed on by themselves. */
static void list_own(const struct options *options, char *const *environment,
        struct arguments *names)
{
    for (; *environment != NULL; environment++) {
        const char *entry = *environment;
        char name[256];
        size_t len = strcspn(entry, "=");

        if ((strncmp(entry, "TUTTI_", 6) != 0 && strncmp(entry, "HOROVOD_", 8) != 0) ||
                strncmp(entry, "TUTTI_INTERNAL_", 15) == 0 || len >= sizeof name) {
            continue;
        }
        memcpy(name, entry, len);
        name[len] = '\0';
        if (!arguments_has(&options->export, name)) {
            arguments_add(names, name);
        }
    }
}

/* What the ranks need of our environment, and what --export adds to it. */
static void list_exports(const struct options *options,
        const struct starter_facts *facts, struct arguments *names)
{
    for (size_t i = 0; i < options->export.count; i++) {
        arguments_add(names, options->export.items[i]);
    }
    list_own(options, facts->environment, names);
    if (options->supervise) {
        /* Only its name: the token in its value must not be seen in a list of processes. */
        arguments_add(names, LINK_VARIABLE);
    }
    if (facts->network->is_asked) {
        arguments_add_format(names, "%s=%s", NETWORK_VARIABLE, facts->network->cidrs);
    }
    if (options->mpi_collectives) {
        arguments_add_format(
                names, "%s=%s", MPI_COLLECTIVES_VARIABLE, facts->mpi_collectives);
    }
}

/* True when something else than ssh may be used, which need not know flags of ssh. */
static bool has_other_agent(
        const struct options *options, const struct starter_facts *facts)
{
    static const char *const variables[] = { "OMPI_MCA_plm_rsh_agent",
        "OMPI_MCA_orte_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC",
        "HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_BOOTSTRAP" };
    bool has = facts->remote_agent != NULL;

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        has = has || environment_get(facts->environment, variables[i]) != NULL;
    }
    for (size_t i = 0; i < options->mpi_args.count; i++) {
        const char *word = options->mpi_args.items[i];

        has = has || strstr(word, "_agent") != NULL ||
                strstr(word, "launcher") != NULL || strstr(word, "bootstrap") != NULL;
    }
    return has;
}

void starter_add_ssh(const struct options *options, struct arguments *words)
{
    if (options->ssh_config != NULL) {
        arguments_add(words, "-F");
        arguments_add(words, options->ssh_config);
    }
    if (options->ssh_port != 0) {
        arguments_add(words, "-p");
        arguments_add_format(words, "%d", options->ssh_port);
    }
    if (options->ssh_identity_file != NULL) {
        arguments_add(words, "-i");
        arguments_add(words, options->ssh_identity_file);
    }
    arguments_add_all(words, options->ssh_args.items);
}

/* The flags for ssh; none when something else may be used and nobody asked for them. */
static void list_ssh(const struct options *options, const struct starter_facts *facts,
        struct arguments *words)
{
    starter_add_ssh(options, words);
    if (words->count == 0 && has_other_agent(options, facts)) {
        return;
    }
    /* The first value that ssh sees counts, so the user's come before these. */
    arguments_add(words, "-oBatchMode=yes");
    arguments_add(words, "-oConnectTimeout=10");
}

char *starter_join_ssh(const struct options *options, const struct starter_facts *facts,
        struct arguments *command)
{
    struct arguments words = { .items = NULL };
    char *text = NULL;

    list_ssh(options, facts, &words);
    if (words.count > 0 || words.failed) {
        text = arguments_join(&words, " ");
        command->failed = command->failed || text == NULL;
    }
    arguments_fini(&words);
    return text;
}

void starter_spread(const struct host_list *hosts, int ranks, int *counts)
{
    for (size_t i = 0; i < hosts->count; i++) {
        counts[i] = 0;
    }
    while (ranks > 0 && hosts->count > 0) {
        for (size_t i = 0; i < hosts->count && ranks > 0; i++) {
            const int slots = hosts->hosts[i].slots;
            const int taken = ranks < slots ? ranks : slots;

            counts[i] += taken;
            ranks -= taken;
        }
    }
}

void starter_add_program(const struct options *options,
        const struct starter_facts *facts, struct arguments *words)
{
    if (options->bind == BIND_AUTO || options->gpus_visible == GPUS_ONE ||
            options->supervise || options->mpi_collectives) {
        arguments_add(words, facts->self);
        arguments_add(words, "--exec");
        if (options->verbose) {
            arguments_add(words, "--verbose");
        }
        if (options->bind != BIND_AUTO) {
            arguments_add(words, "--bind");
            arguments_add(words, options->bind == BIND_MPI ? "mpi" : "none");
        }
        if (options->gpus_visible == GPUS_ONE) {
            arguments_add(words, "--gpus-visible");
            arguments_add(words, "one");
        }
        arguments_add(words, "--");
    }
    arguments_add_all(words, options->program);
}

/* These are split at spaces by the starters, so none can be inside. */
static tutti_status check_ssh(const struct options *options)
{
    const char *const texts[] = { options->ssh_config, options->ssh_identity_file };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i] != NULL && strpbrk(texts[i], " \t") != NULL) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s: mpirun hands no path with a space to ssh; link it to a name "
                    "without",
                    texts[i]);
        }
    }
    return TUTTI_OK;
}

tutti_status starter_build(const struct starter *starter, const struct options *options,
        const struct starter_facts *facts, struct starter_command *command)
{
    struct arguments *words = &command->words;
    tutti_status status = check_ssh(options);

    if (status != TUTTI_OK) {
        return status;
    }
    command->is_remote = starter_is_remote(facts);
    arguments_add(words, facts->path);
    list_exports(options, facts, &command->exports);
    starter->build(options, facts, command);
    words->failed =
            words->failed || command->variables.failed || command->exports.failed;
    return arguments_status(words);
}
