/*
 * Start-up: configuration and agreement.
 */
#include "api/setup.h"

#include <stdio.h>
#include <string.h>

#include "api/limits.h"
#include "base/mem.h"
#include "base/wire.h"
#include "ops/reduce/reduce.h"

#define HOST_ID_MAX 256
#define VALUE_MAX (CONFIG_TEXT_MAX + 1)

static tutti_status set_limits(struct context_spec *spec)
{
    struct machine machine;
    const tutti_status status = machine_read(&machine);

    if (status != TUTTI_OK) {
        return status;
    }
    memcpy(spec->cache_id, machine.cache, sizeof spec->cache_id);
    limits_choose(&spec->limits, &spec->chunk_bytes, &spec->config, &machine);
    return TUTTI_OK;
}

static void log_lines(const struct log *log, const char *lines)
{
    while (*lines != '\0') {
        const size_t len = strcspn(lines, "\n");

        log_warn(log, "%.*s", (int)len, lines);
        lines += len;
        lines += *lines == '\n' ? 1 : 0;
    }
}

tutti_status setup_begin(
        struct context_spec *spec, const tutti_config *config, int rank)
{
    tutti_config *own = NULL;
    tutti_status status = TUTTI_OK;

    spec->rank = rank;
    if (config == NULL) {
        status = tutti_config_create(&own);
        config = own;
    }
    if (status == TUTTI_OK) {
        status = config_copy(&spec->config, &config->values);
    }
    if (status == TUTTI_OK) {
        spec->log = (struct log){ .callback = config->log,
            .user = config->log_user,
            .level = (tutti_log_level)config->values.log_level,
            .rank = rank };
        if (rank <= 0) {
            log_lines(&spec->log, config->warnings);
        }
        status = reduce_use((enum config_kernels)config->values.kernels);
        if (status == TUTTI_OK) {
            status = set_limits(spec);
        }
        if (status != TUTTI_OK) {
            config_fini(&spec->config);
        }
    }
    tutti_config_destroy(own);
    return status;
}

/* ---------------------------------------------------------------- agreement */

/*
 * A rank's record: version, host and cache identity, its limits, whether it has something
 * to say about GPUs, and all values that must be equal, as text in the order of the table.
 */
static void put_facts(struct wire_writer *out, const struct context_spec *spec)
{
    const char *cache =
            spec->config.cache_id[0] != '\0' ? spec->config.cache_id : spec->cache_id;
    char host[HOST_ID_MAX];
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);

    machine_identity(host, sizeof host);
    if (spec->config.host_id[0] != '\0') {
        (void)snprintf(host, sizeof host, "%s", spec->config.host_id);
    }
    wire_put_str(out, TUTTI_VERSION_STRING, strlen(TUTTI_VERSION_STRING));
    wire_put_str(out, host, strlen(host));
    wire_put_str(out, cache, size_min(strlen(cache), HOST_ID_MAX - 1));
    wire_put_u64(out, spec->limits.batch_bytes);
    wire_put_u64(out, spec->limits.tensor_bytes);
    wire_put_u64(out, spec->chunk_bytes);
    wire_put_u8(out, spec->expects_gpus ? 1 : 0);
    for (size_t i = 0; i < count; i++) {
        char value[VALUE_MAX] = "";

        if (rows[i].same &&
                config_format(&spec->config, &rows[i], value, sizeof value)) {
            wire_put_str(out, value, strlen(value));
        }
    }
}

/* Reads the next text of a rank's record and compares it with rank 0's. */
static tutti_status compare_text(
        struct wire_reader *first, struct wire_reader *in, int rank, const char *what)
{
    size_t first_len = 0;
    size_t len = 0;
    const char *first_text = wire_get_str(first, HOST_ID_MAX, &first_len);
    const char *text = wire_get_str(in, HOST_ID_MAX, &len);

    if (!wire_ok(first) || !wire_ok(in)) {
        return error_set(
                TUTTI_ERR_PROTOCOL, "malformed start-up record of rank %d", rank);
    }
    if (len != first_len || memcmp(text, first_text, len) != 0) {
        return error_set(TUTTI_ERR_CONFIG,
                "%s must be equal on all ranks: rank 0 has %.*s, rank %d has %.*s",
                what, (int)first_len, first_text, rank, (int)len, text);
    }
    return TUTTI_OK;
}

/** Where a rank says it is. */
struct place {
    char host[HOST_ID_MAX];
    char cache[HOST_ID_MAX]; /* "": in no single one */
};

/* Takes a rank's record in: its place, the smaller limits, and the comparison. */
static tutti_status take_facts(struct context_spec *spec, struct wire_reader first,
        struct wire_reader in, int rank, struct place *place)
{
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    tutti_status status =
            compare_text(&first, &in, rank, "the version of the tutti library");
    size_t len = 0;

