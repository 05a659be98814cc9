/*
 * The GPUs of a job at start-up.
 */
#include "api/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/setup.h"
#include "base/clock.h"
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

tutti_status gpus_decide(struct gpu *gpu, struct context_spec *spec,
        const struct gpu_view *view, const char *reason)
{
    struct gpu_decision decision;
    tutti_status status = gpu_decide(view, spec->config.gpu_share, &decision);

    if (status != TUTTI_OK) {
        return status;
    }
    if (gpu != NULL) {
        spec->device = gpu_device(gpu);
        if (!decision.has_kernels) {
            gpu_kernels_drop(gpu);
        }
    }
    switch (decision.verdict) {
    case GPU_NOBODY:
        log_debug(&spec->log, "no rank has a GPU: %s", reason);
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
            prepare_sharing(spec, view->nccl_version);
        }
        spec->natives[spec->backend_count] = gpu;
        spec->backends[spec->backend_count++] = &op_gpu;
        break;
    }
    return status;
}

/* ----------------------------------------------------------------------- meeting */

static tutti_status view_take(void *user, const uint8_t *bytes, size_t len)
{
    struct gpu_view after;
    struct wire_reader in;
    tutti_status status;

    wire_reader_init(&in, bytes, len);
    status = gpu_view_get(&in, &after);
    if (status == TUTTI_OK) {
        gpu_view_merge(user, &after);
    }
    return status;
}

static tutti_status view_put(void *user, bool is_all, struct wire_writer *out)
{
    (void)is_all;
    gpu_view_put(out, user);
    return TUTTI_OK;
}

/* This rank's view, from the facts of its node's ranks. */
static tutti_status look(const struct context_spec *spec,
        const struct wire_writer *mail, struct gpu_view *view)
{
    const int place = nodes_local(&spec->nodes, spec->rank);
    struct gpu_facts *facts = mem_calloc((size_t)place + 1, sizeof *facts);
    int *ranks = mem_calloc((size_t)place + 1, sizeof *ranks);
    struct wire_reader in;
    tutti_status status = TUTTI_OK;

    if (facts == NULL || ranks == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", place + 1);
    }
    wire_reader_init(&in, mail->data, mail->len);
    for (int p = 0; p <= place && status == TUTTI_OK; p++) {
        size_t len = 0;
        const char *bytes;

        ranks[p] = (int)wire_get_varint(&in);
        bytes = wire_get_str(&in, SIZE_MAX, &len);
        status = gpu_facts_get((const uint8_t *)bytes, len, ranks[p], &facts[p]);
    }
    if (status == TUTTI_OK) {
        gpu_view_of(view, facts, ranks, place);
    }
    mem_free(facts);
    mem_free(ranks);
    return status;
}

/* What all ranks have told, in the end. */
static tutti_status view_all(
        struct context_spec *spec, tutti_status mine, struct gpu_view *view)
{
    const struct transport_merge merge = {
        .take = view_take, .put = view_put, .user = view
    };
    struct wire_writer result = { 0 };
    struct wire_reader in;
    tutti_status status = setup_meet(spec, mine, &merge, &result);

    if (status == TUTTI_OK) {
        wire_reader_init(&in, result.data, result.len);
        status = gpu_view_get(&in, view);
    }
    wire_writer_fini(&result);
    return status;
}

/* -------------------------------------------------------------------- connecting */

#define CONNECT_NAP_NS 200000

/* By which the ranks meet; the same on all of them in the end. */
struct tokens {
    uint8_t *bytes; /* owned; OP_TOKEN_BYTES of each, zeroed where it is not known */
    int count;
};

static size_t tokens_bytes(const struct tokens *tokens)
{
    return (size_t)tokens->count * OP_TOKEN_BYTES;
}

/* Of a token one side knows nothing. */
static tutti_status tokens_take(void *user, const uint8_t *bytes, size_t len)
{
    struct tokens *tokens = user;

    if (len != tokens_bytes(tokens)) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed tokens of NCCL");
    }
    for (size_t i = 0; i < len; i++) {
        tokens->bytes[i] |= bytes[i];
    }
    return TUTTI_OK;
}

static tutti_status tokens_put(void *user, bool is_all, struct wire_writer *out)
{
    const struct tokens *tokens = user;

    (void)is_all;
    wire_put_bytes(out, tokens->bytes, tokens_bytes(tokens));
    return TUTTI_OK;
}

static tutti_status tell_tokens(
        struct context_spec *spec, tutti_status mine, struct tokens *tokens)
{
    const struct transport_merge merge = {
        .take = tokens_take, .put = tokens_put, .user = tokens
    };
    struct wire_writer result = { 0 };
    tutti_status status = setup_meet(spec, mine, &merge, &result);

    if (status == TUTTI_OK) {
        status = tokens_take(tokens, result.data, result.len);
    }
    wire_writer_fini(&result);
    return status;
}

