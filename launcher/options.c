/*
 * Reading the command line: words that are flags of ours or parameters of the library.
 */
#include "launcher/options.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/config_file.h"
#include "launcher/flags.h"
#include "launcher/horovod_flags.h"

enum {
    FLAG_NAME_LIMIT = 64 /* bytes of a flag's name with its terminating zero */
};

char *options_variable(const char *name, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "TUTTI_%s", name);
    for (char *p = text; *p != '\0'; p++) {
        if (*p >= 'a' && *p <= 'z') {
            *p = (char)(*p - 'a' + 'A');
        }
    }
    return text;
}

char *options_flag_name(const char *name, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "%s", name);
    for (char *p = text; *p != '\0'; p++) {
        if (*p == '_') {
            *p = '-';
        }
    }
    return text;
}

/* Puts the name of the nearest flag of ours, if any is nearer than *least. */
static void nearest_of_ours(
        const char *name, size_t *least, char *text, size_t capacity)
{
    const struct flag *flag;

    for (size_t n = 0; (flag = flag_at(n)) != NULL; n++) {
        size_t distance = text_distance(name, flag->name);
        size_t limit = size_max(strlen(name), strlen(flag->name)) / 2;

        if (distance < *least && distance <= limit) {
            *least = distance;
            (void)snprintf(text, capacity, "%s", flag->name);
        }
    }
}

const char *options_nearest(const char *name, char *text, size_t capacity)
{
    const struct config_row *row = config_nearest(name);
    size_t least = SIZE_MAX;

    text[0] = '\0';
    if (row != NULL) {
        least = text_distance(name, options_flag_name(row->name, text, capacity));
    }
    nearest_of_ours(name, &least, text, capacity);
    return text;
}

static tutti_status refuse_unknown(const char *word, const char *name)
{
    char nearest[FLAG_NAME_LIMIT];

    if (options_nearest(name, nearest, sizeof nearest)[0] != '\0') {
        return error_set(TUTTI_ERR_INVALID, "unknown option %s; did you mean --%s?",
                word, nearest);
    }
    return error_set(TUTTI_ERR_INVALID, "unknown option %s; see tuttirun --help", word);
}

static tutti_status apply_row(struct options *options, const struct config_row *row,
        const char *value, const char *origin)
{
    char variable[FLAG_NAME_LIMIT + 6];
    tutti_status status = config_set(&options->config, row->name, value, origin);

    if (status == TUTTI_OK) {
        arguments_set(&options->exports,
                options_variable(row->name, variable, sizeof variable), value);
    }
    return status;
}

struct options_name options_find(const char *name)
{
    char ours[FLAG_NAME_LIMIT];
    struct options_name found = {
        .flag = flag_of_name(options_flag_name(name, ours, sizeof ours)),
        .row = config_find(name),
        .horovod = horovod_flag_of_name(name),
    };
    bool known = found.flag != NULL || found.row != NULL;

    /* A name that is ours as well is horovodrun's only where its values differ. */
    if (found.horovod != NULL &&
            (found.horovod->meaning == HOROVOD_SAME ||
                    (known && found.horovod->convert == NULL))) {
        found.horovod = NULL;
    }
    return found;
}

bool options_takes_value(const struct options_name *name)
{
    if (name->horovod != NULL) {
        return name->horovod->argument != NULL;
    }
    return name->flag == NULL || name->flag->argument != NULL;
}

/* Sets a flag of ours or a parameter. */
static tutti_status apply_ours(struct options *options, const struct options_name *name,
        const char *value, const char *origin)
{
    if (name->flag != NULL) {
        return name->flag->apply(options, value, origin);
    }
    return apply_row(options, name->row, value, origin);
}

tutti_status options_set(struct options *options, const char *name, const char *value,
        const char *origin)
{
    struct options_name found = options_find(name);

    found.horovod = NULL;
    if (found.flag == NULL && found.row == NULL) {
        return refuse_unknown(origin, name);
    }
    return apply_ours(options, &found, value, origin);
}

