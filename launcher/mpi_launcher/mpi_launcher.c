#include "launcher/mpi_launcher/mpi_launcher.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/mpi_launcher/mpi_collectives.h"
#include "launcher/session/link.h"
#include "launcher/shell.h"

void launch_command_fini(struct launch_command *command)
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
        if (arguments_same_name(entry, device_lists[i])) {
            return true;
        }
    }
    return false;
}

void launch_environment(const struct launch_command *command, char *const *environment,
        struct arguments *variables)
{
    for (; *environment != NULL; environment++) {
        if (!command->is_remote || !is_device_list(*environment)) {
            arguments_add(variables, *environment);
        }
    }
    for (size_t i = 0; i < command->variables.count; i++) {
        arguments_put(variables, command->variables.items[i]);
    }
}

bool launch_is_remote(const struct launch_facts *facts)
{
    return !facts->is_here && !facts->is_slurm && facts->hosts->count > 0;
}

void launch_add_hosts(
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

/*
 * Variables that are handed on by themselves: those that the library reads, and to other hosts
 * those by which Python and the locale are what they are here. The rest may be secret.
 */
static bool is_own(const char *entry, bool is_remote)
{
    static const char *const starts[] = { "TUTTI_", "HOROVOD_", "PYTHON",
        "VIRTUAL_ENV=", "CONDA_PREFIX=", "LANG=", "LANGUAGE=", "LC_" };
    bool is = false;

    for (size_t i = 0; i < (is_remote ? sizeof starts / sizeof starts[0] : 2); i++) {
        is = is || strncmp(entry, starts[i], strlen(starts[i])) == 0;
    }
    return is && strncmp(entry, "TUTTI_INTERNAL_", 15) != 0;
}

static void list_own(const struct options *options, const struct launch_facts *facts,
        struct arguments *names)
{
    const bool is_remote = launch_is_remote(facts);

    for (char *const *at = facts->environment; *at != NULL; at++) {
        if (is_own(*at, is_remote) && !arguments_has(&options->export, *at)) {
            arguments_add_format(names, "%.*s", (int)strcspn(*at, "="), *at);
        }
    }
    if (!facts->is_here) {
        arguments_add(names, SHELL_VARIABLE);
    }
}

/* What the ranks need of our environment, and what --export adds to it. */
static void list_exports(const struct options *options,
        const struct launch_facts *facts, struct arguments *names)
{
    for (size_t i = 0; i < options->export.count; i++) {
        arguments_add(names, options->export.items[i]);
    }
    list_own(options, facts, names);
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
        const struct options *options, const struct launch_facts *facts)
{
    static const char *const variables[] = { "OMPI_MCA_plm_rsh_agent",
        "OMPI_MCA_orte_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC",
        "HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_BOOTSTRAP" };
    static const char *const flags[] = { "plm_rsh_agent", "orte_rsh_agent",
        "plm_ssh_agent", "-launcher", "-launcher-exec", "-bootstrap",
        "-bootstrap-exec" };
    bool has = false;

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        has = has || environment_get(facts->environment, variables[i]) != NULL;
    }
    for (size_t i = 0; i < options->mpi_args.count; i++) {
        const char *word = options->mpi_args.items[i];

        for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
            has = has || arguments_same_name(word, flags[k]) ||
                    (word[0] == '-' && arguments_same_name(word + 1, flags[k]));
        }
    }
    return has;
}

int launch_keepalive_s(const struct options *options)
{
    /* The time of all probes together counts: the first one may come at any moment. */
    return options->heartbeat_timeout_ms / (1000 * LAUNCH_PROBES) + 1;
}

void launch_add_ssh(const struct options *options, struct arguments *words)
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

void launch_add_ssh_rest(const struct options *options, struct arguments *words)
{
    /* The first value that ssh sees counts, so the user's come before these. */
    arguments_add(words, "-oBatchMode=yes");
    arguments_add(words, "-oConnectTimeout=10");
    if (options->supervise) {
        arguments_add_format(
                words, "-oServerAliveInterval=%d", launch_keepalive_s(options));
        arguments_add_format(words, "-oServerAliveCountMax=%d", LAUNCH_PROBES);
    }
}

char *launch_join_ssh(const struct options *options, const struct launch_facts *facts,
        struct arguments *command)
{
    struct arguments words = { .items = NULL };
    char *text = NULL;

    launch_add_ssh(options, &words);
    if (words.count > 0 || words.failed || !has_other_agent(options, facts)) {
        launch_add_ssh_rest(options, &words);
        text = arguments_join(&words, " ");
        command->failed = command->failed || text == NULL;
    }
    arguments_fini(&words);
    return text;
}

void launch_spread(const struct host_list *hosts, int ranks, int *counts)
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

void launch_add_program(const struct options *options, const struct launch_facts *facts,
        struct arguments *words)
{
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
    /*
     * MPI launchers read the program's words, too: Open MPI obeys its --mca and --tune, and to all
     * of them ":" begins another program. --exec takes the '=' away again.
     */
    for (char *const *word = options->program; *word != NULL; word++) {
        const bool is_read = **word == '-' || **word == '=' || strcmp(*word, ":") == 0;

        arguments_add_format(words, "%s%s", is_read ? "=" : "", *word);
    }
}

tutti_status launch_check_ssh(const struct options *options)
{
    struct arguments words = { .items = NULL };
    tutti_status status;

    launch_add_ssh(options, &words);
    status = arguments_status(&words);
    for (size_t i = 0; status == TUTTI_OK && i < words.count; i++) {
        if (words.items[i][0] == '\0' || strpbrk(words.items[i], " \t\n") != NULL) {
            status = error_set(TUTTI_ERR_INVALID,
                    "'%s': mpirun hands no word with a space to ssh, nor an empty one; "
                    "link a path to a name without, and write other settings into a "
                    "file for --ssh-config",
                    words.items[i]);
        }
    }
    arguments_fini(&words);
    return status;
}

tutti_status launch_build(const struct mpi_launcher *launcher,
        const struct options *options, const struct launch_facts *facts,
        struct launch_command *command)
{
    struct arguments *words = &command->words;
    tutti_status status = launch_check_ssh(options);

    if (status != TUTTI_OK) {
        return status;
    }
    command->is_remote = launch_is_remote(facts);
    arguments_add(words, facts->path);
    list_exports(options, facts, &command->exports);
    launcher->build(options, facts, command);
    words->failed =
            words->failed || command->variables.failed || command->exports.failed;
    return arguments_status(words);
}
