/*
 * docs/reference/configuration.md: its tables are the rows of config.def.
 */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/text.h"
#include "tools/pages/pages.h"

static const char introduction[] =
        "# Configuration\n"
        "\n"
        "<!-- Written by script/gendocs from lib/base/config.def. -->\n"
        "\n"
        "A parameter can be set in three ways. Later ones win:\n"
        "\n"
        "1. the environment: `TUTTI_` and the name in upper case, as in\n"
        "   `TUTTI_FUSION_BYTES=64m`;\n"
        "2. a flag of `tuttirun`: `--` and the name with dashes, as in\n"
        "   `--fusion-bytes 64m`, or a line of [its "
        "file](../launcher/config-file.md), over\n"
        "   which the flag wins;\n"
        "3. a call: `tutti_config_set(config, \"fusion_bytes\", \"64m\")`.\n"
        "\n"
        "A value that is malformed or out of range is an error that names the "
        "parameter,\n"
        "the value, where it came from and what is allowed. A `TUTTI_` variable that "
        "names\n"
        "no parameter is a warning, and an error under `TUTTI_STRICT=1`.\n"
        "\n"
        "- **bool**: `true` or `false`; also `1`, `0`, `yes`, `no`, `on`, `off`.\n"
        "- **size**: bytes; the suffixes `k`, `m` and `g` (or `KiB`, `MiB`, `GiB`) "
        "are\n"
        "  powers of 1024.\n"
        "- **real**: a decimal number such as `0.5`.\n"
        "\n"
        "Parameters marked *same* must have equal values on all ranks, which is "
        "checked\n"
        "when the job starts.\n"
        "\n";

static const char horovod_heading[] = "\n"
                                      "## Variables of Horovod\n"
                                      "\n"
                                      "These are read too, and a line of the log says "
                                      "so. The `TUTTI_` variable wins\n"
                                      "when both are set.\n"
                                      "\n"
                                      "| Horovod | tutti |\n"
                                      "|---|---|\n";

static const char horovod_notes[] =
        "| `HOROVOD_STALL_CHECK_DISABLE=1` | `TUTTI_STALL_WARNING_S=0`, "
        "`TUTTI_STALL_FAIL_S=0` |\n"
        "| `HOROVOD_CYCLE_TIME` | none: tutti acts on events and has no cycle timer |\n"
        "\n"
        "Two values are translated. `HOROVOD_FUSION_THRESHOLD=0` switches fusion off,\n"
        "which is `TUTTI_FUSION_BYTES=1`. Of the log levels, `warning` is `warn` and\n"
        "`fatal` is `error`.\n";

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

    (void)fputs(introduction, stdout);
    (void)puts("| Name | Type | Default | Range | Ranks | Meaning |");
    (void)puts("|---|---|---|---|---|---|");
    for (size_t i = 0; i < count; i++) {
        print_parameter(&rows[i]);
    }
    (void)fputs(horovod_heading, stdout);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].horovod != NULL) {
            (void)printf("| `%s` | `TUTTI_", rows[i].horovod);
            print_upper(rows[i].name);
            (void)puts("` |");
        }
    }
    (void)fputs(horovod_notes, stdout);
}
