/*
 * Slurm: hosts and slots of an allocation (sbatch, salloc), or of the step (srun) that we
 * are in.
 *
 * Without -n, Slurm counts a task for each core; then the GPUs are the slots where they
 * are known, unless more ranks than that are asked for.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/hosts/resolver.h"
#include "launcher/hosts/slurm_lists.h"

/* Steps above are Slurm's own: batch scripts, and the shell of an interactive salloc. */
#define LAST_STEP 0xfffffff0

/* What of the environment describes the hosts. */
struct view {
    const char *job; /* its id                               */
    const char *hosts_name; /* the variable with the list of hosts  */
    const char *hosts; /* its value, or NULL                   */
    const char *tasks_name; /* the variable with the tasks of each  */
    const char *tasks; /* its value, or NULL                   */
    bool is_step; /* we are in a step of the allocation   */
};

static const char *either(
        const struct source_facts *facts, const char *name, const char *old_name)
{
    const char *value = resolver_get(facts, name);

    return value != NULL ? value : resolver_get(facts, old_name);
}

static bool is_in_step(const struct source_facts *facts)
{
    const char *text = either(facts, "SLURM_STEP_ID", "SLURM_STEPID");
    int64_t step;

    return text != NULL && text_to_int64(text, &step) && step < LAST_STEP &&
            resolver_get(facts, "SLURM_STEP_NODELIST") != NULL;
}

static struct view find_view(const struct source_facts *facts)
{
    struct view view = {
        .job = either(facts, "SLURM_JOB_ID", "SLURM_JOBID"),
        .hosts_name = "SLURM_JOB_NODELIST",
        .hosts = either(facts, "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
        .tasks_name = "SLURM_TASKS_PER_NODE",
        .tasks = resolver_get(facts, "SLURM_TASKS_PER_NODE"),
        .is_step = is_in_step(facts),
    };

    if (view.is_step) {
        view.hosts_name = "SLURM_STEP_NODELIST";
        view.hosts = resolver_get(facts, "SLURM_STEP_NODELIST");
        view.tasks_name = "SLURM_STEP_TASKS_PER_NODE";
        view.tasks = resolver_get(facts, "SLURM_STEP_TASKS_PER_NODE");
    }
    return view;
}

static tutti_status check_view(
        const struct source_facts *facts, const struct view *view)
{
    const char *parts = either(facts, "SLURM_HET_SIZE", "SLURM_PACK_SIZE");
    int tasks = resolver_count(facts, "SLURM_STEP_NUM_TASKS");

    if (parts != NULL && strcmp(parts, "1") != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "Slurm job %s is heterogeneous (SLURM_HET_SIZE=%s), which tuttirun "
                "does not take as one world; name the hosts of one part with -H",
                view->job, parts);
    }
    if (view->hosts == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "Slurm job %s: %s is not set, so its hosts are not known; name them "
                "with -H",
                view->job, view->hosts_name);
    }
    if (view->is_step && tasks > 1) {
        return error_set(TUTTI_ERR_INVALID,
                "srun started tuttirun %d times (SLURM_STEP_NUM_TASKS); start it once, "
                "in sbatch or salloc, or start the program itself with srun",
                tasks);
    }
    return tasks < 0 ? TUTTI_ERR_INVALID : TUTTI_OK;
}

/* The sum of the numbers of "2", "gpu:h100:2" or "turing:1,ampere:3"; 0: it is not set. */
static tutti_status count_gpus(
        const struct source_facts *facts, const char *name, int64_t *gpus)
{
    const char *value = resolver_get(facts, name);
    char text[256];
    char *next = text;

    *gpus = 0;
    (void)snprintf(text, sizeof text, "%s", value == NULL ? "" : value);
    while (value != NULL && next != NULL) {
        const char *word = strsep(&next, ",");
        const char *colon = strrchr(word, ':');
        int64_t number;

        if (strlen(value) >= sizeof text ||
                !text_to_int64(colon == NULL ? word : colon + 1, &number) ||
                number < 0 || number > HOST_SLOTS_LIMIT) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s=%.200s is no number of GPUs, such as 2 or turing:1,ampere:3; "
                    "give -H host:N,... or --slots-per-host",
                    name, value);
        }
        *gpus += number;
    }
    return TUTTI_OK;
}

