/*
 * The GPUs of a job at start-up.
 */
#include "api/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/setup.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/gpu/backend.h"
#include "ops/gpu/choice.h"
#include "ops/gpu/gpu.h"

bool gpus_expected(const struct config *config)
{
    struct cuda_driver driver;

    if (choice_is_off(config->gpu)) {
        return false;
    }
    return choice_is_definite(config->gpu) ||
            driver_load(config->cuda_library, &driver) == TUTTI_OK;
}

/* ----------------------------------------------------------------------- opening */

static void note_reason(struct gpu_facts *facts, const char *reason)
{
    (void)snprintf(facts->reason, sizeof facts->reason, "%s", reason);
}

struct gpu *gpus_open(const struct context_spec *spec, bool is_alone, int local_rank,
        struct gpu_facts *facts)
{
    const struct gpu_seat seat = {
        .rank = spec->rank, .local_rank = local_rank, .is_alone = is_alone
    };
    struct gpu *gpu = NULL;

    *facts = (struct gpu_facts){ .process = (uint64_t)getpid() };
    facts->trouble = gpu_open(&spec->config, &spec->log, &seat, &gpu);
    if (gpu == NULL) {
        note_reason(facts, tutti_last_error());
        return NULL;
    }
    facts->has_gpu = true;
    facts->has_kernels = gpu->has_kernels;
    facts->nccl_version = gpu->nccl == NULL ? 0 : gpu->nccl->version;
    (void)snprintf(facts->pci, sizeof facts->pci, "%s", gpu->pci);
    note_reason(facts, gpu->nccl_absence);
    return gpu;
}

/* ----------------------------------------------------------------------- sharing */

/** A setting of NCCL's. */
struct setting {
    const char *name;
    const char *value;
};

/*
 * Ranks that share a GPU take turns on it, so what waits for the other's next write, as the
 * protocols of low latency do at each step, takes a turn each time.
 */
static const struct setting shared_settings[] = { { "NCCL_RAS_ENABLE", "0" },
    { "NCCL_NVLS_ENABLE", "0" }, { "NCCL_PROTO", "Simple" }, { "NCCL_MAX_CTAS", "2" },
    { "NCCL_ALGO", "Ring" } };

/* Older versions believe that ranks with different host ids are on different machines. */
static const struct setting apart_settings[] = { { "NCCL_NET", "Socket" },
    { "NCCL_P2P_DISABLE", "1" }, { "NCCL_SHM_DISABLE", "1" },
    { "NCCL_MNNVL_ENABLE", "0" } };

/*
 * What the user has set stays. NCCL can be told in no other way; it is done while tutti is
 * initialised, and only where gpu_share asks for it.
 */
static void set_unless_set(const char *name, const char *value)
{
    (void)setenv(name, value, 0); /* NOLINT(concurrency-mt-unsafe) */
}

static void apply(const struct setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        set_unless_set(settings[i].name, settings[i].value);
    }
}

/* Before NCCL reads them, which it does when the first communicator is made. */
static void prepare_sharing(const struct context_spec *spec, int nccl_version)
{
    char host[32];

    apply(shared_settings, sizeof shared_settings / sizeof *shared_settings);
    if (nccl_version >= GPU_NCCL_SHARES) {
        set_unless_set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
        return;
    }
    (void)snprintf(host, sizeof host, "tutti-%d", spec->rank);
    set_unless_set("NCCL_HOSTID", host);
    apply(apart_settings, sizeof apart_settings / sizeof *apart_settings);
    if (spec->nodes.count == 1) {
        set_unless_set("NCCL_SOCKET_IFNAME", "lo");
    }
}

/* ---------------------------------------------------------------------- deciding */

static void say_staged(const struct context_spec *spec, const char *reason)
{
    if (spec->rank == 0) {
        log_warn(&spec->log,
                "tensors in device memory are copied to host memory, reduced there and "
                "copied back: %s",
                reason);
    }
}

/* Equal on all ranks: backend is. */
static bool is_allowed(const struct context_spec *spec)
{
    return spec->config.backend == CONFIG_BACKEND_AUTO;
}

tutti_status gpus_decide(
        struct gpu *gpu, struct context_spec *spec, const struct gpu_facts *facts)
{
    struct gpu_decision decision;
    tutti_status status =
            gpu_decide(facts, &spec->nodes, spec->config.gpu_share, &decision);

    if (status != TUTTI_OK) {
        return status;
    }
    if (gpu != NULL) {
        spec->device = gpu_device(gpu);
        if (!decision.has_kernels) {
            gpu_kernels_drop(gpu);
        }
        status = gpu_set_nodes(gpu, spec->nodes.node_of, spec->nodes.size);
    }
    switch (decision.verdict) {
    case GPU_NOBODY:
        log_debug(&spec->log, "no rank has a GPU: %s", facts[spec->rank].reason);
        break;
    case GPU_STAGED:
        say_staged(spec, decision.reason);
        break;
    case GPU_NCCL:
        if (!is_allowed(spec)) {
            say_staged(spec, "the parameter backend asks for it");
            break;
        }
        if (decision.is_shared) {
            prepare_sharing(spec, facts[0].nccl_version);
        }
        spec->natives[spec->backend_count] = gpu;
        spec->backends[spec->backend_count++] = &op_gpu;
        break;
    }
    return status;
}

/* ----------------------------------------------------------------------- meeting */

static tutti_status take_all(struct gpu *gpu, struct context_spec *spec,
        const uint8_t *const *blocks, const size_t *lengths)
{
    struct gpu_facts *facts = mem_calloc((size_t)spec->size, sizeof *facts);
    tutti_status status = TUTTI_OK;

    if (facts == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", spec->size);
    }
    for (int r = 0; r < spec->size && status == TUTTI_OK; r++) {
        status = gpu_facts_get(blocks[r], lengths[r], r, &facts[r]);
    }
    if (status == TUTTI_OK) {
        status = gpus_decide(gpu, spec, facts);
    }
    mem_free(facts);
    return status;
}

tutti_status gpus_meet(struct gpu **gpu, struct context_spec *spec)
{
    struct wire_writer out = { 0 };
    const uint8_t **blocks = NULL;
    size_t *lengths = NULL;
    struct gpu_facts facts;
    tutti_status status;

    *gpu = gpus_open(spec, true, spec->nodes.local_of[spec->rank], &facts);
    gpu_facts_put(&out, &facts);
    status = setup_gather(spec, TUTTI_OK, &out, &blocks, &lengths);
    if (status == TUTTI_OK) {
        status = take_all(*gpu, spec, blocks, lengths);
        mem_free(blocks);
    }
    return status;
}