/* The ranks that make them are as many apart as NCCL has ranks meet by each. */
static tutti_status make_tokens(
        struct context_spec *specs, int n, const struct tokens *tokens)
{
    const int each = specs[0].size / tokens->count;
    const int more = specs[0].size % tokens->count;
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < tokens->count && status == TUTTI_OK; i++) {
        const int maker = i * each + (i < more ? i : more) - specs[0].rank;

        if (maker >= 0 && maker < n) {
            status = gpu_connect_token(specs[maker].natives[0],
                    tokens->bytes + (size_t)i * OP_TOKEN_BYTES);
        }
    }
    return status;
}

/* Each of the ranks goes on; an error of one is that of all. */
static tutti_status connect_turn(struct context_spec *specs, int n,
        const int *world_ranks, const struct tokens *tokens)
{
    tutti_status all = TUTTI_OK;

    for (int i = 0; i < n && (all == TUTTI_OK || all == TUTTI_AGAIN); i++) {
        struct context_spec *spec = &specs[i];
        const struct op_set world = {
            .rank = spec->rank, .size = spec->size, .world_ranks = world_ranks
        };
        tutti_status status = TUTTI_OK;

        if (!spec->are_connected) {
            status =
                    gpu_connect(spec->natives[0], &world, tokens->bytes, tokens->count);
            spec->are_connected = status == TUTTI_OK;
        }
        all = status == TUTTI_OK ? all : status;
    }
    return all;
}

static tutti_status connect_all(struct context_spec *specs, int n,
        const int *world_ranks, const struct tokens *tokens)
{
    tutti_status status = connect_turn(specs, n, world_ranks, tokens);

    while (status == TUTTI_AGAIN) {
        clock_sleep_ns(CONNECT_NAP_NS);
        status = connect_turn(specs, n, world_ranks, tokens);
    }
    return status;
}

/* Whether there is anything to do, equal on all ranks. */
static bool has_to_connect(const struct context_spec *spec, int n)
{
    return spec->backend_count > 0 && spec->backends[0] == &op_gpu &&
            spec->config.gpu_connect == CONFIG_GPU_CONNECT_INIT &&
            (n == 1 || !gpu_connect_blocks(spec->natives[0]));
}

tutti_status gpus_connect(struct context_spec *specs, int n)
{
    const int size = specs[0].size;
    struct tokens tokens = { 0 };
    tutti_status status = TUTTI_OK;
    int *world_ranks;

    if (!has_to_connect(&specs[0], n)) {
        return TUTTI_OK;
    }
    tokens.count = gpu_connect_tokens(specs[0].natives[0], size);
    tokens.bytes = mem_calloc((size_t)tokens.count, OP_TOKEN_BYTES);
    world_ranks = mem_calloc((size_t)size, sizeof *world_ranks);
    if (world_ranks == NULL || tokens.bytes == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks", size);
    }
    for (int r = 0; r < size && status == TUTTI_OK; r++) {
        world_ranks[r] = r;
    }
    if (status == TUTTI_OK) {
        status = make_tokens(specs, n, &tokens);
    }
    if (size > n) {
        status = tell_tokens(&specs[0], status, &tokens);
    }
    if (status == TUTTI_OK) {
        status = connect_all(specs, n, world_ranks, &tokens);
    }
    mem_free(world_ranks);
    mem_free(tokens.bytes);
    return status;
}

/* First those of a node, who may share a GPU; then all. */
tutti_status gpus_meet(struct gpu **gpu, struct context_spec *spec)
{
    const int node = nodes_of(&spec->nodes, spec->rank);
    struct transport_group group = { .size = nodes_ranks(&spec->nodes, node),
        .me = nodes_local(&spec->nodes, spec->rank) };
    int *ranks = mem_calloc((size_t)group.size, sizeof *ranks);
    struct wire_writer out = { 0 };
    struct wire_writer mail = { 0 };
    struct gpu_view view = { .first = spec->rank };
    struct gpu_facts facts;
    tutti_status status = context_spec_agree(spec,
            ranks != NULL ? TUTTI_OK
                          : error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d ranks",
                                    group.size));

    if (status != TUTTI_OK) {
        mem_free(ranks);
        return status;
    }
    nodes_list(&spec->nodes, node, ranks);
    group.ranks = ranks;
    *gpu = gpus_open(spec, true, group.me, &facts);
    gpu_facts_put(&out, &facts);
    status = setup_collect(spec, &group, TUTTI_OK, &out, &mail);
    mem_free(ranks);
    if (status == TUTTI_OK) {
        status = view_all(spec, look(spec, &mail, &view), &view);
    }
    if (status == TUTTI_OK) {
        status = gpus_decide(*gpu, spec, &view, facts.reason);
    }
    if (status == TUTTI_OK) {
        status = gpus_connect(spec, 1);
    }
    wire_writer_fini(&mail);
    return status;
}
