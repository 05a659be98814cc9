/*
 * TPUs: recognised, so as not to start ranks beside them on this machine, and refused.
 */
#include "base/error.h"
#include "launcher/hosts/resolver.h"

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    static const char *const names[] = { "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS",
        "TPU_CONFIG", "TPU_NAME", "COLAB_TPU_ADDR", "XRT_TPU_CONFIG" };

    (void)placement;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = resolver_get(facts, names[i]);

        if (value != NULL) {
            return error_set(TUTTI_ERR_INVALID,
                    "TPUs are not supported; hosts found: %s=%.300s. To run on the "
                    "processors of some hosts, name these with -H, such as -H "
                    "localhost:4",
                    names[i], value);
        }
    }
    return TUTTI_OK;
}

const struct resolver resolver_tpu = {
    .name = "TPU",
    .resolve = resolve,
};
