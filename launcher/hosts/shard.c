/*
 * Array jobs: many independent jobs that differ in a number. They do not know each
 * other's hosts, so they are no world; the number tells which part of the data is theirs.
 */
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/hosts/resolver.h"

/* The variables of a scheduler; a name is NULL where it has none. */
struct array_names {
    const char *index;
    const char *count;
    const char *first; /* the lowest index; NULL: 0 */
    const char *last;
    const char *step;
};

static const struct array_names slurm = {
    .index = "SLURM_ARRAY_TASK_ID",
    .count = "SLURM_ARRAY_TASK_COUNT",
    .first = "SLURM_ARRAY_TASK_MIN",
    .last = "SLURM_ARRAY_TASK_MAX",
    .step = "SLURM_ARRAY_TASK_STEP",
};
static const struct array_names batch = {
    .index = "AWS_BATCH_JOB_ARRAY_INDEX",
    .count = "AWS_BATCH_JOB_ARRAY_SIZE",
};
/* Set to "undefined" in jobs that are no array. */
static const struct array_names sge = {
    .index = "SGE_TASK_ID",
    .first = "SGE_TASK_FIRST",
    .last = "SGE_TASK_LAST",
    .step = "SGE_TASK_STEPSIZE",
};

static int number(char *const *environment, const char *name, int otherwise)
{
    int value;

    return name != NULL && environment_get_int(environment, name, 0, &value)
            ? value
            : otherwise;
}

/* None, too, for arrays such as 1,5,9,20, whose indices have no even distance. */
static struct shard read_shard(
        char *const *environment, const struct array_names *names)
{
    static const struct shard none = { .count = 0 };
    int index = number(environment, names->index, -1);
    int first = number(environment, names->first, 0);
    int last = number(environment, names->last, -1);
    int step = number(environment, names->step, 1);
    int steps = last >= first && step > 0 ? (last - first) / step : -1;
    int spanned = steps < INT_MAX ? steps + 1 : 0;
    int count = number(environment, names->count, spanned);
    struct shard shard = { .count = count };

    if (index < first || step <= 0 || (index - first) % step != 0 ||
            (spanned != 0 && spanned != count)) {
        return none;
    }
    shard.index = (index - first) / step;
    return shard.index < count ? shard : none;
}

tutti_status shard_find(char *const *environment, struct shard *shard)
{
    const struct array_names *const all[] = { &slurm, &batch, &sge };

    *shard = (struct shard){ .count = 0 };
    for (size_t i = 0; shard->count == 0 && i < sizeof all / sizeof all[0]; i++) {
        const char *index = environment_get(environment, all[i]->index);
        int value;

        if (index != NULL && index[0] != '\0' && strcmp(index, "undefined") != 0 &&
                !environment_get_int(environment, all[i]->index, 0, &value)) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s=%.100s is no number of a shard; unset it", all[i]->index,
                    index);
        }
        *shard = read_shard(environment, all[i]);
    }
    return TUTTI_OK;
}
