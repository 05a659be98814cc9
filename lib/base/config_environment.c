/*
 * Parameters from the environment: the only file that reads environment variables.
 *
 * Where Horovod's variables mean something else, horovod_value() translates; two of them
 * have no row in the table and a line of their own.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/mem.h"
#include "base/text.h"

#define VARIABLE_PREFIX "TUTTI_"
#define VARIABLE_INTERNAL "TUTTI_INTERNAL_"
/* tuttirun sets them for programs to read; the library has no parameters of these names. */
#define VARIABLE_DEVICE "TUTTI_LOCAL_DEVICE"
#define VARIABLE_ROLES "TUTTI_ROLES"
/* The Python package reads it. */
#define VARIABLE_LIBRARY "TUTTI_LIBRARY"

/* Lines of warnings, kept whole: what does not fit is left out. */
struct lines {
    char *text; /* terminated */
    size_t capacity; /* of text */
};

__attribute__((format(printf, 2, 3))) static void lines_add(
        struct lines *lines, const char *format, ...)
{
    size_t used = strlen(lines->text);
    char line[ERROR_TEXT_MAX];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof line &&
            used + (size_t)len + 1 < lines->capacity) {
        (void)snprintf(lines->text + used, lines->capacity - used, "%s\n", line);
    }
}

/* "TUTTI_" and the upper-case name. */
static void variable_of(
        const struct config_row *row, char variable[CONFIG_NAME_MAX + 8])
{
    size_t prefix = strlen(VARIABLE_PREFIX);
    size_t i;

    (void)snprintf(variable, CONFIG_NAME_MAX + 8, VARIABLE_PREFIX "%s", row->name);
    for (i = prefix; variable[i] != '\0'; i++) {
        variable[i] = text_upper(variable[i]);
    }
}