const char *options_keep(struct options *options, const char *text)
{
    arguments_add(&options->kept, text);
    return options->kept.failed ? "" : options->kept.items[options->kept.count - 1];
}

/* A word of the command line that is a flag, taken apart. */
struct flag_word {
    struct options_name name; /* what it is                              */
    const char *value; /* part of the word; NULL: the next word   */
    char origin[FLAG_NAME_LIMIT + 2]; /* the flag as written, for errors         */
};

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
    out->name = options_find(name);
    if (out->name.flag != NULL || out->name.row != NULL || out->name.horovod != NULL) {
        return TUTTI_OK;
    }
    if (!has_two_dashes) {
        out->name.flag = flag_of_letter(start[0]);
        (void)snprintf(out->origin, sizeof out->origin, "-%c", start[0]);
        out->value = start[1] == '\0' ? NULL : start + 1;
    }
    if (out->name.flag == NULL ||
            (out->name.flag->argument == NULL && out->value != NULL)) {
        return refuse_unknown(word, name);
    }
    return TUTTI_OK;
}

/* True when a flag, followed by this word, stands alone. */
static bool stands_alone(const struct flag_word *read, const char *next)
{
    const struct flag *flag = read->name.flag;
    bool is_mpi = strcmp(read->origin + strspn(read->origin, "-"), "mpi") == 0;
    int index;

    /* horovodrun's --mpi has no value; --mpi NAME is ours. */
    if (flag == NULL || !(flag->optional || (is_mpi && flag->choices != NULL))) {
        return false;
    }
    return next == NULL || flag->choices == NULL ||
            !text_to_choice(next, flag->choices, &index);
}

