/*
 * Reading the command line: words that are flags, and what they say together.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/flags.h"
#include "launcher/options.h"

/* With fewer, a rank would be given up between two of them. */
enum {
    HEARTBEATS_MIN = 2
};

/* A word of the command line that is a flag, taken apart. */
struct flag_word {
    const struct flag *flag;
    const char *value; /* part of the word; NULL: the next word   */
    char origin[FLAG_NAME_LIMIT + 2]; /* the flag as written, for errors         */
};

/* What other launchers call what is done otherwise here. */
static const struct {
    const char *names; /* with | between them */
    const char *instead;
} elsewhere[] = {
    { "tag-output|prepend-rank|label",
            "each line is marked with its rank already; --prefix on|off" },
    { "map-by|bind-to|rank-by|cpu-bind|bind-to-core", "--bind auto|none|mpi" },
    { "nnodes|nodes", "-H a:4,b:4 or --hostfile names the hosts" },
    { "ppn|npernode|ntasks-per-node|nproc-per-node|nproc_per_node|perhost",
            "--slots-per-host N, or -H a:4,b:4" },
    { "mca|gmca|pmixmca|prtemca|genv|env",
            "--mpi-args \"...\" hands flags to the MPI's launcher, "
            "-x NAME=VALUE sets a variable" },
    { "oversubscribe|allow-run-as-root", "it is not needed" },
    { "output-filename|outfile-pattern", "--log-dir DIR" },
    { "wdir|wd|chdir|workdir", "start tuttirun in that directory" },
};

/* NULL: nothing is known of it. */
static const char *find_elsewhere(const char *name)
{
    int index;

    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (text_to_choice(name, elsewhere[i].names, &index)) {
            return elsewhere[i].instead;
        }
    }
    return NULL;
}

static tutti_status refuse_unknown(const char *word, const char *name)
{
    const struct flag *nearest = flag_nearest(name);
    const char *instead = find_elsewhere(name);
    char text[FLAG_NAME_LIMIT];

    if (instead != NULL) {
        return error_set(TUTTI_ERR_INVALID, "unknown option %s: %s", word, instead);
    }
    if (nearest != NULL) {
        return error_set(TUTTI_ERR_INVALID, "unknown option %s; did you mean --%s?",
                word, flag_spell(nearest, text));
    }
    return error_set(TUTTI_ERR_INVALID, "unknown option %s; see tuttirun --help", word);
}

/*
 * --name, --name=value, -name, -name=value, -l, -lvalue. The dashes of long names do
 * not matter: mpirun and horovodrun have -np and -hostfile.
 */
static tutti_status read_flag_word(const char *word, struct flag_word *out)
{
    bool has_two_dashes = word[1] == '-';
    const char *start = word + (has_two_dashes ? 2 : 1);
    size_t len = strcspn(start, "=");
    char name[FLAG_NAME_LIMIT];

    *out = (struct flag_word){ .value = start[len] == '=' ? start + len + 1 : NULL };
    (void)snprintf(name, sizeof name, "%.*s", (int)size_min(len, sizeof name), start);
    (void)snprintf(out->origin, sizeof out->origin, "%.*s%s", has_two_dashes ? 2 : 1,
            word, name);
    out->flag = flag_find(name);
    if (out->flag != NULL) {
        return TUTTI_OK;
    }
    if (!has_two_dashes && find_elsewhere(name) == NULL) {
        out->flag = flag_of_letter(start[0]);
        (void)snprintf(out->origin, sizeof out->origin, "-%c", start[0]);
        out->value = start[1] == '\0' ? NULL : start + 1;
    }
    if (out->flag == NULL || (out->flag->argument == NULL && out->value != NULL)) {
        return refuse_unknown(word, name);
    }
    return TUTTI_OK;
}

/* horovodrun's --mpi has no value; --mpi NAME is ours. */
static bool is_bare_mpi(const struct flag_word *read)
{
    return strcmp(read->origin + strspn(read->origin, "-"), "mpi") == 0 &&
            read->value == NULL;
}

/* True when a flag, followed by this word, stands alone. */
static bool stands_alone(const struct flag_word *read, const char *next)
{
    const char *choices = read->flag->choices;
    bool on;
    int index;

    if (read->flag->absent == NULL && !is_bare_mpi(read)) {
        return false;
    }
    if (next != NULL && read->flag->kind == FLAG_PARAMETER) {
        return !text_to_bool(next, &on);
    }
    return next == NULL || choices == NULL || !text_to_choice(next, choices, &index);
}

/* Takes the flag at **argv apart and moves *argv behind it and its value. */
static tutti_status take_flag(char *const **argv, struct flag_word *read)
{
    const char *word = *(*argv)++;
    tutti_status status = read_flag_word(word, read);

    if (status != TUTTI_OK) {
        return status;
    }
    if (read->flag->argument == NULL) {
        return read->value == NULL
                ? TUTTI_OK
                : error_set(TUTTI_ERR_INVALID, "%s takes no value: %s", read->origin,
                          word);
    }
    if (read->value != NULL || stands_alone(read, **argv)) {
        return TUTTI_OK;
    }
    read->value = **argv;
    if (read->value == NULL) {
        return error_set(TUTTI_ERR_INVALID, "%s: a value is missing", read->origin);
    }
    (*argv)++;
    return TUTTI_OK;
}

