/*
 * Look-ups in an environment.
 */
#include "launcher/environment.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"

const char *environment_get(char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=') {
            return *environment + len + 1;
        }
    }
    return NULL;
}

bool environment_get_int(
        char *const *environment, const char *name, int min, int *value)
{
    const char *text = environment_get(environment, name);
    int64_t number;

    if (text == NULL || !text_to_int64(text, &number) || number < min ||
            number > INT_MAX) {
        return false;
    }
    *value = (int)number;
    return true;
}
