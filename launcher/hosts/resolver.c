#include "launcher/hosts/resolver.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"

const char *resolver_get(const struct source_facts *facts, const char *name)
{
    const char *value = environment_get(facts->environment, name);

    return value == NULL || value[0] == '\0' ? NULL : value;
}

int resolver_count(const struct source_facts *facts, const char *name)
{
    const char *text = resolver_get(facts, name);
    int value = 0;

    if (text != NULL && !environment_get_int(facts->environment, name, 0, &value)) {
        (void)error_set(
                TUTTI_ERR_INVALID, "%s=%.100s is no number from 0 on", name, text);
        return -1;
    }
    return value;
}

const char *resolver_path(
        const struct source_facts *facts, const char *path, char *file)
{
    (void)snprintf(file, RESOLVER_PATH_MAX, "%s%s", facts->root, path);
    return file;
}

char *resolver_word(char **next)
{
    char *word = NULL;

    while (*next != NULL && (word == NULL || *word == '\0')) {
        word = strsep(next, " \t\r\n");
    }
    return word == NULL || *word == '\0' ? NULL : word;
}

void resolver_describe(struct placement *placement, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(placement->source, sizeof placement->source, format, list);
    va_end(list);
}

tutti_status resolver_add(
        struct placement *placement, const char *origin, const char *name, int slots)
{
    const char *reason = host_list_add(&placement->hosts, name, slots);

    if (reason == NULL) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID, "%s: host '%.100s': %s", origin, name, reason);
}

tutti_status resolver_add_counted(struct placement *placement, const char *origin,
        const char *name, const char *slots)
{
    const char *text = slots == NULL ? "" : slots;
    int64_t number;

    if (!text_to_int64(text, &number) || number < 1 || number > HOST_SLOTS_LIMIT) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: behind host '%.100s' is no number of slots: '%.100s'", origin,
                name, text);
    }
    return resolver_add(placement, origin, name, (int)number);
}

tutti_status resolver_hostfile(
        const struct source_facts *facts, struct placement *placement, const char *path)
{
    char file[RESOLVER_PATH_MAX];
    tutti_status status =
            host_list_read(&placement->hosts, resolver_path(facts, path, file));

    for (size_t i = 0; status == TUTTI_OK && i < placement->hosts.count; i++) {
        placement->hosts.hosts[i].implied = 0;
    }
    return status;
}