/* What can only be said when all flags are known. */
static tutti_status check_together(struct options *options)
{
    tutti_status status = TUTTI_OK;

    if (options->program[0] == NULL) {
        return error_set(TUTTI_ERR_INVALID, "no program is given; see tuttirun --help");
    }
    if (options->hosts.count > 0 && options->host_discovery_script != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "-H and --hostfile name the hosts, and so does "
                "--host-discovery-script; use one of them");
    }
    if (options->heartbeat_timeout_ms < HEARTBEATS_MIN * options->heartbeat_ms) {
        return error_set(TUTTI_ERR_INVALID,
                "--heartbeat-timeout %g is shorter than %d heartbeats of "
                "--heartbeat-ms %d; raise it, or lower --heartbeat-ms",
                options->heartbeat_timeout_ms / 1000.0, HEARTBEATS_MIN,
                options->heartbeat_ms);
    }
    if (options->slots_per_host > 0) {
        status = host_list_imply(&options->hosts, options->slots_per_host);
    }
    if (status == TUTTI_OK && options->hosts.count > 0) {
        status = options_settle_ranks(options, &options->hosts);
    }
    return status != TUTTI_OK ? status : options_status(options);
}

/* --check takes hosts and how to reach them, but no program. */
static tutti_status check_alone(struct options *options)
{
    if (options->program[0] != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--check runs nothing, so it takes no program: %s",
                options->program[0]);
    }
    return options->slots_per_host > 0
            ? host_list_imply(&options->hosts, options->slots_per_host)
            : options_status(options);
}

/* True for a word that is a flag; "--" and the program are none. */
static bool is_flag(const char *word)
{
    return word != NULL && word[0] == '-' && word[1] != '\0' && strcmp(word, "--") != 0;
}

/* Neither a job nor a look at hosts: --help and --version end the flags. */
static bool is_answered(const struct options *options)
{
    return options->help != NULL || options->version;
}

static bool names_config_file(const struct flag_word *read)
{
    return strcmp(read->flag->name, "config_file") == 0;
}

static tutti_status note_config_file(const struct flag_word *read, const char **path)
{
    if (*path != NULL) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: %s is given already; one file only",
                read->origin, read->value, *path);
    }
    *path = read->value;
    return TUTTI_OK;
}

/*
 * The configuration file goes first, so all flags are looked at twice. What is wrong with
 * them is said the second time.
 */
static tutti_status apply_config_file(struct options *options, char *const *argv)
{
    const char *path = NULL;
    tutti_status status = TUTTI_OK;
    bool has_hosts = false;
    struct flag_word read;

    while (status == TUTTI_OK && is_flag(*argv) &&
            take_flag(&argv, &read) == TUTTI_OK) {
        has_hosts = has_hosts || read.flag->is_hosts;
        if (names_config_file(&read)) {
            status = note_config_file(&read, &path);
        } else if (read.flag->not_in_file) {
            return TUTTI_OK; /* --help or --version */
        }
    }
    if (status == TUTTI_OK && path != NULL) {
        status = config_file_apply(options, path, has_hosts);
    }
    return status;
}

/* What follows --help and --version: a topic, and whether to say more. */
static void read_rest(struct options *options, char *const *argv)
{
    if (options->help != NULL && options->help[0] == '\0' && *argv != NULL) {
        options->help = *argv;
    }
    for (; *argv != NULL; argv++) {
        options->verbose = options->verbose || strcmp(*argv, "--verbose") == 0 ||
                strcmp(*argv, "-v") == 0;
    }
}

static tutti_status apply_flags(struct options *options, char *const **argv)
{
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && !is_answered(options) && is_flag(**argv)) {
        struct flag_word read;

        status = take_flag(argv, &read);
        if (status == TUTTI_OK && !is_bare_mpi(&read)) {
            status = options_set(options, read.flag, read.value, read.origin);
        }
    }
    return status;
}

tutti_status command_line_parse(struct options *options, char *const *argv)
{
    tutti_status status = options_init(options);

    argv++;
    if (status == TUTTI_OK) {
        status = apply_config_file(options, argv);
    }
    if (status == TUTTI_OK) {
        status = apply_flags(options, &argv);
    }
    if (status != TUTTI_OK || is_answered(options)) {
        read_rest(options, argv);
        options->program = argv;
        return status;
    }
    options->program = *argv != NULL && strcmp(*argv, "--") == 0 ? argv + 1 : argv;
    if (options->check) {
        return check_alone(options);
    }
    return options->show_binding != NULL || options->stacks > 0
            ? TUTTI_OK
            : check_together(options);
}
