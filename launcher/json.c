#include "launcher/json.h"

#include "base/error.h"
#include "base/mem.h"

static tutti_status refuse(const char *origin, const json_error_t *error)
{
    return error_set(TUTTI_ERR_INVALID, "%s is no JSON: line %d, column %d: %s", origin,
            error->line, error->column, error->text);
}

tutti_status json_read_text(json_t **out, const char *text, const char *origin)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error);

    if (value == NULL) {
        return refuse(origin, &error);
    }
    *out = value;
    return TUTTI_OK;
}

tutti_status json_read_file(json_t **out, const char *path)
{
    json_error_t error;
    FILE *file = fopen(path, "re");
    json_t *value;

    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read %s", path);
    }
    value = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    (void)fclose(file);
    if (value == NULL) {
        return refuse(path, &error);
    }
    *out = value;
    return TUTTI_OK;
}

const char *json_member(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

json_t *json_text(const char *text)
{
    json_t *value = text == NULL ? json_null() : json_string(text);
    char *clean;

    if (value != NULL) {
        return value;
    }
    clean = mem_strdup(text);
    for (char *at = clean; at != NULL && *at != '\0'; at++) {
        *at = (char)(((unsigned char)*at & 0x80U) != 0 ? '?' : *at);
    }
    value = clean == NULL ? NULL : json_string(clean);
    mem_free(clean);
    return value;
}
