/*
 * Metrics of a run: what this rank has seen since the last report, the means over all ranks as of
 * that report, and the best value of the one that is monitored.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "loop/trainer.h"

/** The index of the first metric whose name is not before `name`; sets whether it is that name. */
static int place_of(const tutti_trainer *trainer, const char *name, bool *found)
{
    int i = 0;

    while (i < trainer->metric_count && strcmp(trainer->metrics[i].name, name) < 0) {
        i++;
    }
    *found = i < trainer->metric_count && strcmp(trainer->metrics[i].name, name) == 0;
    return i;
}

const struct metric *metrics_find(const tutti_trainer *trainer, const char *name)
{
    bool found;
    int i = place_of(trainer, name, &found);

    return found ? &trainer->metrics[i] : NULL;
}

/** True for a name that can be printed, and written as JSON: UTF-8. */
static bool name_valid(const char *name)
{
    json_t *text = json_string(name);
    bool valid = text != NULL && name[0] != '\0';

    json_decref(text);
    for (const char *at = name; valid && *at != '\0'; at++) {
        valid = (unsigned char)*at >= ' ' && *at != 0x7f;
    }
    return valid;
}

/** Makes room for a new metric at a place. */
static tutti_status insert(tutti_trainer *trainer, int place, const char *name)
{
    struct metric *metric = &trainer->metrics[place];

    if (!name_valid(name)) {
        return error_set(TUTTI_ERR_INVALID,
                "the name \"%s\" of a metric is empty or not printable UTF-8, or there "
                "is no memory for it",
                name);
    }
    if (trainer->metric_count == METRICS_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "the metric \"%s\" is one too many: a trainer has up to %d", name,
                METRICS_MAX);
    }
    memmove(metric + 1, metric,
            (size_t)(trainer->metric_count - place) * sizeof *metric);
    *metric = (struct metric){ .value = NAN };
    (void)snprintf(metric->name, sizeof metric->name, "%s", name);
    trainer->metric_count++;
    return TUTTI_OK;
}

/** What the loop itself puts into a line of metrics. */
static bool is_own(const char *name)
{
    static const char *const own[] = { "step", "epoch", "time", "loss", "learning_rate",
        METRICS_RATE, METRICS_SHARE };

    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(name, own[i]) == 0) {
            return true;
        }
    }
    return false;
}

tutti_status tutti_trainer_metric_weighted(
        tutti_trainer *trainer, const char *name, double value, double weight)
{
    if (trainer != NULL && name != NULL && !trainer->evaluating && is_own(name)) {
        return error_set(TUTTI_ERR_INVALID,
                "metric \"%s\": the loop writes one of that name itself; choose "
                "another",
                name);
    }
    return metrics_add(trainer, name, value, weight);
}

tutti_status metrics_add(
        tutti_trainer *trainer, const char *name, double value, double weight)
{
    char whole[METRIC_NAME_MAX + 1];
    bool found;
    tutti_status status = TUTTI_OK;
    int bytes = -1;
    int i;

    if (trainer != NULL && name != NULL) {
        bytes = snprintf(
                whole, sizeof whole, "%s%s", trainer->evaluating ? "val_" : "", name);
    }
    if (bytes < 0 || (size_t)bytes >= sizeof whole || !(weight >= 0) || isinf(weight)) {
        return error_set(TUTTI_ERR_INVALID,
                "metric \"%.40s\" of %s: the name must have up to %d bytes, and the "
                "weight %g be 0 or more",
                name == NULL ? "" : name, trainer == NULL ? "no trainer" : "a trainer",
                METRIC_NAME_MAX, weight);
    }
    i = place_of(trainer, whole, &found);
    if (!found) {
        status = insert(trainer, i, whole);
    }
    if (status == TUTTI_OK && weight > 0) {
        trainer->metrics[i].sum += value * weight;
        trainer->metrics[i].weight += weight;
    }
    return status;
}

tutti_status tutti_trainer_metric(
        tutti_trainer *trainer, const char *name, double value)
{
    return tutti_trainer_metric_weighted(trainer, name, value, 1);
}

double tutti_trainer_value(const tutti_trainer *trainer, const char *name)
{
    const struct metric *metric =
            trainer == NULL || name == NULL ? NULL : metrics_find(trainer, name);

    return metric == NULL ? NAN : metric->value;
}

const char *metrics_names(const tutti_trainer *trainer, char *text, size_t room)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < trainer->metric_count && used < room; i++) {
        int more = snprintf(text + used, room - used, "%s%s", i == 0 ? "" : ", ",
                trainer->metrics[i].name);

        used += more > 0 ? (size_t)more : 0;
    }
    return text;
}

static tutti_status compare_names(const tutti_trainer *trainer)
{
    uint64_t hash = 0;
    size_t same = 0;
    char names[400];
    tutti_status status;

    for (int i = 0; i < trainer->metric_count; i++) {
        const char *name = trainer->metrics[i].name;

        hash = state_hash(hash, name, strlen(name));
    }
    status = group_compare(&trainer->group, &hash, 1, &same);
    if (status == TUTTI_OK && same == 0) {
        return error_set(TUTTI_ERR_MISMATCH,
                "ranks have different metrics: rank %d has %s. Every rank must log all "
                "of them; where it has no value, with the weight 0",
                tutti_rank(trainer->group.t),
                metrics_names(trainer, names, sizeof names));
    }
    return status;
}

tutti_status metrics_average(tutti_trainer *trainer)
{
    const size_t count = (size_t)trainer->metric_count;
    double sums[METRICS_MAX][2];
    tutti_status status = compare_names(trainer);

    for (size_t i = 0; i < count; i++) {
        sums[i][0] = trainer->metrics[i].sum;
        sums[i][1] = trainer->metrics[i].weight;
    }
    if (status == TUTTI_OK) {
        status = group_heard(trainer->group.t,
                tutti_allreduce(trainer->group.t, "trainer.metrics", sums, sums,
                        2 * (int64_t)count, TUTTI_FLOAT64, TUTTI_SUM,
                        &trainer->group.options));
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        struct metric *metric = &trainer->metrics[i];

        metric->fresh = sums[i][1] > 0;
        metric->value = metric->fresh ? sums[i][0] / sums[i][1] : metric->value;
        metric->sum = 0;
        metric->weight = 0;
    }
    return status;
}

bool monitor_update(tutti_trainer *trainer, double value)
{
    const tutti_monitor *rule = &trainer->options.monitor;
    const double best = trainer->measures.best;
    bool better = rule->maximize ? value > best + rule->min_delta
                                 : value < best - rule->min_delta;

    if (!better && (isnan(value) || !isnan(best))) {
        trainer->position.waited++;
        return false;
    }
    trainer->measures.best = value;
    trainer->position.best_step = trainer->position.steps;
    trainer->position.waited = 0;
    return true;
}

bool monitor_exhausted(const tutti_trainer *trainer)
{
    const int patience = trainer->options.monitor.patience;

    return patience > 0 && trainer->position.waited >= patience;
}
