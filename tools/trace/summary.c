/*
 * Where the time of steps went, in words and as JSON.
 */
#include <inttypes.h>
#include <jansson.h>

#include "base/error.h"
#include "launcher/json.h"
#include "tools/trace/trace.h"

enum {
    WORDS = 512,
    STEPS_SHOWN = 40 /* the last ones; JSON has all */
};

#define MS 1e6

static double percent(double part, double of)
{
    return of > 0 ? 100 * part / of : 0;
}

static void print_row(FILE *file, const char *name, const struct account *account)
{
    (void)fprintf(file, "%-16.16s %10.3f", name, account->total / MS);
    for (int p = 0; p < PARTS; p++) {
        (void)fprintf(file, " %9.3f", account->parts[p] / MS);
    }
    (void)fprintf(file, " %6.0f %%", percent(account->hidden, account->moving));
}

static void print_heading(FILE *file, const char *what)
{
    (void)fprintf(file, "%-16s %10s", what, "total");
    for (int p = 0; p < PARTS; p++) {
        (void)fprintf(file, " %9s", part_name((enum part)p));
    }
    (void)fprintf(file, " %8s", "overlap");
}

static void print_steps(
        FILE *file, const struct trace *trace, const struct accounts *accounts)
{
    const size_t count = accounts->count;
    size_t s = count > STEPS_SHOWN ? count - STEPS_SHOWN : 0;
    char name[WORDS];

    print_heading(file, "step, ms");
    (void)fprintf(file, "  slowest rank\n");
    for (; s < count; s++) {
        const struct account *step = &accounts->steps[s];

        (void)snprintf(name, sizeof name, "%" PRIu64, step->number);
        print_row(file, name, step);
        if (step->slowest >= 0) {
            (void)fprintf(file, "  rank %d, %.3f ms",
                    trace->job->ranks[step->slowest].rank, step->late / MS);
        }
        (void)fputc('\n', file);
    }
    print_row(file, "mean", &accounts->mean);
    (void)fputc('\n', file);
}

static void print_ranks(
        FILE *file, const struct trace *trace, const struct accounts *accounts)
{
    char name[WORDS];

    print_heading(file, "rank, ms a step");
    (void)fputc('\n', file);
    for (size_t r = 0; r < accounts->rank_count; r++) {
        recorded_rank_text(&trace->job->ranks[r], name, sizeof name);
        print_row(file, name, &accounts->ranks[r]);
        (void)fputc('\n', file);
    }
}

static void print_stragglers(
        FILE *file, const struct trace *trace, const struct accounts *accounts)
{
    bool any = false;
    char name[WORDS];

    for (size_t i = 0; i < accounts->rank_count; i++) {
        const size_t r = accounts->order[i];
        const struct lateness *lateness = &accounts->lateness[r];

        if (lateness->late > 0) {
            recorded_rank_text(&trace->job->ranks[r], name, sizeof name);
            (void)fprintf(file,
                    "%s%s: late for %zu of %zu batches, by %.3f ms (median)\n",
                    any ? "" : "Late by more than 1 ms, who costs most first:\n", name,
                    lateness->late, lateness->batches,
                    (double)lateness->median_ns / MS);
            any = true;
        }
    }
    if (!any) {
        (void)fprintf(file, "No rank is late by more than 1 ms.\n");
    }
    for (size_t i = 0; i < accounts->rank_count; i++) {
        const size_t r = accounts->order[i];

        if (lateness_text(
                    &trace->job->ranks[r], &accounts->lateness[r], name, sizeof name)) {
            (void)fprintf(file, "Slow: %s\n", name);
        }
    }
}

void trace_summary(
        FILE *file, const struct trace *trace, const struct accounts *accounts)
{
    char links[WORDS];

    (void)fprintf(file, "%zu of %d ranks", trace->job->count, trace->job->size);
    if (trace->ranks[0].step_count > 0) {
        (void)fprintf(file, ", %zu steps (%" PRIu64 " to %" PRIu64 ")\n\n",
                accounts->count, accounts->steps[0].number,
                accounts->steps[accounts->count - 1].number);
    } else {
        (void)fprintf(file, "; no steps are recorded: all is one\n\n");
    }
    print_steps(file, trace, accounts);
    (void)fputc('\n', file);
    print_ranks(file, trace, accounts);
    (void)fputc('\n', file);
    print_stragglers(file, trace, accounts);
    if (links_text(trace->job, links, sizeof links)) {
        (void)fprintf(file, "Slow links: %s\n", links);
    }
}

/* ------------------------------------------------------------------------- JSON */

static json_t *account_json(const struct account *account)
{
    json_t *json = json_pack("{sf sf sf}", "total_ms", account->total / MS, "moving_ms",
            account->moving / MS, "hidden_ms", account->hidden / MS);

    for (int p = 0; p < PARTS && json != NULL; p++) {
        char key[WORDS];

        (void)snprintf(key, sizeof key, "%s_ms", part_name((enum part)p));
        (void)json_object_set_new(json, key, json_real(account->parts[p] / MS));
    }
    return json;
}

static json_t *step_json(const struct trace *trace, const struct account *step)
{
    json_t *json = account_json(step);

    (void)json_object_set_new(json, "step", json_integer((json_int_t)step->number));
    if (step->slowest >= 0) {
        (void)json_object_set_new(json, "slowest_rank",
                json_integer(trace->job->ranks[step->slowest].rank));
        (void)json_object_set_new(json, "late_ms", json_real(step->late / MS));
    }
    return json;
}

static json_t *rank_json(
        const struct trace *trace, const struct accounts *accounts, size_t r)
{
    const struct recording_of *recording = &trace->job->ranks[r];
    const struct lateness *lateness = &accounts->lateness[r];
    json_t *json = account_json(&accounts->ranks[r]);

    (void)json_object_set_new(json, "rank", json_integer(recording->rank));
    (void)json_object_set_new(json, "host", json_text(recording->host));
    (void)json_object_set_new(
            json, "batches", json_integer((json_int_t)lateness->batches));
    (void)json_object_set_new(json, "late", json_integer((json_int_t)lateness->late));
    (void)json_object_set_new(
            json, "late_median_ms", json_real((double)lateness->median_ns / MS));
    (void)json_object_set_new(json, "is_slow", json_boolean(lateness->is_slow));
    return json;
}

tutti_status trace_summary_json(
        FILE *file, const struct trace *trace, const struct accounts *accounts)
{
    json_t *steps = json_array();
    json_t *ranks = json_array();
    json_t *all = json_pack("{si si so so so}", "ranks_recorded",
            (int)trace->job->count, "size", trace->job->size, "mean",
            account_json(&accounts->mean), "steps", steps, "ranks", ranks);
    bool done = all != NULL;

    for (size_t s = 0; s < accounts->count && done; s++) {
        done = json_array_append_new(steps, step_json(trace, &accounts->steps[s])) == 0;
    }
    for (size_t i = 0; i < accounts->rank_count && done; i++) {
        done = json_array_append_new(
                       ranks, rank_json(trace, accounts, accounts->order[i])) == 0;
    }
    done = done && json_dumpf(all, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
    (void)fputc('\n', file);
    json_decref(all);
    return done ? TUTTI_OK : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a summary");
}
