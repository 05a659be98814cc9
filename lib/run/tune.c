/*
 * What may be tried, the file, and what is logged.
 */
#include "run/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/draft.h"
#include "base/mem.h"
#include "run/context.h"
#include "run/start.h"

#define LINE_MAX_BYTES 512
#define COUNT_OF(array) (int)(sizeof(array) / sizeof(array)[0])

static bool has_file(const struct config *config)
{
    return config->autotune_file[0] != '\0';
}

struct plan_tuner *tune_of(struct tutti *t, bool is_world)
{
    const bool is_wanted = t->config.autotune || has_file(&t->config);

    return is_world && t->rank == 0 && t->size > 1 && is_wanted ? &t->tune.plan : NULL;
}

/* --------------------------------------------------------------- what may be tried */

/* For script/bench-autotune: what is set is where the search begins, not where it ends. */
#define ALL_VARIABLE "TUTTI_INTERNAL_AUTOTUNE_ALL"

/* What the program or its user has set is not touched. */
static bool is_free(const struct config *config, enum tuning_knob knob)
{
    return !config_is_given(config, tuning_name(knob)) ||
            config_internal(ALL_VARIABLE) != NULL;
}

static bool is_open(const struct tutti *t, const char *name)
{
    for (int b = 0; b < t->dispatcher.backend_count; b++) {
        if (strcmp(t->dispatcher.backends[b].ops->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* True where no group changes the bits of a sum in float32, float64 or integers. */
static bool groups_follow_ranks(const struct tutti *t)
{
    const struct op_set *world = &t->sets.sets[0]->op;

    for (int b = 0; b < t->dispatcher.backend_count; b++) {
        const struct dispatcher_backend *backend = &t->dispatcher.backends[b];

        if (backend->ops->follows_ranks != NULL &&
                !backend->ops->follows_ranks(backend->state, world)) {
            return false;
        }
    }
    return true;
}

/* Choices have no order; the default is the first. */
static void add_choice(struct tuner_knob *knob, uint64_t choice)
{
    knob->count = knob->count == 0 ? 1 : knob->count;
    knob->values[knob->count++] = choice;
}

static void fill_bytes(struct tutti *t, const struct context_spec *spec, bool messages)
{
    static const uint64_t fusion[] = { 1, 64 << 10, 256 << 10, 1 << 20, 4 << 20,
        16 << 20, 64 << 20 };
    static const uint64_t chunks[] = { 32 << 10, 64 << 10, 128 << 10, 256 << 10,
        512 << 10, 1 << 20 };
    static const uint64_t gather[] = { 1, 4 << 10, 16 << 10, 64 << 10, 256 << 10 };
    struct tuner_knob *knobs = t->tune.plan.tuner.knobs;

    if (is_free(&t->config, TUNING_FUSION_BYTES)) {
        tuner_knob_fill(&knobs[TUNING_FUSION_BYTES], fusion, COUNT_OF(fusion),
                spec->limits.batch_bytes, UINT64_MAX);
    }
    if (is_free(&t->config, TUNING_CHUNK_BYTES) && is_open(t, "shm")) {
        tuner_knob_fill(&knobs[TUNING_CHUNK_BYTES], chunks, COUNT_OF(chunks),
                spec->chunk_bytes, 2 * spec->chunk_bytes);
    }
    if (is_free(&t->config, TUNING_GATHER_BYTES) && messages &&
            t->config.algorithm == CONFIG_ALGORITHM_AUTO) {
        tuner_knob_fill(&knobs[TUNING_GATHER_BYTES], gather, COUNT_OF(gather),
                t->config.gather_bytes, UINT64_MAX);
    }
}

static void fill_knobs(struct tutti *t, const struct context_spec *spec)
{
    static const uint64_t window[] = { 1, 2, 4, 8 };
    static const uint64_t spin[] = { 1, 10, 50, 200, 1000 };
    const bool messages =
            t->topology.nodes.count > 1 || t->config.backend == CONFIG_BACKEND_MPI;
    struct tuner_knob *knobs = t->tune.plan.tuner.knobs;

    fill_bytes(t, spec, messages);
    if (is_free(&t->config, TUNING_ALGORITHM) && messages) {
        add_choice(&knobs[TUNING_ALGORITHM], CONFIG_ALGORITHM_DIRECT);
        if (t->topology.nodes.count > 2 ||
                (t->config.backend == CONFIG_BACKEND_MPI && t->size > 2)) {
            add_choice(&knobs[TUNING_ALGORITHM], CONFIG_ALGORITHM_DOUBLING);
        }
    }
    if (is_free(&t->config, TUNING_HIERARCHY) && is_open(t, "hier") &&
            groups_follow_ranks(t)) {
        add_choice(&knobs[TUNING_HIERARCHY], CONFIG_HIERARCHY_FLAT);
    }
    if (is_free(&t->config, TUNING_INFLIGHT)) {
        tuner_knob_fill(&knobs[TUNING_INFLIGHT], window, COUNT_OF(window),
                (uint64_t)t->config.inflight, UINT64_MAX);
    }
    if (is_free(&t->config, TUNING_SPIN_US)) {
        tuner_knob_fill(&knobs[TUNING_SPIN_US], spin, COUNT_OF(spin),
                (uint64_t)t->config.spin_us, UINT64_MAX);
    }
}

/* -------------------------------------------------------------------------- file */

/* What the user has set stays, whatever the file says. */
static struct tuning without_given(const struct config *config, struct tuning tuning)
{
    for (int k = 0; k < TUNING_COUNT; k++) {
        if (!is_free(config, (enum tuning_knob)k)) {
            tuning.values[k] = 0;
        }
    }
    return tuning;
}

/** Where reading a file has come to. */
struct reading {
    struct tuning_record record; /* that is being read */
    bool here; /* it is about this place */
    size_t capacity; /* of the records that are kept */
};

/* Keeps what the line adds to the records of this place. */
static tutti_status take_line(struct tutti *t, struct reading *reading, bool is_heading)
{
    struct plan_tuner *plan = &t->tune.plan;

    if (!reading->here) {
        return TUTTI_OK;
    }
    if (is_heading) {
        if (!mem_grow(&plan->records, &reading->capacity, plan->record_count + 1,
                    sizeof *plan->records)) {
            return error_set(
                    TUTTI_ERR_NO_MEMORY, "no memory for the records of autotune_file");
        }
        plan->record_count++;
    }
    plan->records[plan->record_count - 1] =
            (struct tuning_record){ .workload = reading->record.workload,
                .tuning = without_given(&t->config, reading->record.tuning) };
    return TUTTI_OK;
}

static tutti_status read_lines(struct tutti *t, FILE *file)
{
    struct reading reading = { .capacity = 0 };
    tutti_status status = TUTTI_OK;
    char line[LINE_MAX_BYTES];

    for (int number = 1; status == TUTTI_OK && fgets(line, sizeof line, file) != NULL;
            number++) {
        const size_t len = strcspn(line, "\n");
        const bool is_whole = line[len] == '\n';
        int kind;

        line[len] = '\0';
        kind = tuning_read_line(line, t->tune.place, &reading.here, &reading.record);
        if (!is_whole || kind < 0) {
            return error_set(TUTTI_ERR_CONFIG,
                    "autotune_file %s, line %d: \"%.*s\" is no setting that tutti "
                    "wrote; "
                    "mend or remove the file",
                    t->config.autotune_file, number, CONFIG_SHOWN_MAX, line);
        }
        status = take_line(t, &reading, kind == 1);
    }
    return status;
}

static tutti_status read_file(struct tutti *t)
{
    FILE *file = fopen(t->config.autotune_file, "re");
    tutti_status status;

    if (file == NULL) {
        return errno == ENOENT ? TUTTI_OK
                               : error_set_errno(TUTTI_ERR_SYSTEM, "autotune_file %s",
                                         t->config.autotune_file);
    }
    status = read_lines(t, file);
    (void)fclose(file);
    if (status == TUTTI_OK) {
        log_info(&t->log, "autotune: %s has %zu records for %s",
                t->config.autotune_file, t->tune.plan.record_count, t->tune.place);
    }
    return status;
}

/* Copies all but what the file says of this workload here. */
static void copy_others(struct tutti *t, FILE *from, FILE *to)
{
    const struct workload *own = &t->tune.plan.workload;
    struct tuning_record record = { 0 };
    bool here = false;
    char line[LINE_MAX_BYTES];

    while (fgets(line, sizeof line, from) != NULL) {
        char read[LINE_MAX_BYTES];

        (void)snprintf(read, sizeof read, "%.*s", (int)strcspn(line, "\n"), line);
        (void)tuning_read_line(read, t->tune.place, &here, &record);
        if (!here || record.workload.tensors != own->tensors ||
                record.workload.bytes != own->bytes) {
            (void)fputs(line, to);
        }
    }
}

static tutti_status write_file(struct tutti *t, const struct tuning_record *record)
{
    const char *name = t->config.autotune_file;
    char fresh[CONFIG_TEXT_MAX + 32];
    char text[LINE_MAX_BYTES + TUNING_PLACE_MAX] = "";
    FILE *old = fopen(name, "re");
    const int fd = draft_open(name, fresh, sizeof fresh);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool written;

    if (file != NULL && old != NULL) {
        copy_others(t, old, file);
    } else if (file != NULL) {
        (void)fputs(
                "# What tutti found out (autotune=true); see docs/tuning.md.\n", file);
    }
    if (old != NULL) {
        (void)fclose(old);
    }
    if (file == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "writing %s", name);
    }
    written = tuning_write(record, t->tune.place, t->tune.plan.tuner.gain, text,
                      sizeof text) &&
            fputs(text, file) >= 0 && ferror(file) == 0;
    if (fclose(file) != 0 || !written || rename(fresh, name) != 0) {
        const tutti_status status =
                error_set_errno(TUTTI_ERR_SYSTEM, "writing %s", name);

        (void)remove(fresh);
        return status;
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------- calls */

tutti_status tune_begin(struct tutti *t, const struct context_spec *spec)
{
    const struct nodes *nodes = &t->topology.nodes;
    char backend[CONFIG_NAME_MAX] = "";

    if (tune_of(t, true) == NULL) {
        return TUTTI_OK;
    }
    (void)config_format(&t->config, config_find("backend"), backend, sizeof backend);
    (void)snprintf(t->tune.place, sizeof t->tune.place,
            "ranks=%d nodes=%d local=%d cpu=\"%s\" mpi=%s backend=%s tutti=%s", t->size,
            nodes->count, nodes_ranks(nodes, 0), spec->cpu, spec->mpi, backend,
            TUTTI_VERSION_STRING);
    if (t->config.plan != CONFIG_PLAN_AUTO) {
        log_warn(&t->log, "autotune does nothing with plan=off: it tunes plans");
    }
    if (t->config.autotune) {
        t->tune.plan.steps = t->config.autotune_steps;
        t->tune.plan.tuner.block = t->config.autotune_sample_steps;
        fill_knobs(t, spec);
    }
    return has_file(&t->config) ? read_file(t) : TUTTI_OK;
}

static void tell(struct tutti *t, const struct tuning_record *record)
{
    const struct tuner *tuner = &t->tune.plan.tuner;
    char found[LINE_MAX_BYTES];

    tuning_describe(&record->tuning, found, sizeof found);
    log_info(&t->log,
            "autotune: %s; gain %.1f %% of a step's communication (a plan of %" PRIu64
            " tensors and %.1f MB, %d steps)",
            found, 100 * tuner->gain, record->workload.tensors,
            (double)record->workload.bytes * 1e-6, tuner->steps);
}

/* Each try, for who wants to know. */
static void tell_try(struct tutti *t)
{
    const struct tuning now = tuner_settings(&t->tune.plan.tuner);
    char text[LINE_MAX_BYTES];

    if (t->tune.plan.lane != 0 && memcmp(&now, &t->tune.told, sizeof now) != 0) {
        t->tune.told = now;
        tuning_describe(&now, text, sizeof text);
        log_debug(&t->log, "autotune: after %d steps: %s", t->tune.plan.tuner.steps,
                text);
    }
}

tutti_status tune_finished(struct tutti *t, const struct batch *batch)
{
    struct process_set *set = batch->set;
    struct tuning_record record;
    bool searched = false;
    tutti_status status;

    if (batch->lane == 0 || set->op.rank != 0 || set->negotiator.config.tuner == NULL) {
        return TUTTI_OK;
    }
    set->negotiator.now_ns = clock_ns();
    status =
            negotiator_finished(&set->negotiator, batch->lane, batch->epoch, &searched);
    set->dirty = set->dirty || set->negotiator.outbox.action_count > 0 ||
            negotiator_is_dirty(&set->negotiator);
    tell_try(t);
    if (!searched || status != TUTTI_OK) {
        return status;
    }
    record = (struct tuning_record){ .workload = t->tune.plan.workload,
        .tuning = tuner_settings(&t->tune.plan.tuner) };
    tell(t, &record);
    if (has_file(&t->config) && write_file(t, &record) != TUTTI_OK) {
        log_warn(&t->log, "what autotune found is not kept: %s", tutti_last_error());
    }
    return TUTTI_OK;
}

void tune_fini(struct tune *tune)
{
    mem_free(tune->plan.records);
}
