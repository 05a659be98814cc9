/*
 * A list of findings.
 */
#include "launcher/check/findings.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

void findings_fini(struct findings *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->items[i].command);
    }
    mem_free(list->items);
    *list = (struct findings){ .items = NULL };
}

void findings_add(struct findings *list, enum finding_level level, char *command,
        const char *format, ...)
{
    struct finding *finding;
    va_list values;

    list->errors += level == FINDING_ERROR ? 1 : 0;
    if (command == NULL ||
            !mem_grow(&list->items, &list->capacity, list->count + 1,
                    sizeof *list->items)) {
        mem_free(command);
        list->failed = true;
        return;
    }
    finding = &list->items[list->count++];
    *finding = (struct finding){ .level = level, .command = command };
    va_start(values, format);
    (void)vsnprintf(finding->text, sizeof finding->text, format, values);
    va_end(values);
}
