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
#include "topo/places.h"

#define VALUE_MAX (CONFIG_TEXT_MAX + 1)
#define EQUAL_TEXT_MAX 256

static tutti_status set_limits(struct context_spec *spec)
{
    struct machine machine;
    const tutti_status status = machine_read(&machine);

    if (status != TUTTI_OK) {
        return status;
    }
    memcpy(spec->cache_id, machine.cache, sizeof spec->cache_id);
    memcpy(spec->cpu, machine.cpu, sizeof spec->cpu);
    limits_choose(&spec->limits, &spec->chunk_bytes, &spec->config, &machine);
    return TUTTI_OK;
}

void setup_warn(const struct context_spec *spec)
{
    const char *lines = spec->rank == 0 ? spec->warnings : "";

    while (*lines != '\0') {
        const size_t len = strcspn(lines, "\n");

        log_warn(&spec->log, "%.*s", (int)len, lines);
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
        memcpy(spec->warnings, config->warnings, sizeof spec->warnings);
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
 * What must be equal on all ranks: the version, and values as text in the order of the
 * table. The lowest rank's stands for all, until one is found that differs.
 */
static void put_equals(struct wire_writer *out, const struct context_spec *spec)
{
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);

    wire_put_str(out, TUTTI_VERSION_STRING, strlen(TUTTI_VERSION_STRING));
    for (size_t i = 0; i < count; i++) {
        char value[VALUE_MAX] = "";

        if (rows[i].same &&
                config_format(&spec->config, &rows[i], value, sizeof value)) {
            wire_put_str(out, value, strlen(value));
        }
    }
}

/* Reads the next text of two records and compares them. */
static tutti_status compare_text(
        struct wire_reader *first, struct wire_reader *in, int rank, const char *what)
{
    size_t first_len = 0;
    size_t len = 0;
    const char *first_text = wire_get_str(first, EQUAL_TEXT_MAX, &first_len);
    const char *text = wire_get_str(in, EQUAL_TEXT_MAX, &len);

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

/* Says in what a rank differs from rank 0. */
static tutti_status name_difference(
        struct wire_reader first, struct wire_reader in, int rank)
{
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    tutti_status status =
            compare_text(&first, &in, rank, "the version of the tutti library");

    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (rows[i].same) {
            status = compare_text(&first, &in, rank, rows[i].name);
        }
    }
    return status == TUTTI_OK ? error_set(TUTTI_ERR_PROTOCOL,
                                        "malformed start-up record of rank %d", rank)
                              : status;
}

/** What is known of a rank and those below it. */
struct facts {
    struct context_spec
            *spec; /* with the smallest limits, and whether there may be GPUs */
    struct wire_writer equals; /* of the lowest rank; owned */
    struct wire_writer other; /* of `odd`; owned */
    int odd; /* the lowest rank whose equals differ; -1: none */
    struct places places; /* where none differs */
};

static tutti_status keep_odd(
        struct facts *facts, int rank, const char *equals, size_t len)
{
    facts->odd = rank;
    wire_put_bytes(&facts->other, equals, len);
    return facts->other.failed
            ? error_set(TUTTI_ERR_NO_MEMORY, "no memory for the records of ranks")
            : TUTTI_OK;
}

static void put_limits(struct wire_writer *out, const struct context_spec *spec)
{
    wire_put_u64(out, spec->limits.batch_bytes);
    wire_put_u64(out, spec->limits.tensor_bytes);
    wire_put_u64(out, spec->chunk_bytes);
    wire_put_u8(out, spec->expects_gpus ? 1 : 0);
}

static void take_limits(struct wire_reader *in, struct context_spec *spec)
{
    spec->limits.batch_bytes =
            size_min(spec->limits.batch_bytes, (size_t)wire_get_u64(in));
    spec->limits.tensor_bytes =
            size_min(spec->limits.tensor_bytes, (size_t)wire_get_u64(in));
    spec->chunk_bytes = size_min(spec->chunk_bytes, (size_t)wire_get_u64(in));
    spec->expects_gpus = wire_get_u8(in) != 0 || spec->expects_gpus;
}

/*
 * The equals of the lowest rank, that rank, and the lowest that differs, which is above it;
 * then that one's, or all else. So a record that another version has written is read as far
 * as its version.
 */
static tutti_status facts_put(void *user, bool is_all, struct wire_writer *out)
{
    const struct facts *facts = user;
    struct nodes *nodes = &facts->spec->nodes;
    struct nodes *caches = &facts->spec->caches;
    tutti_status status = TUTTI_OK;

    if (is_all && facts->odd < 0) {
        status = places_group(&facts->places, nodes, caches);
    }
    wire_put_str(out, (const char *)facts->equals.data, facts->equals.len);
    wire_put_varint(out, (uint64_t)facts->spec->rank);
    wire_put_svarint(out, facts->odd);
    if (facts->odd >= 0) {
        wire_put_str(out, (const char *)facts->other.data, facts->other.len);
        return status;
    }
    put_limits(out, facts->spec);
    if (is_all) {
        nodes_put(out, nodes);
        nodes_put(out, caches);
    } else {
        places_put(out, &facts->places);
    }
    return status;
}

/* The ranks of which this tells come after all before: of those that differ they are last. */
static tutti_status facts_take(void *user, const uint8_t *bytes, size_t len)
{
    struct facts *facts = user;
    struct wire_reader in;
    size_t equals_len = 0;
    size_t other_len = 0;
    const char *equals;
    const char *other = NULL;
    int lowest, odd;

    wire_reader_init(&in, bytes, len);
    equals = wire_get_str(&in, SIZE_MAX, &equals_len);
    lowest = (int)wire_get_varint(&in);
    odd = (int)wire_get_svarint(&in);
    if (odd >= 0) {
        other = wire_get_str(&in, SIZE_MAX, &other_len);
    }
    if (!wire_ok(&in)) {
        return error_set(TUTTI_ERR_PROTOCOL, "malformed start-up record");
    }
    if (facts->odd >= 0) {
        return TUTTI_OK;
    }
    if (equals_len != facts->equals.len ||
            memcmp(equals, facts->equals.data, equals_len) != 0) {
        return keep_odd(facts, lowest, equals, equals_len);
    }
    if (odd >= 0) {
        return keep_odd(facts, odd, other, other_len);
    }
    take_limits(&in, facts->spec);
    return places_take(&facts->places, &in);
}

/* Rank 0's is what all take in. */
static tutti_status take_result(
        struct context_spec *spec, const struct wire_writer *result)
{
    struct wire_reader in;
    struct wire_reader first;
    struct wire_reader other;
    size_t len = 0;
    const char *text;
    int odd;
    tutti_status status;

    wire_reader_init(&in, result->data, result->len);
    text = wire_get_str(&in, SIZE_MAX, &len);
    wire_reader_init(&first, text, len);
    (void)wire_get_varint(&in);
    odd = (int)wire_get_svarint(&in);
    if (odd >= 0) {
        text = wire_get_str(&in, SIZE_MAX, &len);
        wire_reader_init(&other, text, len);
        return name_difference(first, other, odd);
    }
    take_limits(&in, spec);
    nodes_fini(&spec->nodes);
    nodes_fini(&spec->caches);
    status = nodes_get(&in, &spec->nodes);
    if (status == TUTTI_OK) {
        status = nodes_get(&in, &spec->caches);
    }
    if (status == TUTTI_OK &&
            (!wire_ok(&in) || spec->nodes.size != spec->transport.size ||
                    spec->caches.size != spec->transport.size)) {
        status = error_set(TUTTI_ERR_PROTOCOL, "malformed start-up record of rank 0");
    }
    return status;
}

/* -------------------------------------------------------------------- meetings */

/* All ranks of the job hear how a meeting of some ended. */
static tutti_status conclude(const struct context_spec *spec, tutti_status status,
        struct wire_writer *result)
{
    const tutti_status all = context_spec_agree(spec, status);

    if (all != TUTTI_OK) {
        wire_writer_fini(result);
    }
    return all;
}

tutti_status setup_meet(struct context_spec *spec, tutti_status mine,
        const struct transport_merge *merge, struct wire_writer *result)
{
    return conclude(
            spec, transport_meet(&spec->transport, NULL, mine, merge, result), result);
}

tutti_status setup_collect(struct context_spec *spec,
        const struct transport_group *group, tutti_status mine,
        struct wire_writer *block, struct wire_writer *result)
{
    const tutti_status status =
            transport_collect(&spec->transport, group, mine, block, result);

    wire_writer_fini(block);
    return conclude(spec, status, result);
}

static tutti_status begin_facts(struct facts *facts)
{
    const struct context_spec *spec = facts->spec;
    const char *cache =
            spec->config.cache_id[0] != '\0' ? spec->config.cache_id : spec->cache_id;
    char host[PLACE_TEXT_MAX];
    char short_cache[PLACE_TEXT_MAX];

    machine_identity(host, sizeof host);
    if (spec->config.host_id[0] != '\0') {
        (void)snprintf(host, sizeof host, "%s", spec->config.host_id);
    }
    (void)snprintf(short_cache, sizeof short_cache, "%s", cache);
    put_equals(&facts->equals, spec);
    return !facts->equals.failed && places_add(&facts->places, host, short_cache)
            ? TUTTI_OK
            : error_set(TUTTI_ERR_NO_MEMORY, "no memory to start");
}

tutti_status setup_agree(struct context_spec *spec)
{
    struct facts facts = { .spec = spec, .odd = -1 };
    const struct transport_merge merge = {
        .take = facts_take, .put = facts_put, .user = &facts
    };
    struct wire_writer result = { 0 };
    tutti_status status = transport_meet(
            &spec->transport, NULL, begin_facts(&facts), &merge, &result);

    wire_writer_fini(&facts.equals);
    wire_writer_fini(&facts.other);
    places_fini(&facts.places);
    if (status == TUTTI_OK) {
        status = take_result(spec, &result);
    }
    wire_writer_fini(&result);
    return status;
}
