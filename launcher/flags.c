#include "launcher/flags.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "launcher/elastic/members.h"
#include "launcher/exec/host_metrics.h"
#include "launcher/job/ranks.h"
#include "launcher/options.h"

enum {
    SECONDS_MAX = 2000000 /* whose milliseconds an int can hold */
};

static bool is_drawing(const char *form)
{
    const char *ending = strrchr(form, '.');

    return strcmp(form, "text") == 0 || strcmp(form, "svg") == 0 ||
            (ending != NULL && strcmp(ending, ".svg") == 0);
}

static bool metrics_file_is_valid(const char *file)
{
    return host_metrics_format_of(file) >= 0;
}

static bool port_is_valid(const char *text)
{
    int64_t port;

    return text_to_int64(text, &port) && port >= 0 && port <= UINT16_MAX;
}

static bool cooldown_is_valid(const char *text)
{
    int64_t range[2];

    return members_read_cooldown(text, range);
}

/* Megabytes, of which none means no fusion: here 1 byte does. */
static bool convert_megabytes(const char *value, char *text, size_t capacity)
{
    int64_t megabytes;

    if (!text_to_int64(value, &megabytes) || megabytes < 0) {
        return false;
    }
    return megabytes == 0 ? snprintf(text, capacity, "1") > 0
                          : snprintf(text, capacity, "%sm", value) < (int)capacity;
}

/* Names that differ; others are checked by the parameter. */
static bool convert_level(const char *value, char *text, size_t capacity)
{
    int index;

    if (text_to_choice(value, "warning|fatal", &index)) {
        return text_from_choice("warn|error", index, text, capacity);
    }
    return snprintf(text, capacity, "%s", value) < (int)capacity;
}

static bool convert_seconds(const char *value, char *text, size_t capacity)
{
    double seconds;

    return text_to_real(value, &seconds) && seconds >= 0 &&
            snprintf(text, capacity, "%s", value) < (int)capacity;
}

/* The help of a row comes first in `...`, columns that few flags have behind it. */
/* clang-format off */
#define PARAMETER(field, def, range, scope, text, ...)                                 \
    { .name = #field, .kind = FLAG_PARAMETER, .argument = (range), .initial = (def),   \
        .is_same = (scope), .help = (text), __VA_ARGS__ },
#define SAME true
#define FREE false
#define BOOL(field, def, scope, horovod, text)                                         \
    PARAMETER(field, #def, "true|false", scope, text, .choices = "true|false",         \
        .absent = "true")
