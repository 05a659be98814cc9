/*
 * The tables of docs/reference/configuration.md, from config.def.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/text.h"
#include "tools/pages/pages.h"

static const char *type_name(enum config_type type)
{
    switch (type) {
    case CONFIG_BOOL:
        return "bool";
    case CONFIG_INT:
        return "integer";
    case CONFIG_SIZE:
        return "size";
    case CONFIG_REAL:
        return "real";
    case CONFIG_ENUM:
        return "choice";
    case CONFIG_TEXT:
        return "text";
    }
    return "?";
}

/* "a|b" as "`a`, `b`", since a bar would end the cell. */
static void print_range(const char *range)
{
    for (;;) {
        size_t word = strcspn(range, "|");

        (void)printf("`%.*s`", (int)word, range);
        if (range[word] == '\0') {
            return;
        }
        (void)printf(", ");
        range += word + 1;
    }
}

static void print_upper(const char *name)
{
    for (; *name != '\0'; name++) {
        (void)printf("%c", text_upper(*name));
    }
}

static void print_parameter(const struct config_row *row)
{
    (void)printf("| `%s` | %s | ", row->name, type_name(row->type));
    if (row->initial[0] == '\0') {
        (void)printf("empty");
    } else {
        (void)printf("`%s`", row->initial);
    }
    (void)printf(" | ");
    if (row->type == CONFIG_BOOL || row->type == CONFIG_TEXT) {
        (void)printf(" ");
    } else {
        print_range(row->range);
    }
    (void)printf(" | %s | %s |\n", row->same ? "same" : " ", row->help);
}

void pages_configuration(void)
{
    size_t count;
    const struct config_row *rows = config_rows(&count);

    (void)puts("| Name | Type | Default | Range | Ranks | Meaning "
               "|\n|---|---|---|---|---|---|");
    for (size_t i = 0; i < count; i++) {
        print_parameter(&rows[i]);
    }
}

void pages_variables(void)
{
    size_t count;
    const struct config_row *rows = config_rows(&count);

    (void)puts("| Horovod | tutti |\n|---|---|");
    for (size_t i = 0; i < count; i++) {
        if (rows[i].horovod != NULL) {
            (void)printf("| `%s` | `TUTTI_", rows[i].horovod);
            print_upper(rows[i].name);
            (void)puts("` |");
        }
    }
    (void)puts("| `HOROVOD_STALL_CHECK_DISABLE=1` | `TUTTI_STALL_WARNING_S=0`, "
               "`TUTTI_STALL_FAIL_S=0` |\n"
               "| `HOROVOD_CYCLE_TIME` | none: tutti acts on events and has no cycle "
               "timer |");
}
