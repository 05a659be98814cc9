/*
 * The members are appended to a fixed buffer; running out of it is latched.
 */
#include "bench/core/jsonline.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static void put(
        struct bench_json *json, const char *format, ...)
{
    size_t room = sizeof json->text - json->used;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(json->text + json->used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room) {
        json->overflow = true;
        json->text[json->used] = '\0';
        return;
    }
    json->used += (size_t)length;
}

static void put_key(struct bench_json *json, const char *key)
{
    put(json, "%s\"%s\":", json->used == 0 ? "{" : ",", key);
}

static void put_number(struct bench_json *json, double value)
{
    if (isfinite(value)) {
        put(json, "%.6g", value);
    } else {
        put(json, "null");
    }
}

void bench_json_text(struct bench_json *json, const char *key, const char *value)
{
    put_key(json, key);
    put(json, "\"");
    for (const char *at = value; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte == '"' || byte == '\\') {
            put(json, "\\%c", byte);
        } else if (byte < 0x20) {
            put(json, "\\u%04x", byte);
        } else {
            put(json, "%c", byte);
        }
    }
    put(json, "\"");
}

void bench_json_integer(struct bench_json *json, const char *key, int64_t value)
{
    put_key(json, key);
    put(json, "%" PRId64, value);
}

void bench_json_count(struct bench_json *json, const char *key, int64_t value)
{
    if (value < 0) {
        bench_json_null(json, key);
    } else {
        bench_json_integer(json, key, value);
    }
}

void bench_json_number(struct bench_json *json, const char *key, double value)
{
    put_key(json, key);
    put_number(json, value);
}

void bench_json_range(struct bench_json *json, const char *key, double low, double high)
{
    put_key(json, key);
    put(json, "[");
    put_number(json, low);
    put(json, ",");
    put_number(json, high);
    put(json, "]");
}

void bench_json_null(struct bench_json *json, const char *key)
{
    put_key(json, key);
    put(json, "null");
}

const char *bench_json_finish(struct bench_json *json)
{
    put(json, "%s}\n", json->used == 0 ? "{" : "");
    return json->overflow ? NULL : json->text;
}