static const char *variable_get(const char *name)
{
    /* No other thread may change the environment meanwhile: nobody can exclude that. */
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

/* What a value of Horovod's is called here, where the two differ. */
static const char *horovod_value(const char *variable, const char *text)
{
    static const char *const levels[] = { "trace", "debug", "info", "warn", "error",
        "error" };
    size_t bytes;
    int level;

    if (strcmp(variable, "HOROVOD_LOG_LEVEL") == 0 &&
            text_to_choice(text, "trace|debug|info|warning|error|fatal", &level)) {
        return levels[level];
    }
    /* 0 bytes switch fusion off there; here that is a limit that nothing fits. */
    if (strcmp(variable, "HOROVOD_FUSION_THRESHOLD") == 0 &&
            text_to_size(text, &bytes) && bytes == 0) {
        return "1";
    }
    /* A timeline that hvd.start_timeline() begins: tutti_timeline_start() can at any time. */
    if (strcmp(variable, "HOROVOD_TIMELINE") == 0 && strcmp(text, "DYNAMIC") == 0) {
        return "";
    }
    return text;
}

static tutti_status apply_alias(
        struct config *config, const struct config_row *row, struct lines *warnings)
{
    char variable[CONFIG_NAME_MAX + 8];
    const char *text = row->horovod != NULL ? variable_get(row->horovod) : NULL;
    tutti_status status;

    if (text == NULL) {
        return TUTTI_OK;
    }
    status = config_set(
            config, row->name, horovod_value(row->horovod, text), row->horovod);
    if (status == TUTTI_OK) {
        variable_of(row, variable);
        lines_add(warnings, "%s is read as %s", row->horovod, variable);
    }
    return status;
}

/* Horovod's switch for the warning and the shutdown, which are numbers here. */
static tutti_status apply_stall_check_disable(
        struct config *config, struct lines *warnings)
{
    static const char variable[] = "HOROVOD_STALL_CHECK_DISABLE";
    const char *text = variable_get(variable);
    bool disable;
    int64_t number;

    if (text == NULL) {
        return TUTTI_OK;
    }
    if (text_to_int64(text, &number)) {
        disable = number > 0;
    } else if (!text_to_bool(text, &disable)) {
        return error_set(TUTTI_ERR_CONFIG,
                "%s cannot be \"%.*s\": it takes true, false or a number", variable,
                CONFIG_SHOWN_MAX, text);
    }
    if (disable) {
        config->stall_warning_s = 0;
        config->stall_fail_s = 0;
        lines_add(warnings,
                "%s is read as TUTTI_STALL_WARNING_S=0 and TUTTI_STALL_FAIL_S=0",
                variable);
    }
    return TUTTI_OK;
}

static tutti_status apply_horovod(struct config *config, struct lines *warnings)
{
    size_t count, i;
    const struct config_row *rows = config_rows(&count);

    for (i = 0; i < count; i++) {
        tutti_status status = apply_alias(config, &rows[i], warnings);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    if (variable_get("HOROVOD_CYCLE_TIME") != NULL) {
        lines_add(warnings,
                "HOROVOD_CYCLE_TIME is ignored: tutti acts on events and has no cycle "
                "timer");
    }
    if (variable_get("HOROVOD_AUTOTUNE") != NULL) {
        lines_add(warnings,
                "HOROVOD_AUTOTUNE is ignored: there is nothing to tune, batch sizes "
                "follow "
                "from what is measured");
    }
    return apply_stall_check_disable(config, warnings);
}

static tutti_status apply_variables(struct config *config)
{
    size_t count, i;
    const struct config_row *rows = config_rows(&count);

    for (i = 0; i < count; i++) {
        char variable[CONFIG_NAME_MAX + 8];
        const char *text;
        tutti_status status;

        variable_of(&rows[i], variable);
        text = variable_get(variable);
        status = text == NULL ? TUTTI_OK
                              : config_set(config, rows[i].name, text, variable);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True when "NAME=value" sets a parameter, or is there for programs. */
static bool is_known_variable(const char *entry, size_t name_len)
{
    size_t count, i;
    const struct config_row *rows = config_rows(&count);

    if (has_prefix(entry, VARIABLE_DEVICE "=") ||
            has_prefix(entry, VARIABLE_ROLES "=") ||
            has_prefix(entry, VARIABLE_LIBRARY "=")) {
        return true;
    }
    for (i = 0; i < count; i++) {
        char variable[CONFIG_NAME_MAX + 8];

        variable_of(&rows[i], variable);
        if (strlen(variable) == name_len && strncmp(entry, variable, name_len) == 0) {
            return true;
        }
    }
    return false;
}

/* Warns of one unknown TUTTI_ variable, or refuses it. */
static tutti_status report_unknown(
        const char *entry, size_t name_len, bool strict, struct lines *warnings)
{
    char name[CONFIG_SHOWN_MAX + 1];
    char variable[CONFIG_NAME_MAX + 8];
    char hint[CONFIG_NAME_MAX + 32] = "";
    const struct config_row *nearest;

    (void)snprintf(name, sizeof name, "%.*s", (int)size_min(name_len, CONFIG_SHOWN_MAX),
            entry);
    nearest = config_nearest(name + strlen(VARIABLE_PREFIX));
    if (nearest != NULL) {
        variable_of(nearest, variable);
        (void)snprintf(hint, sizeof hint, "; did you mean %s?", variable);
    }
    if (strict) {
        return error_set(TUTTI_ERR_CONFIG, "%s names no parameter%s", name, hint);
    }
    lines_add(warnings, "%s names no parameter%s", name, hint);
    return TUTTI_OK;
}

static tutti_status check_unknown(const struct config *config, struct lines *warnings)
{
    char *const *entry;

    for (entry = environ; entry != NULL && *entry != NULL; entry++) {
        size_t name_len = strcspn(*entry, "=");
        tutti_status status;

        if (!has_prefix(*entry, VARIABLE_PREFIX) ||
                has_prefix(*entry, VARIABLE_INTERNAL) ||
                is_known_variable(*entry, name_len)) {
            continue;
        }
        status = report_unknown(*entry, name_len, config->strict, warnings);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status config_from_environment(
        struct config *config, char *warnings, size_t capacity)
{
    struct lines lines = { .capacity = capacity };
    struct config next;
    tutti_status status = config_copy(&next, config);

    if (status != TUTTI_OK) {
        return status;
    }
    lines.text = warnings;
    status = apply_horovod(&next, &lines);
    if (status == TUTTI_OK) {
        status = apply_variables(&next);
    }
    if (status == TUTTI_OK) {
        status = check_unknown(&next, &lines);
    }
    if (status != TUTTI_OK) {
        config_fini(&next);
        return status;
    }
    config_fini(config);
    *config = next;
    config_warn_ignored(config, warnings, capacity);
    return TUTTI_OK;
}

void config_warn_ignored(const struct config *config, char *warnings, size_t capacity)
{
    static const char text[] = "plan, plan_alpha_us and plan_beta_ns_per_mb are "
                               "ignored: there are no plans any more, and nothing "
                               "needs to be set";
    const struct config_bytes *given = &config->given;
    struct lines lines = { .text = warnings, .capacity = capacity };

    if ((given->plan != 0 || given->plan_alpha_us != 0 ||
                given->plan_beta_ns_per_mb != 0) &&
            strstr(warnings, text) == NULL) {
        lines_add(&lines, "%s", text);
    }
}

const char *config_internal(const char *variable)
{
    return has_prefix(variable, VARIABLE_INTERNAL) ? variable_get(variable) : NULL;
}

const char *config_foreign(const char *variable)
{
    return variable_get(variable);
}

int config_launched_ranks(const char **variable)
{
    /* mpirun may run inside a step of srun, but not the other way round. */
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
        "SLURM_STEP_NUM_TASKS", "WORLD_SIZE" };
    /* Operators of Kubernetes also set the last, for torchrun: to the number of hosts. With it
     * they say where to meet. */
    const bool is_rank = variable_get("RANK") != NULL &&
            (variable_get("LOCAL_RANK") != NULL || variable_get("MASTER_ADDR") == NULL);
    const size_t count = sizeof names / sizeof names[0] - (is_rank ? 0 : 1);

    for (size_t i = 0; i < count; i++) {
        const char *text = variable_get(names[i]);
        int64_t ranks;

        if (text != NULL && text_to_int64(text, &ranks) && ranks >= 1 &&
                ranks <= INT_MAX) {
            *variable = names[i];
            return (int)ranks;
        }
    }
    return 0;
}
