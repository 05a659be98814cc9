/*
 * Parameters: lines NAME=VALUE. What is accepted is written as it is read again; lists of
 * process sets are read, too.
 */
#include "base/config.h"

#include <string.h>

#include "fuzz.h"
#include "run/set_list.h"

enum {
    WORLD = 8,
    VALUE_BYTES = 4096
};

static void take_line(tutti_config *config, char *line)
{
    char *value = strchr(line, '=');
    const char *text = NULL;
    char copy[VALUE_BYTES];
    struct set_list sets;

    if (value == NULL) {
        if (set_list_parse(&sets, line, WORLD) == TUTTI_OK) {
            set_list_fini(&sets);
        }
        return;
    }
    *value = '\0';
    value++;
    if (tutti_config_set(config, line, value) != TUTTI_OK) {
        REQUIRE(tutti_last_error()[0] != '\0');
        return;
    }
    REQUIRE(tutti_config_get(config, line, &text) == TUTTI_OK);
    if (strlen(text) < sizeof copy) {
        (void)snprintf(copy, sizeof copy, "%s", text);
        REQUIRE(tutti_config_set(config, line, copy) == TUTTI_OK);
        REQUIRE(tutti_config_get(config, line, &text) == TUTTI_OK);
        REQUIRE(strcmp(text, copy) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    tutti_config *config = NULL;
    char *line;

    REQUIRE(tutti_config_create(&config) == TUTTI_OK);
    while ((line = fuzz_line(&input)) != NULL) {
        take_line(config, line);
        free(line);
    }
    tutti_config_destroy(config);
    return 0;
}
