/*
 * The table of parameters, and their values: from text, to text, copied.
 *
 * The rows are generated from config.def, and everything else walks the rows: a
 * parameter is known in no other place.
 */
#include "base/config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* clang-format off */
#define SAME true
#define FREE false
#define ROW_FIELDS(field, kind, def, allowed, scope, alias, text)                      \
    .name = #field, .type = (kind), .initial = (def), .range = (allowed),              \
    .same = (scope), .horovod = (alias), .help = (text),                               \
    .offset = offsetof(struct config, field)
#define BOOL(name, def, scope, horovod, help)                                          \
    { ROW_FIELDS(name, CONFIG_BOOL, #def, "true|false", scope, horovod, help) },
#define NUMBER(name, kind, def, low, high, scope, horovod, help)                       \
    { ROW_FIELDS(name, kind, def, #low ".." #high, scope, horovod, help),              \
        .min = (double)(low), .max = (double)(high) },
#define INT(name, def, min, max, scope, horovod, help)                                 \
    NUMBER(name, CONFIG_INT, #def, min, max, scope, horovod, help)
#define SIZE(name, def, min, max, scope, horovod, help)                                \
    NUMBER(name, CONFIG_SIZE, #def, min, max, scope, horovod, help)
#define REAL(name, def, min, max, scope, horovod, help)                                \
    NUMBER(name, CONFIG_REAL, #def, min, max, scope, horovod, help)
#define ENUM(name, def, choices, scope, horovod, help)                                 \
    { ROW_FIELDS(name, CONFIG_ENUM, def, choices, scope, horovod, help) },
#define TEXT(name, def, scope, horovod, help)                                          \
    { ROW_FIELDS(name, CONFIG_TEXT, def, "text", scope, horovod, help) },
static const struct config_row rows[CONFIG_COUNT] = {
#include "base/config.def"
};
#undef NUMBER
#undef ROW_FIELDS
#undef SAME
#undef FREE
/* clang-format on */

const struct config_row *config_rows(size_t *count)
{
    *count = CONFIG_COUNT;
    return rows;
}

/* Copies a name with '-' as '_'; false when it is too long for a name. */
static bool name_normalise(const char *name, char *normal)
{
    size_t i;

    for (i = 0; name[i] != '\0'; i++) {
        if (i == CONFIG_NAME_MAX) {
            return false;
        }
        normal[i] = name[i];
        if (name[i] == '-') {
            normal[i] = '_';
        }
    }
    normal[i] = '\0';
    return true;
}

const struct config_row *config_find(const char *name)
{
    char normal[CONFIG_NAME_MAX + 1];
    size_t i;

    if (!name_normalise(name, normal)) {
        return NULL;
    }
    for (i = 0; i < CONFIG_COUNT; i++) {
        if (strcmp(rows[i].name, normal) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct config_row *config_nearest(const char *name)
{
    const struct config_row *nearest = NULL;
    char normal[CONFIG_NAME_MAX + 1];
    size_t least = SIZE_MAX;
    size_t i;

    if (!name_normalise(name, normal)) {
        return NULL;
    }
    for (i = 0; normal[i] != '\0'; i++) {
        normal[i] = text_lower(normal[i]);
    }
    for (i = 0; i < CONFIG_COUNT; i++) {
        size_t distance = text_distance(normal, rows[i].name);
        /* With more than half of the letters wrong it is another word. */
        size_t limit = size_max(strlen(normal), strlen(rows[i].name)) / 2;

        if (distance < least && distance <= limit) {
            least = distance;
            nearest = &rows[i];
        }
    }
    return nearest;
}

tutti_status config_unknown(const char *name, const char *origin)
{
    const struct config_row *nearest = config_nearest(name);

    if (nearest == NULL) {
        return error_set(TUTTI_ERR_CONFIG, "%s: there is no parameter \"%.*s\"", origin,
                CONFIG_SHOWN_MAX, name);
    }
    return error_set(TUTTI_ERR_CONFIG,
            "%s: there is no parameter \"%.*s\"; did you mean \"%s\"?", origin,
            CONFIG_SHOWN_MAX, name, nearest->name);
}

/* ----------------------------------------------------------------------- values */

static void *value_of(struct config *config, const struct config_row *row)
{
    return (char *)config + row->offset;
}

static const void *const_value_of(
        const struct config *config, const struct config_row *row)
{
    return (const char *)config + row->offset;
}

static bool is_within(const struct config_row *row, double number)
{
    return number >= row->min && number <= row->max;
}

static bool parse_int(const struct config_row *row, const char *text, int *value)
{
    int64_t number;

    if (!text_to_int64(text, &number) || !is_within(row, (double)number)) {
        return false;
    }
    *value = (int)number;
    return true;
}

static bool parse_size(const struct config_row *row, const char *text, size_t *value)
{
    size_t number;

    if (!text_to_size(text, &number) || !is_within(row, (double)number)) {
        return false;
    }
    *value = number;
    return true;
}

static bool parse_real(const struct config_row *row, const char *text, double *value)
{
    double number;

    if (!text_to_real(text, &number) || !is_within(row, number)) {
        return false;
    }
    *value = number;
    return true;
}

static bool is_control(char letter)
{
    return (unsigned char)letter < ' ' || letter == '\x7f';
}

/* One line of printable text, because it is shown in messages and sent to ranks. */
static bool is_plain_text(const char *text)
{
    size_t i;

    for (i = 0; text[i] != '\0'; i++) {
        if (i == CONFIG_TEXT_MAX || is_control(text[i])) {
            return false;
        }
    }
    return true;
}

/* @return TUTTI_OK, TUTTI_ERR_CONFIG (malformed), TUTTI_ERR_NO_MEMORY */
static tutti_status parse_text(const char *text, char **value)
{
    char *copy;

    if (!is_plain_text(text)) {
        return TUTTI_ERR_CONFIG;
    }
    copy = mem_strdup(text);
    if (copy == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    mem_free(*value);
    *value = copy;
    return TUTTI_OK;
}

/* backend=messages was called mpi while an MPI carried them all. */
static bool parse_choice(const struct config_row *row, const char *text, int *value)
{
    const bool is_old = strcmp(row->name, "backend") == 0 && strcmp(text, "mpi") == 0;

    return text_to_choice(is_old ? "messages" : text, row->range, value);
}

/* Parses into the value; on failure it keeps what it was. As parse_text(). */
static tutti_status value_parse(
        const struct config_row *row, const char *text, void *value)
{
    bool ok = false;

    switch (row->type) {
    case CONFIG_BOOL:
        ok = text_to_bool(text, value);
        break;
    case CONFIG_INT:
        ok = parse_int(row, text, value);
        break;
    case CONFIG_SIZE:
        ok = parse_size(row, text, value);
        break;
    case CONFIG_REAL:
        ok = parse_real(row, text, value);
        break;
    case CONFIG_ENUM:
        ok = parse_choice(row, text, value);
        break;
    case CONFIG_TEXT:
        return parse_text(text, value);
    }
    return ok ? TUTTI_OK : TUTTI_ERR_CONFIG;
}

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the configuration");
}

tutti_status config_init(struct config *config)
{
    struct config fresh = { .host_id = NULL };
    size_t i;

    for (i = 0; i < CONFIG_COUNT; i++) {
        if (value_parse(&rows[i], rows[i].initial, value_of(&fresh, &rows[i])) !=
                TUTTI_OK) {
            config_fini(&fresh);
            return no_memory();
        }
    }
    *config = fresh;
    return TUTTI_OK;
}

void config_fini(struct config *config)
{
    size_t i;

    for (i = 0; i < CONFIG_COUNT; i++) {
        if (rows[i].type == CONFIG_TEXT) {
            char **text = value_of(config, &rows[i]);

            mem_free(*text);
            *text = NULL;
        }
    }
}

tutti_status config_copy(struct config *to, const struct config *from)
{
    struct config copy = *from;
    bool failed = false;
    size_t i;

    for (i = 0; i < CONFIG_COUNT; i++) {
        if (rows[i].type == CONFIG_TEXT) {
            char **text = value_of(&copy, &rows[i]);

            *text = mem_strdup(*text);
            failed = failed || *text == NULL;
        }
    }
    if (failed) {
        config_fini(&copy);
        return no_memory();
    }
    *to = copy;
    return TUTTI_OK;
}

/* Sets the last error to what the parameter takes instead of this value. */
static tutti_status bad_value(
        const struct config_row *row, const char *text, const char *origin)
{
    const char *before = "";
    const char *allowed = row->range;
    const char *after = "";

    switch (row->type) {
    case CONFIG_BOOL:
        allowed = "true or false (also 1, 0, yes, no, on, off)";
        break;
    case CONFIG_INT:
        before = "a whole number in ";
        break;
    case CONFIG_SIZE:
        before = "bytes in ";
        after = " (suffixes k, m and g are powers of 1024)";
        break;
    case CONFIG_REAL:
        before = "a number in ";
        break;
    case CONFIG_ENUM:
        before = "one of ";
        break;
    case CONFIG_TEXT:
        allowed = "at most 255 characters without line breaks";
        break;
    }
    return error_set(TUTTI_ERR_CONFIG, "%s: %s cannot be \"%.*s\": it takes %s%s%s",
            origin, row->name, CONFIG_SHOWN_MAX, text, before, allowed, after);
}

tutti_status config_set(
        struct config *config, const char *name, const char *text, const char *origin)
{
    const struct config_row *row = config_find(name);
    tutti_status status;

    if (row == NULL) {
        return config_unknown(name, origin);
    }
    status = value_parse(row, text, value_of(config, row));
    if (status == TUTTI_ERR_CONFIG) {
        return bad_value(row, text, origin);
    }
    if (status == TUTTI_OK) {
        ((char *)&config->given)[row - rows] = 1;
    }
    return status == TUTTI_OK ? TUTTI_OK : no_memory();
}

bool config_is_given(const struct config *config, const char *name)
{
    const struct config_row *row = config_find(name);

    return row != NULL && ((const char *)&config->given)[row - rows] != 0;
}

bool config_format(const struct config *config, const struct config_row *row,
        char *text, size_t capacity)
{
    const void *value = const_value_of(config, row);
    int len = -1;

    switch (row->type) {
    case CONFIG_BOOL:
        len = snprintf(text, capacity, "%s", *(const bool *)value ? "true" : "false");
        break;
    case CONFIG_INT:
        len = snprintf(text, capacity, "%d", *(const int *)value);
        break;
    case CONFIG_SIZE:
        len = snprintf(text, capacity, "%zu", *(const size_t *)value);
        break;
    case CONFIG_REAL:
        return text_from_real(*(const double *)value, text, capacity);
    case CONFIG_ENUM:
        return text_from_choice(row->range, *(const int *)value, text, capacity);
    case CONFIG_TEXT:
        len = snprintf(text, capacity, "%s", *(char *const *)value);
        break;
    }
    return len >= 0 && (size_t)len < capacity;
}
