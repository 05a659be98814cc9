/*
 * One link stands for all: clusters are mostly made of equal ones.
 */
#include "api/link.h"

#include "api/setup.h"
#include "base/error.h"
#include "ops/p2p/p2p.h"

/* The first rank that is not on rank 0's node. */
static int find_peer(const struct nodes *nodes)
{
    int rank = 0;

    while (nodes_of(nodes, rank) == 0) {
        rank++;
    }
    return rank;
}

static void put(struct wire_writer *out, const struct op_link *link)
{
    wire_put_u64(out, link->message_bytes);
    wire_put_u64(out, link->window_bytes);
    wire_put_u64(out, (uint64_t)(link->latency_us * 1e3));
    wire_put_u64(out, (uint64_t)(link->overhead_us * 1e3));
    wire_put_u64(out, (uint64_t)(link->bytes_per_us * 1e3));
}

/* Rank 0's block: the others have none. */
static tutti_status take(struct context_spec *spec, const struct wire_writer *result)
{
    struct op_link *link = &spec->link;
    struct wire_reader in;

    wire_reader_init(&in, result->data, result->len);
    (void)wire_get_varint(&in);
    (void)wire_get_varint(&in);
    link->message_bytes = (size_t)wire_get_u64(&in);
    link->window_bytes = (size_t)wire_get_u64(&in);
    link->latency_us = (double)wire_get_u64(&in) / 1e3;
    link->overhead_us = (double)wire_get_u64(&in) / 1e3;
    link->bytes_per_us = (double)wire_get_u64(&in) / 1e3;
    return wire_ok(&in) ? TUTTI_OK
                        : error_set(TUTTI_ERR_PROTOCOL,
                                  "malformed start-up record of rank 0 (link)");
}

static void log_link(const struct context_spec *spec)
{
    const struct op_link *link = &spec->link;

    if (spec->rank != 0) {
        return;
    }
    if (link->message_bytes == 0) {
        log_warn(&spec->log,
                "the link between the nodes of rank 0 and rank %d could not be "
                "measured in 10 "
                "seconds; messages have the length of chunk_bytes",
                find_peer(&spec->nodes));
        return;
    }
    log_debug(&spec->log,
            "between nodes: latency %.1f us, %.1f us more per message, %.0f MB/s both "
            "ways at once, messages of "
            "%zu KiB, "
            "%zu KiB under way",
            link->latency_us, link->overhead_us, link->bytes_per_us,
            link->message_bytes >> 10, link->window_bytes >> 10);
}

tutti_status link_meet(struct context_spec *spec, const struct fabric *fabric)
{
    struct wire_writer out = { 0 };
    struct wire_writer result = { 0 };
    tutti_status status = TUTTI_OK;
    int peer;

    if (spec->nodes.count < 2) {
        return TUTTI_OK;
    }
    peer = find_peer(&spec->nodes);
    if (spec->rank == 0 || spec->rank == peer) {
        struct op_link *link = &spec->link;

        status = p2p_link_measure(fabric, spec->rank == 0 ? peer : 0, spec->rank == 0,
                spec->chunk_bytes, link);
        if (spec->config.chunk_bytes > 0 && link->message_bytes > 0) {
            link->message_bytes = spec->config.chunk_bytes;
        }
    }
    if (spec->rank == 0) {
        put(&out, &spec->link);
    }
    status = setup_collect(spec, NULL, status, &out, &result);
    if (status == TUTTI_OK) {
        status = take(spec, &result);
    }
    if (status == TUTTI_OK) {
        log_link(spec);
    }
    wire_writer_fini(&result);
    return status;
}
