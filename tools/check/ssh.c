/*
 * Command lines that run something on a host.
 */
#include "tools/check/ssh.h"

#include <string.h>

#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/mpi_launcher/mpi_launcher.h"

static void add_flags(struct arguments *out, const struct options *options)
{
    arguments_add(out, "-o");
    arguments_add(out, "BatchMode=yes");
    arguments_add(out, "-o");
    arguments_add_format(out, "ConnectTimeout=%d", SSH_CONNECT_S);
    launch_add_ssh(options, out);
}

static bool is_ssh(const char *program)
{
    const char *slash = strrchr(program, '/');

    return strcmp(slash == NULL ? program : slash + 1, "ssh") == 0;
}

void ssh_command(const struct ssh_way *way, const char *host, struct arguments *out)
{
    size_t first = out->count;

    if (way->agent == NULL ||
            arguments_split(out, way->agent, "the variable for ssh") != TUTTI_OK ||
            out->count == first) {
        arguments_add(out, "ssh");
    }
    /* Another program has flags of its own. */
    if (!out->failed && is_ssh(out->items[first])) {
        add_flags(out, way->options);
    }
    arguments_add(out, host);
}

const char *ssh_agent(const struct options *options, char *const *environment)
{
    static const char *const names[] = { "OMPI_MCA_plm_rsh_agent",
        "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC" };
    const char *value = NULL;

    if (options->ssh_config != NULL || options->ssh_port != 0 ||
            options->ssh_identity_file != NULL || options->ssh_args.count > 0) {
        return NULL;
    }
    for (size_t i = 0; value == NULL && i < sizeof names / sizeof names[0]; i++) {
        value = environment_get(environment, names[i]);
    }
    return value;
}

static void add_words(struct arguments *out, const char *const *words)
{
    for (; *words != NULL; words++) {
        arguments_add(out, *words);
    }
}

/* ssh gives its words to a shell there, joined by blanks: they are quoted for that one. */
static void add_quoted(struct arguments *out, const char *const *words)
{
    struct arguments list = { .items = NULL };
    char *line;

    add_words(&list, words);
    line = list.failed ? NULL : arguments_quote(&list);
    if (line != NULL) {
        arguments_add(out, line);
    } else {
        out->failed = true;
    }
    mem_free(line);
    arguments_fini(&list);
}

void ssh_run(const struct ssh_way *way, const char *host, bool is_here,
        const char *const *words, struct arguments *out)
{
    static const char *const srun[] = { "srun", "-N1", "-n1", "--overlap", "--mpi=none",
        "--quiet", "-w", NULL };

    if (is_here) {
        add_words(out, words);
    } else if (way->is_slurm) {
        add_words(out, srun);
        arguments_add(out, host);
        add_words(out, words);
    } else {
        ssh_command(way, host, out);
        add_quoted(out, words);
    }
}

char *ssh_line(const struct ssh_way *way, const char *host, bool is_here,
        const char *const *words)
{
    struct arguments list = { .items = NULL };
    char *line;

    ssh_run(way, host, is_here, words, &list);
    line = list.failed ? NULL : arguments_quote(&list);
    arguments_fini(&list);
    return line;
}