#define INT(field, def, low, high, scope, horovod, text)                               \
    PARAMETER(field, #def, #low ".." #high, scope, text, .choices = NULL)
#define SIZE INT
#define REAL INT
#define ENUM(field, def, values, scope, horovod, text)                                 \
    PARAMETER(field, def, values, scope, text, .choices = (values))
#define TEXT(field, def, scope, horovod, text)                                         \
    PARAMETER(field, def, "text", scope, text, .choices = NULL)
static const struct flag rows[] = {
#include "base/config.def"
#undef SAME
#undef FREE
#undef PARAMETER
#define FLAG(field, type, ...)                                                         \
    { .name = #field, .kind = (type), .help = __VA_ARGS__ },
#define VALUE(field, type, text, ...)                                                  \
    { .name = #field, .kind = (type), .offset = offsetof(struct options, field),       \
        .argument = (text), .help = __VA_ARGS__ },
#define GROUP(heading) { .kind = FLAG_GROUP, .help = (heading) },
#define SWITCH(field, ...)                                                             \
    VALUE(field, FLAG_SWITCH, NULL, __VA_ARGS__)
#define ON_OFF(field, ...)                                                             \
    { .name = #field, .kind = FLAG_ON_OFF, .offset = offsetof(struct options, field),  \
        .argument = "HOW", .choices = "on|off", .help = __VA_ARGS__ },
#define CHOICE(field, text, values, ...)                                               \
    { .name = #field, .kind = FLAG_CHOICE, .offset = offsetof(struct options, field),  \
        .argument = (text), .choices = (values), .help = __VA_ARGS__ },
#define INT(field, text, low, high, ...)                                               \
    { .name = #field, .kind = FLAG_INT, .offset = offsetof(struct options, field),     \
        .argument = (text), .min = (low), .max = (high), .help = __VA_ARGS__ },
#define SECONDS(field, low, high, ...)                                                 \
    { .name = #field, .kind = FLAG_SECONDS,                                            \
        .offset = offsetof(struct options, field##_ms), .argument = "SECONDS",         \
        .expects = "write seconds,", .min = (low), .max = (high), .help = __VA_ARGS__ },
#define SIZE(field, text, ...) VALUE(field, FLAG_SIZE, text, __VA_ARGS__)
#define TEXT(field, text, ...) VALUE(field, FLAG_TEXT, text, __VA_ARGS__)
#define WORDS(field, text, ...) VALUE(field, FLAG_WORDS, text, __VA_ARGS__)
#define ACTION(field, type, text, ...)                                                 \
    { .name = #field, .kind = FLAG_##type, .argument = (text), .help = __VA_ARGS__ },
#define HOROVOD(field, type, ...) FLAG(field, FLAG_##type, __VA_ARGS__)
#include "launcher/flags.def"
#undef FLAG
#undef VALUE
};
/* clang-format on */

enum {
    ROW_COUNT = sizeof rows / sizeof rows[0]
};

const struct flag *flag_rows(size_t *count)
{
    *count = ROW_COUNT;
    return rows;
}

bool flag_is_ours(const struct flag *flag)
{
    return flag->kind > FLAG_GROUP && flag->kind < FLAG_PARAMETER;
}

bool flag_is_horovod(const struct flag *flag)
{
    return flag->kind > FLAG_SAME;
}

/* Equal but for '_' and '-'; false for NULL. */
static bool is_name(const char *ours, const char *name)
{
    for (; ours != NULL && *ours != '\0'; ours++, name++) {
        if ((*ours == '_' ? '-' : *ours) != (*name == '_' ? '-' : *name)) {
            return false;
        }
    }
    return ours != NULL && *name == '\0';
}

static bool has_name(const struct flag *flag, const char *name)
{
    return flag->kind != FLAG_GROUP && flag->kind != FLAG_SAME &&
            (is_name(flag->name, name) || is_name(flag->alias, name));
}

/* From the end: horovodrun's --log-level takes more words than ours. */
const struct flag *flag_find(const char *name)
{
    for (size_t i = ROW_COUNT; i-- > 0;) {
        if (has_name(&rows[i], name)) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct flag *flag_find_ours(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!flag_is_horovod(&rows[i]) && has_name(&rows[i], name)) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct flag *flag_of_letter(char letter)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (letter != '\0' && rows[i].letter == letter) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct flag *flag_of_key(const char *key)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].key != NULL && strcmp(rows[i].key, key) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct flag *flag_nearest(const char *name)
{
    const struct flag *nearest = NULL;
    char normal[FLAG_NAME_LIMIT];
    size_t least = SIZE_MAX;

    (void)snprintf(normal, sizeof normal, "%s", name);
    for (char *p = normal; *p != '\0'; p++) {
        *p = (char)(*p == '-' ? '_' : text_lower(*p));
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        size_t distance;

        if (!flag_is_ours(&rows[i]) && rows[i].kind != FLAG_PARAMETER) {
            continue;
        }
        distance = text_distance(normal, rows[i].name);
        /* With more than half of the letters wrong it is another word. */
        if (distance < least &&
                distance <= size_max(strlen(normal), strlen(rows[i].name)) / 2) {
            least = distance;
            nearest = &rows[i];
        }
    }
    return nearest;
}

const char *flag_spell(const struct flag *flag, char text[FLAG_NAME_LIMIT])
{
    (void)snprintf(text, FLAG_NAME_LIMIT, "%s", flag->name);
    for (char *p = text; *p != '\0'; p++) {
        *p = (char)(*p == '_' ? '-' : *p);
    }
    return text;
}

/* True when the help names the choices, or the argument of a parameter does. */
static bool names_choices(const struct flag *flag)
{
    char first[32];

    return flag->choices == NULL || flag->kind == FLAG_PARAMETER ||
            !text_from_choice(flag->choices, 0, first, sizeof first) ||
            strstr(flag->help, first) != NULL;
}

const char *flag_sentence(const struct flag *flag, char text[FLAG_SENTENCE_MAX])
{
    const bool has_initial = flag->initial != NULL && flag->initial[0] != '\0';
    const bool is_complete = names_choices(flag);

    (void)snprintf(text, FLAG_SENTENCE_MAX, "%s%s%s%s%s%s%s", flag->help,
            is_complete ? "" : " (", is_complete ? "" : flag->choices,
            is_complete ? "" : ")", has_initial ? "; default " : "",
            has_initial ? flag->initial : "",
            flag->is_same ? "; equal on all ranks" : "");
    return text;
}
