/*
 * Grid Engine: the file of a parallel environment, with lines
 *     node01 4 all.q@node01 UNDEFINED
 * A job without a parallel environment has this machine.
 */
#include "base/error.h"
#include "launcher/hosts/resolver.h"

static tutti_status read_line(struct placement *placement, const char *path, char *line)
{
    char *next = line;
    const char *host = resolver_word(&next);

    return host == NULL
            ? TUTTI_OK
            : resolver_add_counted(placement, path, host, resolver_word(&next));
}

static tutti_status read_file(struct placement *placement, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[4096];
    tutti_status status = TUTTI_OK;

    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "PE_HOSTFILE %s", path);
    }
    while (status == TUTTI_OK && fgets(line, sizeof line, file) != NULL) {
        status = read_line(placement, path, line);
    }
    if (status == TUTTI_OK && ferror(file) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "PE_HOSTFILE %s", path);
    }
    (void)fclose(file);
    if (status == TUTTI_OK && placement->hosts.count == 0) {
        return error_set(TUTTI_ERR_INVALID, "%s names no host", path);
    }
    return status;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    const char *path = resolver_get(facts, "PE_HOSTFILE");
    const char *job = resolver_get(facts, "JOB_ID");
    char file[RESOLVER_PATH_MAX];
    tutti_status status;

    if (path == NULL) {
        return TUTTI_OK;
    }
    status = read_file(placement, resolver_path(facts, path, file));
    if (status == TUTTI_OK) {
        resolver_describe(placement, "Grid Engine job %.32s", job == NULL ? "?" : job);
    }
    return status;
}

const struct resolver resolver_sge = {
    .name = "Grid Engine",
    .allocates = true,
    .resolve = resolve,
};
