/*
 * The role that the launcher gave to a rank: TUTTI_ROLES, TF_CONFIG. The only file of this
 * library that reads the environment.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/server.h>

#include "error.h"

static const char *const role_names[] = {
    [TUTTI_ROLE_BY_RANK] = "by rank",
    [TUTTI_ROLE_CHIEF] = "chief",
    [TUTTI_ROLE_WORKER] = "worker",
    [TUTTI_ROLE_SERVER] = "ps",
    [TUTTI_ROLE_EVALUATOR] = "evaluator",
};

const char *tutti_role_name(tutti_role role)
{
    return (unsigned)role <= TUTTI_ROLE_EVALUATOR ? role_names[role] : "unknown role";
}

/* BY_RANK: there is no such role. */
static tutti_role find_role(const char *name, size_t bytes)
{
    static const char master[] = "master"; /* of TensorFlow 1 */
    tutti_role role = TUTTI_ROLE_EVALUATOR;

    if (bytes == strlen(master) && memcmp(name, master, bytes) == 0) {
        return TUTTI_ROLE_CHIEF;
    }
    while (role != TUTTI_ROLE_BY_RANK &&
            (bytes != strlen(role_names[role]) ||
                    memcmp(name, role_names[role], bytes) != 0)) {
        role--;
    }
    return role;
}

/* "chief,worker,worker,ps": one for each rank of the job. */
static tutti_status read_list(int rank, const char *list, tutti_role *role, int *index)
{
    const char *at = list;
    int numbers[TUTTI_ROLE_EVALUATOR + 1] = { 0 };

    for (int r = 0; r <= rank; r++) {
        const size_t bytes = strcspn(at, ",");

        *role = find_role(at, bytes);
        if (*role == TUTTI_ROLE_BY_RANK) {
            return error_set(TUTTI_ERR_CONFIG,
                    "TUTTI_ROLES is '%.200s', in which rank %d has no role of chief, "
                    "worker, ps and evaluator",
                    list, r);
        }
        *index = numbers[*role]++;
        at += bytes + (at[bytes] == ',' ? 1 : 0);
    }
    return TUTTI_OK;
}

/* The task of TF_CONFIG. A cluster without one does not say which process this is. */
static tutti_status read_task(const json_t *task, tutti_role *role, int *index)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *number = json_object_get(task, "index");

    if (task == NULL) {
        return TUTTI_OK;
    }
    *role = type == NULL ? TUTTI_ROLE_BY_RANK : find_role(type, strlen(type));
    *index = (int)json_integer_value(number);
    if (*role == TUTTI_ROLE_BY_RANK || !json_is_integer(number) ||
            json_integer_value(number) < 0 || json_integer_value(number) > INT32_MAX) {
        return error_set(TUTTI_ERR_CONFIG,
                "TF_CONFIG: the task has the type '%.32s', which must be chief, "
                "worker, ps or evaluator, and needs a number as its index",
                type == NULL ? "" : type);
    }
    return TUTTI_OK;
}

static tutti_status read_config(const char *text, tutti_role *role, int *index)
{
    json_error_t error;
    json_t *config = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    tutti_status status = config != NULL
            ? read_task(json_object_get(config, "task"), role, index)
            : error_set(TUTTI_ERR_CONFIG, "TF_CONFIG is no JSON: %s", error.text);

    json_decref(config);
    return status;
}

tutti_status tutti_role_from_environment(const tutti *t, tutti_role *role, int *index)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *list = getenv("TUTTI_ROLES");
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *config = getenv("TF_CONFIG");
    tutti_role found;
    int number;
    tutti_status status = TUTTI_OK;

    if (t == NULL || role == NULL) {
        return error_set(TUTTI_ERR_INVALID,
                "tutti_role_from_environment(): no context, or no place for the role");
    }
    found = tutti_rank(t) == 0 ? TUTTI_ROLE_CHIEF : TUTTI_ROLE_WORKER;
    number = tutti_rank(t) == 0 ? 0 : tutti_rank(t) - 1;
    if (list != NULL && list[0] != '\0') {
        status = read_list(tutti_rank(t), list, &found, &number);
    } else if (config != NULL && config[0] != '\0') {
        status = read_config(config, &found, &number);
    }
    if (status == TUTTI_OK) {
        *role = found;
        if (index != NULL) {
            *index = number;
        }
    }
    return status;
}
