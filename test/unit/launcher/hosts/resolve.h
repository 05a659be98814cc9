/*
 * Resolving with an environment and a folder of a test's own.
 */
#ifndef TUTTI_TEST_HOSTS_RESOLVE_H
#define TUTTI_TEST_HOSTS_RESOLVE_H

#include "base/mem.h"
#include "launcher/hosts/source.h"
#include "test/unit/launcher/root.h"
#include "test/unit/launcher/words.h"

enum {
    RESOLVE_VARIABLES = 12 /* in a case, with the final NULL */
};

/* Variables, and what becomes of them. */
struct resolve_case {
    const char *variables[RESOLVE_VARIABLES];
    const char *hosts; /* "a:2,b:1"; NULL: an error          */
    const char *source; /* part of the source, or of the error */
};

/** Resolves with the options of a command line, whose program is added. */
static inline tutti_status resolve(const char *root, const char *const *variables,
        const struct options *options, struct placement *placement)
{
    struct arguments environment = { .items = NULL };
    struct source_facts facts = {
        .options = options,
        .environment = words_set(&environment, variables),
        .root = root,
        .own_name = "me",
        .script_ms = 20000,
    };
    tutti_status status;

    *placement = (struct placement){ .ranks = 0 };
    status = source_resolve(&facts, placement);
    arguments_fini(&environment);
    return status;
}

static inline void expect_case_with(
        const char *root, const struct resolve_case *one, const struct options *options)
{
    struct placement placement;
    tutti_status status = resolve(root, one->variables, options, &placement);
    char *hosts = host_list_format(&placement.hosts);
    const char *says = status == TUTTI_OK ? placement.source : tutti_last_error();

    if (status == TUTTI_OK) {
        assert_string_equal(hosts, one->hosts == NULL ? "an error" : one->hosts);
    } else if (one->hosts != NULL) {
        fail_msg("%s: %s", one->variables[0], tutti_last_error());
    }
    if (strstr(says, one->source) == NULL) {
        fail_msg("no '%s' in '%s'", one->source, says);
    }
    mem_free(hosts);
    placement_fini(&placement);
}

/** Resolves without flags. */
static inline void expect_case(const char *root, const struct resolve_case *one)
{
    struct options options = { .np = 0 };

    expect_case_with(root, one, &options);
}

#endif