/* GPUs of each host; 0 when they are not known, or there are more ranks. */
static tutti_status gpus_per_host(const struct source_facts *facts,
        const struct view *view, size_t hosts, int64_t *gpus)
{
    int64_t counts[3];
    int64_t all;

    if (count_gpus(facts, "SLURM_GPUS_ON_NODE", &counts[0]) != TUTTI_OK ||
            count_gpus(facts, "SLURM_GPUS_PER_NODE", &counts[1]) != TUTTI_OK ||
            count_gpus(facts, "SLURM_GPUS", &counts[2]) != TUTTI_OK) {
        return TUTTI_ERR_INVALID;
    }
    *gpus = counts[0] > 0   ? counts[0]
            : counts[1] > 0 ? counts[1]
                            : counts[2] / (int64_t)hosts;
    all = *gpus * (int64_t)hosts;
    if (all < facts->options->np && counts[2] < facts->options->np) {
        *gpus = 0;
    } else if (!view->is_step &&
            ((counts[2] > 0 && counts[2] != all) ||
                    (counts[1] > 0 && counts[1] != *gpus))) {
        /* A step may have less than the job, which two of them describe. */
        return error_set(TUTTI_ERR_INVALID,
                "SLURM_GPUS_ON_NODE=%lld, SLURM_GPUS_PER_NODE=%lld and SLURM_GPUS=%lld "
                "(0: not set) do not say how many GPUs each of %zu hosts has; give -H "
                "host:N,... or --slots-per-host",
                (long long)counts[0], (long long)counts[1], (long long)counts[2],
                hosts);
    }
    return TUTTI_OK;
}

/* -n or a flag like it was given, to the job or to our step. */
static bool tasks_are_asked_for(
        const struct source_facts *facts, const struct view *view)
{
    return view->tasks != NULL &&
            (view->is_step || resolver_get(facts, "SLURM_NTASKS") != NULL ||
                    resolver_get(facts, "SLURM_NPROCS") != NULL ||
                    resolver_get(facts, "SLURM_NTASKS_PER_NODE") != NULL);
}

static tutti_status count_cores(
        const struct source_facts *facts, int *slots, size_t count)
{
    const char *cores = resolver_get(facts, "SLURM_JOB_CPUS_PER_NODE");
    int per_task = resolver_count(facts, "SLURM_CPUS_PER_TASK");
    tutti_status status;

    if (per_task < 0 || cores == NULL) {
        return per_task < 0 ? TUTTI_ERR_INVALID : TUTTI_OK; /* the slots are 0 */
    }
    status = slurm_counts(slots, count, cores, "SLURM_JOB_CPUS_PER_NODE");
    for (size_t i = 0; status == TUTTI_OK && per_task > 1 && i < count; i++) {
        slots[i] = slots[i] < per_task ? 1 : slots[i] / per_task;
    }
    return status;
}

static tutti_status count_slots(const struct source_facts *facts,
        const struct view *view, int *slots, size_t count)
{
    int64_t gpus = facts->options->slots_per_host;

    if (tasks_are_asked_for(facts, view)) {
        return slurm_counts(slots, count, view->tasks, view->tasks_name);
    }
    if (gpus == 0 && gpus_per_host(facts, view, count, &gpus) != TUTTI_OK) {
        return TUTTI_ERR_INVALID;
    }
    if (gpus > 0) {
        for (size_t i = 0; i < count; i++) {
            slots[i] = (int)gpus;
        }
        return TUTTI_OK;
    }
    if (view->tasks != NULL) {
        return slurm_counts(slots, count, view->tasks, view->tasks_name);
    }
    return count_cores(facts, slots, count);
}

static tutti_status add_hosts(const struct source_facts *facts, const struct view *view,
        const struct arguments *names, struct placement *placement)
{
    int *slots = mem_calloc(names->count, sizeof *slots);
    tutti_status status = slots == NULL
            ? error_set(TUTTI_ERR_NO_MEMORY, "out of memory for Slurm's hosts")
            : count_slots(facts, view, slots, names->count);

    for (size_t i = 0; status == TUTTI_OK && i < names->count; i++) {
        status = resolver_add(placement, view->hosts_name, names->items[i], slots[i]);
    }
    mem_free(slots);
    return status;
}

static tutti_status resolve(
        const struct source_facts *facts, struct placement *placement)
{
    struct view view = find_view(facts);
    struct arguments names = { .items = NULL };
    tutti_status status;

    if (view.job == NULL) {
        return TUTTI_OK;
    }
    status = check_view(facts, &view);
    if (status == TUTTI_OK) {
        status = slurm_hosts(&names, view.hosts, view.hosts_name);
    }
    if (status == TUTTI_OK) {
        status = add_hosts(facts, &view, &names, placement);
    }
    if (status == TUTTI_OK) {
        placement->is_slurm = true;
        resolver_describe(placement, "Slurm job %.32s%s", view.job,
                view.is_step ? ", this step of it" : "");
    }
    arguments_fini(&names);
    return status;
}

const struct resolver resolver_slurm = {
    .name = "Slurm",
    .allocates = true,
    .resolve = resolve,
};
