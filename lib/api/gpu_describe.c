/*
 * What there is for GPUs, for people.
 */
#include "api/call.h"
#include "base/mem.h"
#include "ops/gpu/find.h"

static tutti_status describe_with(
        const struct config *config, char *text, size_t capacity)
{
    /* Too large for a stack that is the caller's. */
    struct gpu_found *found = mem_alloc(sizeof *found);

    if (found == NULL) {
        return error_set(
                TUTTI_ERR_NO_MEMORY, "out of memory for what is known of GPUs");
    }
    gpu_find(config, found);
    (void)gpu_describe(config, found, text, capacity);
    mem_free(found);
    return TUTTI_OK;
}

tutti_status tutti_gpu_describe(const tutti_config *config, char *text, size_t capacity)
{
    tutti_config *own = NULL;
    tutti_status status;

    if (text == NULL || capacity == 0) {
        return error_set(TUTTI_ERR_INVALID, "tutti_gpu_describe: %s",
                text == NULL ? "text is NULL" : "capacity is 0");
    }
    if (config == NULL) {
        status = tutti_config_create(&own);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    status =
            describe_with(own != NULL ? &own->values : &config->values, text, capacity);
    tutti_config_destroy(own);
    return status;
}
