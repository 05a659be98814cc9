/*
 * Command lines that run something on a host.
 */
#include "launcher/check/ssh.h"

#include "base/mem.h"

void ssh_command(const struct options *options, const char *host, struct arguments *out)
{
    const struct engine_options *engine = &options->engine;

    arguments_add(out, "ssh");
    arguments_add(out, "-o");
    arguments_add(out, "BatchMode=yes");
    arguments_add(out, "-o");
    arguments_add_format(out, "ConnectTimeout=%d", SSH_CONNECT_S);
    if (engine->ssh_config != NULL) {
        arguments_add(out, "-F");
        arguments_add(out, engine->ssh_config);
    }
    if (engine->ssh_port != 0) {
        arguments_add(out, "-p");
        arguments_add_format(out, "%d", engine->ssh_port);
    }
    if (engine->ssh_identity != NULL) {
        arguments_add(out, "-i");
        arguments_add(out, engine->ssh_identity);
    }
    if (engine->ssh_args.count > 0) {
        arguments_add_all(out, engine->ssh_args.items);
    }
    arguments_add(out, host);
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
        ssh_command(way->options, host, out);
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
