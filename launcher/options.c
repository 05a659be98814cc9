/*
 * Reading the command line: words that are flags of ours or parameters of the library.
 */
#include "launcher/options.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/flags.h"

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
    size_t count;
    const struct flag_group *const *groups = flag_groups(&count);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < groups[i]->count; k++) {
            const char *other = groups[i]->flags[k].name;
            size_t distance = text_distance(name, other);
            size_t limit = size_max(strlen(name), strlen(other)) / 2;

            if (distance < *least && distance <= limit) {
                *least = distance;
                (void)snprintf(text, capacity, "%s", other);
            }
        }
    }
}

/* The flag, of either table, whose name is nearest; "" when none is near. */
static const char *nearest_flag(const char *name, char *text, size_t capacity)
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

    if (nearest_flag(name, nearest, sizeof nearest)[0] != '\0') {
        return error_set(TUTTI_ERR_INVALID, "unknown option %s; did you mean --%s?",
                word, nearest);
    }
    return error_set(TUTTI_ERR_INVALID, "unknown option %s; see tuttirun --help", word);
}

static tutti_status apply_row(
        struct options *options, const struct config_row *row, const char *value)
{
    char origin[FLAG_NAME_LIMIT + 2] = "--";
    char variable[FLAG_NAME_LIMIT + 6];
    tutti_status status;

    (void)options_flag_name(row->name, origin + 2, FLAG_NAME_LIMIT);
    status = config_set(&options->config, row->name, value, origin);
    if (status == TUTTI_OK) {
        arguments_set(&options->exports,
                options_variable(row->name, variable, sizeof variable), value);
    }
    return status;
}

/* A word of the command line that is a flag, taken apart. */
struct flag_word {
    const struct flag *flag; /* a flag of ours, or NULL                     */
    const struct config_row *row; /* a parameter, or NULL                        */
    const char *value; /* part of the word; NULL: the next word       */
    char origin[FLAG_NAME_LIMIT + 2]; /* the flag as written, for errors     */
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

    *out = (struct flag_word){ .flag = NULL };
    (void)snprintf(name, sizeof name, "%.*s", (int)size_min(len, sizeof name), start);
    (void)snprintf(out->origin, sizeof out->origin, "%.*s%s", has_two_dashes ? 2 : 1,
            word, name);
    out->value = start[len] == '=' ? start + len + 1 : NULL;
    out->flag = flag_of_name(name);
    out->row = out->flag == NULL ? config_find(name) : NULL;
    if (out->flag != NULL || out->row != NULL) {
        return TUTTI_OK;
    }
    if (!has_two_dashes) {
        out->flag = flag_of_letter(start[0]);
        (void)snprintf(out->origin, sizeof out->origin, "-%c", start[0]);
        out->value = start[1] == '\0' ? NULL : start + 1;
    }
    if (out->flag == NULL || (out->flag->argument == NULL && out->value != NULL)) {
        return refuse_unknown(word, name);
    }
    return TUTTI_OK;
}

/* Applies the flag at **argv and moves *argv behind it and its value. */
static tutti_status apply_flag(struct options *options, char *const **argv)
{
    const char *word = *(*argv)++;
    struct flag_word read;
    tutti_status status = read_flag_word(word, &read);
    bool takes_value;

    if (status != TUTTI_OK) {
        return status;
    }
    takes_value = read.row != NULL || read.flag->argument != NULL;
    if (takes_value && read.value == NULL) {
        read.value = **argv;
        if (read.value == NULL) {
            return error_set(TUTTI_ERR_INVALID, "%s: a value is missing", read.origin);
        }
        (*argv)++;
    }
    if (!takes_value && read.value != NULL) {
        return error_set(TUTTI_ERR_INVALID, "%s takes no value: %s", read.origin, word);
    }
    if (read.row != NULL) {
        return apply_row(options, read.row, read.value);
    }
    return read.flag->apply(options, read.value, read.origin);
}

/* What is done takes flags: the command line is read to its end. */
static bool takes_flags(const struct options *options)
{
    return options->action == OPTIONS_RUN || options->action == OPTIONS_CHECK;
}

/* What can only be said when all flags are known. */
static tutti_status check_together(struct options *options)
{
    int slots = host_list_slots(&options->hosts.list);

    if (options->program[0] == NULL) {
        return error_set(TUTTI_ERR_INVALID, "no program is given; see tuttirun --help");
    }
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
                "-np %d, but the hosts have %d slots; give them more (host:slots) or "
                "ask for fewer ranks",
                options->ranks, slots);
    }
    if (arguments_status(&options->engine.mpi_args) != TUTTI_OK) {
        return TUTTI_ERR_NO_MEMORY;
    }
    return arguments_status(&options->exports);
}

/* --check takes hosts and how to reach them, but no program. */
static tutti_status check_alone(const struct options *options)
{
    if (options->program[0] != NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "--check runs nothing, so it takes no program: %s",
                options->program[0]);
    }
    return arguments_status(&options->engine.ssh_args);
}

tutti_status options_parse(struct options *options, char *const *argv)
{
    tutti_status status;

    *options = (struct options){ .ranks = 0 };
    status = config_init(&options->config);
    argv++;
    while (status == TUTTI_OK && takes_flags(options) && *argv != NULL &&
            (*argv)[0] == '-' && (*argv)[1] != '\0') {
        if (strcmp(*argv, "--") == 0) {
            argv++;
            break;
        }
        status = apply_flag(options, &argv);
    }
    options->program = argv;
    if (status != TUTTI_OK || !takes_flags(options)) {
        return status;
    }
    return options->action == OPTIONS_CHECK ? check_alone(options)
                                            : check_together(options);
}

void options_fini(struct options *options)
{
    host_list_fini(&options->hosts.list);
    arguments_fini(&options->engine.mpi_args);
    arguments_fini(&options->engine.ssh_args);
    arguments_fini(&options->exports);
    config_fini(&options->config);
}
