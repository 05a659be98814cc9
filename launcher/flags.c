/*
 * The flags of tuttirun that belong to no folder, and the list of all groups.
 */
#include "launcher/flags.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"

tutti_status flag_read_choice(
        const char *value, const char *origin, const char *choices, int *index)
{
    if (!text_to_choice(value, choices, index)) {
        return error_set(
                TUTTI_ERR_INVALID, "%s %s: choose one of %s", origin, value, choices);
    }
    return TUTTI_OK;
}

static tutti_status apply_dry_run(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->dry_run = true;
    return TUTTI_OK;
}

static tutti_status apply_verbose(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->verbose = true;
    return TUTTI_OK;
}

static tutti_status apply_help(
        struct options *options, const char *value, const char *origin)
{
    (void)origin;
    options->action = OPTIONS_HELP;
    options->topic = value;
    return TUTTI_OK;
}

static tutti_status apply_version(
        struct options *options, const char *value, const char *origin)
{
    (void)value;
    (void)origin;
    options->action = OPTIONS_VERSION;
    return TUTTI_OK;
}

/* The file was read before all flags: options.c. */
static tutti_status apply_config_file(
        struct options *options, const char *value, const char *origin)
{
    if (options->config_file != NULL) {
        return error_set(TUTTI_ERR_INVALID, "%s %s: %s is given already; one file only",
                origin, value, options->config_file);
    }
    options->config_file = value;
    return TUTTI_OK;
}

static const struct flag flags[] = {
    {
            .name = "config-file",
            .argument = "FILE",
            .help = "flags and parameters from a YAML file; the command line wins",
            .apply = apply_config_file,
    },
    {
            .name = "dry-run",
            .help = "print the command that would be run, and run nothing",
            .apply = apply_dry_run,
    },
    {
            .name = "verbose",
            .letter = 'v',
            .help = "say what is run and how ranks are bound",
            .apply = apply_verbose,
    },
    {
            .name = "version",
            .letter = 'V',
            .help = "print the version; with --verbose, what tutti was built with",
            .apply = apply_version,
    },
    {
            .name = "help",
            .letter = 'h',
            .argument = "TOPIC",
            .optional = true,
            .help = "print this; about a TOPIC: parameters, all, or the name of a flag",
            .apply = apply_help,
    },
};

static const struct flag_group other_flags = {
    .heading = "Other",
    .flags = flags,
    .count = sizeof flags / sizeof flags[0],
};

const struct flag_group *const *flag_groups(size_t *count)
{
    static const struct flag_group *const groups[] = {
        &hosts_flags,
        &engine_flags,
        &bind_flags,
        &job_flags,
        &check_flags,
        &other_flags,
    };

    *count = sizeof groups / sizeof groups[0];
    return groups;
}

bool flag_names_choices(const struct flag *flag)
{
    char first[32];

    if (flag->choices == NULL) {
        return true;
    }
    return !text_from_choice(flag->choices, 0, first, sizeof first) ||
            strstr(flag->help, first) != NULL;
}

static bool is_called(const struct flag *flag, const char *name)
{
    return strcmp(flag->name, name) == 0 ||
            (flag->alias != NULL && strcmp(flag->alias, name) == 0);
}

const struct flag *flag_at(size_t n)
{
    size_t count;
    const struct flag_group *const *groups = flag_groups(&count);

    for (size_t i = 0; i < count; i++) {
        if (n < groups[i]->count) {
            return &groups[i]->flags[n];
        }
        n -= groups[i]->count;
    }
    return NULL;
}

const struct flag *flag_of_name(const char *name)
{
    const struct flag *flag;

    for (size_t n = 0; (flag = flag_at(n)) != NULL; n++) {
        if (is_called(flag, name)) {
            break;
        }
    }
    return flag;
}

const struct flag *flag_of_letter(char letter)
{
    const struct flag *flag;

    for (size_t n = 0; (flag = flag_at(n)) != NULL; n++) {
        if (letter != '\0' && flag->letter == letter) {
            break;
        }
    }
    return flag;
}