    if (status != TUTTI_OK) {
        return status;
    }
    for (int i = 0; i < 2; i++) {
        (void)wire_get_str(&first, HOST_ID_MAX, &len);
    }
    wire_get_text(&in, place->host, sizeof place->host);
    wire_get_text(&in, place->cache, sizeof place->cache);
    for (int i = 0; i < 3; i++) {
        (void)wire_get_u64(&first);
    }
    (void)wire_get_u8(&first);
    spec->limits.batch_bytes =
            size_min(spec->limits.batch_bytes, (size_t)wire_get_u64(&in));
    spec->limits.tensor_bytes =
            size_min(spec->limits.tensor_bytes, (size_t)wire_get_u64(&in));
    spec->chunk_bytes = size_min(spec->chunk_bytes, (size_t)wire_get_u64(&in));
    spec->expects_gpus = wire_get_u8(&in) != 0 || spec->expects_gpus;
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (rows[i].same) {
            status = compare_text(&first, &in, rank, rows[i].name);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- placement */

enum {
    CACHE_NAME_MAX = HOST_ID_MAX + 16
};

/*
 * Names each rank's cache; all ranks of a node get the same name when one of them has told
 * of none.
 */
static void name_caches(const struct nodes *nodes, const struct place *places,
        bool *is_unknown, char *texts, const char **names)
{
    for (int r = 0; r < nodes->size; r++) {
        is_unknown[nodes->node_of[r]] |= places[r].cache[0] == '\0';
    }
    for (int r = 0; r < nodes->size; r++) {
        char *text = texts + (size_t)r * CACHE_NAME_MAX;
        const int node = nodes->node_of[r];

        (void)snprintf(text, CACHE_NAME_MAX, "%d %s", node,
                is_unknown[node] ? "" : places[r].cache);
        names[r] = text;
    }
}

static tutti_status find_caches(
        struct context_spec *spec, const struct place *places, const char **names)
{
    const size_t size = (size_t)spec->transport.size;
    char *texts = mem_calloc(size, CACHE_NAME_MAX);
    bool *is_unknown = mem_calloc(size, sizeof *is_unknown);
    tutti_status status;

    if (texts == NULL || is_unknown == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu ranks", size);
    } else {
        name_caches(&spec->nodes, places, is_unknown, texts, names);
        status = nodes_init(&spec->caches, names, (int)size);
    }
    mem_free(is_unknown);
    mem_free(texts);
    return status;
}

static tutti_status find_places(
        struct context_spec *spec, const struct place *places, const char **names)
{
    tutti_status status;

    for (int r = 0; r < spec->transport.size; r++) {
        names[r] = places[r].host;
    }
    status = nodes_init(&spec->nodes, names, spec->transport.size);
    return status == TUTTI_OK ? find_caches(spec, places, names) : status;
}

static tutti_status take_all(
        struct context_spec *spec, const uint8_t **blocks, const size_t *lengths)
{
    const size_t size = (size_t)spec->transport.size;
    struct place *places = mem_calloc(size, sizeof *places);
    const char **names = mem_calloc(size, sizeof *names);
    tutti_status status = TUTTI_OK;

    if (places == NULL || names == NULL) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %zu ranks", size);
    }
    for (size_t r = 0; r < size && status == TUTTI_OK; r++) {
        struct wire_reader first;
        struct wire_reader in;

        wire_reader_init(&first, blocks[0], lengths[0]);
        wire_reader_init(&in, blocks[r], lengths[r]);
        status = take_facts(spec, first, in, (int)r, &places[r]);
    }
    if (status == TUTTI_OK) {
        status = find_places(spec, places, names);
    }
    mem_free(names);
    mem_free(places);
    return status;
}

tutti_status setup_gather(struct context_spec *spec, tutti_status mine,
        struct wire_writer *block, const uint8_t ***blocks, size_t **lengths)
{
    struct error own;
    tutti_status status;
    tutti_status all;

    if (mine == TUTTI_OK && block->failed) {
        mine = error_set(TUTTI_ERR_NO_MEMORY, "no memory to start");
    }
    error_fill(&own, mine, spec->rank, "%s", tutti_last_error());
    status = mine == TUTTI_OK && block->len > 0
            ? transport_allgather(
                      &spec->transport, block->data, block->len, blocks, lengths)
            : transport_allgather(&spec->transport, "", 0, blocks, lengths);
    wire_writer_fini(block);
    all = context_spec_agree(spec, mine == TUTTI_OK ? status : error_raise(&own));
    if (status == TUTTI_OK && all != TUTTI_OK) {
        mem_free(*blocks);
        *blocks = NULL;
    }
    return all;
}

tutti_status setup_agree(struct context_spec *spec)
{
    struct wire_writer facts = { 0 };
    const uint8_t **blocks = NULL;
    size_t *lengths = NULL;
    tutti_status status;

    put_facts(&facts, spec);
    status = setup_gather(spec, TUTTI_OK, &facts, &blocks, &lengths);
    if (status == TUTTI_OK) {
        status = take_all(spec, blocks, lengths);
        mem_free(blocks);
    }
    return status;
}