/* Takes the flag at **argv apart and moves *argv behind it and its value. */
static tutti_status take_flag(char *const **argv, struct flag_word *read)
{
    const char *word = *(*argv)++;
    tutti_status status = read_flag_word(word, read);

    if (status != TUTTI_OK) {
        return status;
    }
    if (!options_takes_value(&read->name)) {
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

static tutti_status apply_flag(struct options *options, const struct flag_word *read)
{
    char origin[FLAG_NAME_LIMIT + 2] = "--";
    bool takes_value = options_takes_value(&read->name);

    if (read->name.horovod != NULL) {
        return horovod_flag_apply(
                options, read->name.horovod, read->value, read->origin);
    }
    if (read->name.flag != NULL) {
        if (takes_value && read->value == NULL && !read->name.flag->optional) {
            return TUTTI_OK; /* horovodrun's --mpi */
        }
        return read->name.flag->apply(options, read->value, read->origin);
    }
    (void)options_flag_name(read->name.row->name, origin + 2, FLAG_NAME_LIMIT);
    return apply_row(options, read->name.row, read->value, origin);
}

tutti_status options_settle_ranks(
        struct options *options, const struct host_list *hosts)
{
    int slots = host_list_slots(hosts);

    if (options->ranks == 0 && slots == 0) {
        return error_set(TUTTI_ERR_INVALID,
                "how many ranks? Give -np N, or hosts with -H or --hostfile");
    }
    if (options->ranks == 0 && slots > RANKS_LIMIT) {
        return error_set(TUTTI_ERR_INVALID,
                "the hosts have %d slots; the largest number of ranks is %d", slots,
                RANKS_LIMIT);
    }
    if (options->ranks == 0) {
        options->ranks = slots;
    }
    if (slots != 0 && options->ranks > slots) {
        return error_set(TUTTI_ERR_INVALID,
                "-np %d, but the hosts have %d slot%s; give them more (host:slots) or "
                "ask for fewer ranks",
                options->ranks, slots, slots == 1 ? "" : "s");
    }
    return TUTTI_OK;
}

/* What can only be said when all flags are known. */
static tutti_status check_together(struct options *options)
{
    tutti_status status;

    if (options->program[0] == NULL) {
        return error_set(TUTTI_ERR_INVALID, "no program is given; see tuttirun --help");
    }
    if (options->hosts.list.count > 0 && options->hosts.script != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "-H and --hostfile name the hosts, and so does "
                "--host-discovery-script; use one of them");
    }
    status = job_options_check(&options->job);
    if (status == TUTTI_OK && options->hosts.slots_per_host > 0) {
        status = host_list_imply(&options->hosts.list, options->hosts.slots_per_host);
    }
    if (status == TUTTI_OK && options->hosts.list.count > 0) {
        status = options_settle_ranks(options, &options->hosts.list);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (arguments_status(&options->engine.mpi_args) != TUTTI_OK) {
        return TUTTI_ERR_NO_MEMORY;
    }
    if (arguments_status(&options->kept) != TUTTI_OK ||
            arguments_status(&options->notes) != TUTTI_OK) {
        return TUTTI_ERR_NO_MEMORY;
    }
    return arguments_status(&options->exports);
}

/* --check takes hosts and how to reach them, but no program. */
static tutti_status check_alone(struct options *options)
{
    if (options->program[0] != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--check runs nothing, so it takes no program: %s",
                options->program[0]);
    }
    return options->hosts.slots_per_host > 0
            ? host_list_imply(&options->hosts.list, options->hosts.slots_per_host)
            : arguments_status(&options->engine.ssh_args);
}

/* True for a word that is a flag; "--" and the program are none. */
static bool is_flag(const char *word)
{
    return word != NULL && word[0] == '-' && word[1] != '\0' && strcmp(word, "--") != 0;
}

/*
 * The configuration file goes first, so all flags are looked at twice. What is wrong with
 * them is said the second time.
 */
static tutti_status apply_config_file(struct options *options, char *const *argv)
{
    struct config_file_given given = { .hosts = false };
    const char *path = NULL;
    struct flag_word read;

    while (is_flag(*argv) && take_flag(&argv, &read) == TUTTI_OK) {
        const char *name = read.name.flag != NULL ? read.name.flag->name : "";

        given.hosts = given.hosts || config_file_is_hosts(name);
        if (strcmp(name, "config-file") == 0) {
            path = read.value;
        } else if (strcmp(name, "help") == 0 || strcmp(name, "version") == 0) {
            return TUTTI_OK;
        }
    }
    return path == NULL ? TUTTI_OK : config_file_apply(options, path, &given);
}

/* What follows --help and --version: a topic, and whether to say more. */
static void read_rest(struct options *options, char *const *argv)
{
    if (options->action == OPTIONS_HELP && options->topic == NULL) {
        options->topic = *argv;
    }
    for (; *argv != NULL; argv++) {
        options->verbose = options->verbose || strcmp(*argv, "--verbose") == 0 ||
                strcmp(*argv, "-v") == 0;
    }
}

tutti_status options_parse(struct options *options, char *const *argv)
{
    struct flag_word read;
    tutti_status status;

    *options = (struct options){ .ranks = 0 };
    job_options_init(&options->job);
    argv++;
    status = config_init(&options->config);
    if (status == TUTTI_OK) {
        status = apply_config_file(options, argv);
    }
    while (status == TUTTI_OK && options->action == OPTIONS_RUN && is_flag(*argv)) {
        status = take_flag(&argv, &read);
        if (status == TUTTI_OK) {
            status = apply_flag(options, &read);
        }
    }
    if (status != TUTTI_OK || options->action != OPTIONS_RUN) {
        read_rest(options, argv);
        options->program = argv;
        return status;
    }
    options->program = *argv != NULL && strcmp(*argv, "--") == 0 ? argv + 1 : argv;
    if (options->check) {
        return check_alone(options);
    }
    return options->bind.show ? TUTTI_OK : check_together(options);
}

void options_fini(struct options *options)
{
    host_list_fini(&options->hosts.list);
    arguments_fini(&options->engine.mpi_args);
    arguments_fini(&options->engine.ssh_args);
    arguments_fini(&options->exports);
    arguments_fini(&options->notes);
    arguments_fini(&options->kept);
    config_fini(&options->config);
}
