/*
 * What calls that take parameters do with them alike.
 */
#include "params.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "reducer/elements.h"

size_t param_bytes(const tutti_param *param)
{
    return (size_t)param->count * tutti_dtype_size(param->dtype);
}

const struct update_kernels *param_kernels(const tutti_param *param)
{
    return param->dtype == TUTTI_FLOAT64 ? &update_doubles : update_fastest_floats();
}

static tutti_status check(const char *call, const tutti_param *params, size_t i)
{
    const tutti_param *param = &params[i];

    if (param->name == NULL || param->name[0] == '\0' ||
            strlen(param->name) > PARAM_NAME_BYTES_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: parameter %zu needs a name of 1 to %d bytes", call, i,
                PARAM_NAME_BYTES_MAX);
    }
    if (!elements_are_float(param->dtype)) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%s: parameter \"%s\" is of type %s: a float type is needed", call,
                param->name, tutti_dtype_name(param->dtype));
    }
    if (param->count < 1 || param->count > INT64_MAX / 1024) {
        return error_set(TUTTI_ERR_INVALID, "%s: parameter \"%s\" has %lld elements",
                call, param->name, (long long)param->count);
    }
    return TUTTI_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tutti_status check_names(const char *call, const tutti_param *params, size_t n)
{
    const char **names = calloc(n, sizeof *names);
    tutti_status status = TUTTI_OK;

    if (names == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "%s: out of memory", call);
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = params[i].name;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; status == TUTTI_OK && i < n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            status = error_set(TUTTI_ERR_INVALID,
                    "%s: two parameters are both called \"%s\"", call, names[i]);
        }
    }
    free(names);
    return status;
}

tutti_status params_check(const char *call, const tutti_param *params, size_t n)
{
    tutti_status status = TUTTI_OK;

    if (params == NULL || n == 0) {
        return error_set(TUTTI_ERR_INVALID, "%s: no parameters are given", call);
    }
    for (size_t i = 0; status == TUTTI_OK && i < n; i++) {
        status = check(call, params, i);
    }
    return status == TUTTI_OK ? check_names(call, params, n) : status;
}

static void describe(const void *items, size_t i, char text[SETTING_TEXT_BYTES])
{
    const tutti_param *param = (const tutti_param *)items + i;

    (void)snprintf(text, SETTING_TEXT_BYTES, "\"%s\", %lld elements of %s", param->name,
            (long long)param->count, tutti_dtype_name(param->dtype));
}

struct setting_list params_list(const tutti_param *params, size_t n)
{
    return (struct setting_list){
        .name = "parameter", .n = n, .describe = describe, .items = params
    };
}

tutti_param *params_copy(const tutti_param *params, size_t n)
{
    size_t bytes = n * sizeof *params;
    tutti_param *copy;
    char *name;

    for (size_t i = 0; i < n; i++) {
        bytes += strlen(params[i].name) + 1;
    }
    copy = malloc(bytes);
    if (copy == NULL) {
        return NULL;
    }
    name = (char *)(copy + n);
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(params[i].name) + 1;

        copy[i] = params[i];
        copy[i].name = memcpy(name, params[i].name, length);
        name += length;
    }
    return copy;
}
