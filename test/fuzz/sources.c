/*
 * Where a job may run, by its environment: lines NAME=VALUE, as Slurm, PBS, LSF, SGE, SageMaker,
 * AWS Batch, Kubeflow, TF_CONFIG and others set them.
 */
#include <string.h>

#include "fuzz.h"
#include "launcher/arguments.h"
#include "launcher/hosts/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *none[] = { NULL };
    struct fuzz_input input = { data, size };
    struct arguments environment = { 0 };
    struct options options = { .np = 0 };
    struct placement placement = { .ranks = 0 };
    struct source_facts facts = {
        .options = &options, .root = "/nonexistent", .script_ms = 1
    };
    char *line;

    while ((line = fuzz_line(&input)) != NULL) {
        arguments_add(&environment, line);
        free(line);
    }
    facts.environment = environment.items == NULL ? none : environment.items;
    if (source_resolve(&facts, &placement) == TUTTI_OK) {
        REQUIRE(placement.hosts.count <= HOSTS_LIMIT);
        REQUIRE(memchr(placement.source, '\0', sizeof placement.source) != NULL);
    } else {
        REQUIRE(tutti_last_error()[0] != '\0');
    }
    placement_fini(&placement);
    arguments_fini(&environment);
    return 0;
}
