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
    (void)value;
    (void)origin;
    options->action = OPTIONS_HELP;
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

static const struct flag flags[] = {
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
            .help = "print the version",
            .apply = apply_version,
    },
    {
            .name = "help",
            .letter = 'h',
            .help = "print this",
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

static bool is_called(const struct flag *flag, const char *name)
{
    return strcmp(flag->name, name) == 0 ||
            (flag->alias != NULL && strcmp(flag->alias, name) == 0);
}

const struct flag *flag_of_name(const char *name)
{
    size_t count;
    const struct flag_group *const *groups = flag_groups(&count);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < groups[i]->count; k++) {
            if (is_called(&groups[i]->flags[k], name)) {
                return &groups[i]->flags[k];
            }
        }
    }
    return NULL;
}

const struct flag *flag_of_letter(char letter)
{
    size_t count;
    const struct flag_group *const *groups = flag_groups(&count);

    for (size_t i = 0; letter != '\0' && i < count; i++) {
        for (size_t k = 0; k < groups[i]->count; k++) {
            if (groups[i]->flags[k].letter == letter) {
                return &groups[i]->flags[k];
            }
        }
    }
    return NULL;
}
