/*
 * What tuttirun --check found, as JSON.
 */
#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "launcher/json.h"
#include "tools/check/check_show.h"

static json_t *findings_of(const struct findings *findings)
{
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];

        (void)json_array_append_new(list,
                json_pack("{s:s, s:o, s:o}", "level",
                        finding->level == FINDING_ERROR ? "error" : "warning", "text",
                        json_text(finding->text), "command",
                        json_text(finding->command)));
    }
    return list;
}

/* Moves the members of `more` to the end of an object. */
static void add_members(json_t *object, json_t *more)
{
    (void)json_object_update(object, more);
    json_decref(more);
}

/* The facts of a host. */
static json_t *facts_of(const struct facts *facts)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:b, s:I}", "hostname",
            json_text(facts->host), "release", json_text(facts->release), "binary",
            json_text(facts->binary), "mpi", json_text(facts->launcher), "gpus",
            (json_int_t)facts->gpus, "shm_bytes", (json_int_t)facts->shm_bytes,
            "shm_free_bytes", (json_int_t)facts->shm_free, "cma", facts->cma_errno == 0,
            "ptrace_scope", (json_int_t)facts->ptrace_scope);
}

static json_t *host_of(const struct seen *seen)
{
    json_t *object = json_pack("{s:o, s:i, s:b, s:b}", "name", json_text(seen->name),
            "slots", seen->slots, "ok", seen->findings.errors == 0, "answered",
            seen->has_facts);

    if (seen->has_facts) {
        add_members(object,
                json_pack("{s:o, s:f}", "address", json_text(seen->address),
                        "answer_ms", seen->answer_ms));
        add_members(object, facts_of(&seen->facts));
    }
    if (seen->has_clock) {
        add_members(object,
                json_pack("{s:f, s:f}", "clock_offset_s", seen->offset_s,
                        "clock_round_trip_s", seen->round_trip_s));
    }
    (void)json_object_set_new(object, "findings", findings_of(&seen->findings));
    return object;
}

tutti_status show_report(const char *path, const struct show_result *result)
{
    json_t *hosts = json_array();
    json_t *root;
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < result->host_count; i++) {
        (void)json_array_append_new(hosts, host_of(result->hosts[i]));
    }
    /* "check" is the version of the format. */
    root = json_pack("{s:i, s:b, s:o, s:{s:I, s:I, s:f}, s:o}", "check", 1, "ok",
            show_is_well(result), "hosts", hosts, "pairs", "tried",
            (json_int_t)result->pairs, "made", (json_int_t)result->pairs_well, "ms",
            result->pairs_ms, "findings", findings_of(result->general));
    if (root == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the report");
    }
    if (json_dump_file(root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "write the report %s", path);
    }
    json_decref(root);
    return status;
}
