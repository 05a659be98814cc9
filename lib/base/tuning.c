/*
 * Settings on the wire, in words and in the file.
 */
#include "base/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/text.h"

static const char *const names[TUNING_COUNT] = {
    [TUNING_FUSION_BYTES] = "fusion_bytes",
    [TUNING_ALGORITHM] = "algorithm",
    [TUNING_GATHER_BYTES] = "gather_bytes",
    [TUNING_HIERARCHY] = "hierarchy",
    [TUNING_CHUNK_BYTES] = "chunk_bytes",
    [TUNING_INFLIGHT] = "inflight",
    [TUNING_SPIN_US] = "spin_us",
};

const char *tuning_name(enum tuning_knob knob)
{
    return names[knob];
}

/* True for what the parameter may be, and for 0. */
static bool is_allowed(enum tuning_knob knob, uint64_t value)
{
    const struct config_row *row = config_find(names[knob]);
    char text[CONFIG_NAME_MAX];

    if (row->type == CONFIG_ENUM) {
        return value <= INT32_MAX &&
                text_from_choice(row->range, (int)value, text, sizeof text);
    }
    return value == 0 || ((double)value >= row->min && (double)value <= row->max);
}

void tuning_put(struct wire_writer *out, const struct tuning *tuning)
{
    for (int k = 0; k < TUNING_COUNT; k++) {
        wire_put_varint(out, tuning->values[k]);
    }
}

bool tuning_get(struct wire_reader *in, struct tuning *tuning)
{
    bool ok = true;

    for (int k = 0; k < TUNING_COUNT; k++) {
        tuning->values[k] = wire_get_varint(in);
        ok = ok && is_allowed((enum tuning_knob)k, tuning->values[k]);
    }
    return ok && wire_ok(in);
}

/* A value as config_set() takes it. */
static void format_value(
        enum tuning_knob knob, uint64_t value, char *text, size_t capacity)
{
    const struct config_row *row = config_find(names[knob]);

    if (row->type != CONFIG_ENUM ||
            !text_from_choice(row->range, (int)value, text, capacity)) {
        (void)snprintf(text, capacity, "%" PRIu64, value);
    }
}

/* Adds "name=value" for each value, with something behind it; false when it does not fit. */
static bool add_values(
        const struct tuning *tuning, const char *behind, char *text, size_t capacity)
{
    for (int k = 0; k < TUNING_COUNT; k++) {
        const size_t used = strlen(text);
        char value[CONFIG_NAME_MAX];

        if (tuning->values[k] == 0) {
            continue;
        }
        format_value((enum tuning_knob)k, tuning->values[k], value, sizeof value);
        if (snprintf(text + used, capacity - used, "%s=%s%s", names[k], value,
                    behind) >= (int)(capacity - used)) {
            return false;
        }
    }
    return true;
}

void tuning_describe(const struct tuning *tuning, char *text, size_t capacity)
{
    text[0] = '\0';
    (void)add_values(tuning, " ", text, capacity);
    if (text[0] == '\0') {
        (void)snprintf(text, capacity, "none ");
    }
    text[strlen(text) - 1] = '\0';
}

/* -------------------------------------------------------------------------- file */

/* Reads "name=N" and moves *at behind it. */
static bool read_number(const char **at, const char *name, uint64_t *value)
{
    const size_t len = strlen(name);
    char *end;

    if (strncmp(*at, name, len) != 0 || (*at)[len] < '0' || (*at)[len] > '9') {
        return false;
    }
    *value = strtoull(*at + len, &end, 10);
    *at = end;
    return true;
}

static int read_heading(
        const char *line, const char *place, bool *here, struct tuning_record *record)
{
    const char *tensors = strstr(line, " tensors=");
    const char *at = tensors;
    struct tuning_record begun = { 0 };

    if (tensors == NULL || !read_number(&at, " tensors=", &begun.workload.tensors) ||
            !read_number(&at, " bytes=", &begun.workload.bytes) ||
            strcmp(at, "]") != 0 || begun.workload.tensors == 0) {
        return -1;
    }
    *here = strlen(place) == (size_t)(tensors - line - 1) &&
            strncmp(line + 1, place, strlen(place)) == 0;
    *record = begun;
    return 1;
}

/* Leaves the value as it is when the text is none that the parameter may have. */
static bool parse_value(enum tuning_knob knob, const char *text, uint64_t *value)
{
    const struct config_row *row = config_find(names[knob]);
    size_t number = 0;
    int choice = 0;

    if (row->type == CONFIG_ENUM) {
        number = text_to_choice(text, row->range, &choice) ? (size_t)choice : 0;
    } else if (!text_to_size(text, &number)) {
        number = 0;
    }
    if (number == 0 || !is_allowed(knob, number)) {
        return false;
    }
    *value = number;
    return true;
}

int tuning_read_line(
        const char *line, const char *place, bool *here, struct tuning_record *record)
{
    const char *equals = strchr(line, '=');

    if (line[0] == '\0' || line[0] == '#') {
        return 0;
    }
    if (line[0] == '[') {
        return read_heading(line, place, here, record);
    }
    if (equals == NULL || record->workload.tensors == 0) {
        return -1;
    }
    if (strncmp(line, "gain=", 5) == 0) {
        return 0;
    }
    for (int k = 0; k < TUNING_COUNT; k++) {
        if (strlen(names[k]) == (size_t)(equals - line) &&
                strncmp(line, names[k], (size_t)(equals - line)) == 0) {
            return parse_value(
                           (enum tuning_knob)k, equals + 1, &record->tuning.values[k])
                    ? 0
                    : -1;
        }
    }
    return -1;
}

bool tuning_write(const struct tuning_record *record, const char *place, double gain,
        char *text, size_t capacity)
{
    size_t used;

    if (snprintf(text, capacity, "[%s tensors=%" PRIu64 " bytes=%" PRIu64 "]\n", place,
                record->workload.tensors, record->workload.bytes) >= (int)capacity ||
            !add_values(&record->tuning, "\n", text, capacity)) {
        return false;
    }
    used = strlen(text);
    return snprintf(text + used, capacity - used, "gain=%.1f%%\n", 100 * gain) <
            (int)(capacity - used);
}
