/*
 * What tuttirun --check found, as JSON.
 */
#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "launcher/check/check_show.h"

static json_t *text_of(const char *text)
{
    /* Names and last words may hold anything. */
    json_t *value = json_string(text);

    return value != NULL ? value : json_string("(not UTF-8)");
}

static json_t *findings_of(const struct findings *findings)
{
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        json_t *object = json_object();

        (void)json_object_set_new(object, "level",
                json_string(finding->level == FINDING_ERROR ? "error" : "warning"));
        (void)json_object_set_new(object, "text", text_of(finding->text));
        (void)json_object_set_new(object, "command", text_of(finding->command));
        (void)json_array_append_new(list, object);
    }
    return list;
}

static void add_facts(json_t *object, const struct facts *facts)
{
    (void)json_object_set_new(object, "hostname", text_of(facts->host));
    (void)json_object_set_new(object, "release", text_of(facts->release));
    (void)json_object_set_new(object, "binary", text_of(facts->binary));
    (void)json_object_set_new(object, "mpi", text_of(facts->starter));
    (void)json_object_set_new(object, "gpus", json_integer((json_int_t)facts->gpus));
    (void)json_object_set_new(
            object, "shm_bytes", json_integer((json_int_t)facts->shm_bytes));
    (void)json_object_set_new(
            object, "shm_free_bytes", json_integer((json_int_t)facts->shm_free));
    (void)json_object_set_new(object, "cma", json_boolean(facts->cma_errno == 0));
    (void)json_object_set_new(
            object, "ptrace_scope", json_integer((json_int_t)facts->ptrace_scope));
}

static json_t *host_of(const struct seen *seen)
{
    json_t *object = json_object();

    (void)json_object_set_new(object, "name", text_of(seen->name));
    (void)json_object_set_new(object, "slots", json_integer(seen->slots));
    (void)json_object_set_new(object, "ok", json_boolean(seen->findings.errors == 0));
    (void)json_object_set_new(object, "answered", json_boolean(seen->has_facts));
    if (seen->has_facts) {
        (void)json_object_set_new(object, "address", text_of(seen->address));
        (void)json_object_set_new(object, "answer_ms", json_real(seen->answer_ms));
        add_facts(object, &seen->facts);
    }
    if (seen->has_clock) {
        (void)json_object_set_new(object, "clock_offset_s", json_real(seen->offset_s));
        (void)json_object_set_new(
                object, "clock_round_trip_s", json_real(seen->round_trip_s));
    }
    (void)json_object_set_new(object, "findings", findings_of(&seen->findings));
    return object;
}

static json_t *pairs_of(const struct show_result *result)
{
    json_t *object = json_object();

    (void)json_object_set_new(object, "tried", json_integer((json_int_t)result->pairs));
    (void)json_object_set_new(
            object, "made", json_integer((json_int_t)result->pairs_well));
    (void)json_object_set_new(object, "ms", json_real(result->pairs_ms));
    return object;
}

tutti_status show_report(const char *path, const struct show_result *result)
{
    json_t *hosts = json_array();
    json_t *root = json_object();
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < result->host_count; i++) {
        (void)json_array_append_new(hosts, host_of(result->hosts[i]));
    }
    (void)json_object_set_new(
            root, "check", json_integer(1)); /* version of the format */
    (void)json_object_set_new(root, "ok", json_boolean(show_is_well(result)));
    (void)json_object_set_new(root, "hosts", hosts);
    (void)json_object_set_new(root, "pairs", pairs_of(result));
    (void)json_object_set_new(root, "findings", findings_of(result->general));
    if (root == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the report");
    }
    if (json_dump_file(root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "write the report %s", path);
    }
    json_decref(root);
    return status;
}
