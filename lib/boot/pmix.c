/*
 * PMIx: a store of byte objects. A fence that collects brings what all have put to all.
 */
#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "boot/pmi.h"

static struct {
    pmix_status_t (*init)(pmix_proc_t *proc, pmix_info_t *info, size_t count);
    pmix_status_t (*put)(pmix_scope_t scope, const pmix_key_t key, pmix_value_t *value);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence)(const pmix_proc_t *procs, size_t proc_count,
            const pmix_info_t *info, size_t count);
    pmix_status_t (*get)(const pmix_proc_t *proc, const pmix_key_t key,
            const pmix_info_t *info, size_t count, pmix_value_t **value);
    pmix_status_t (*finalize)(const pmix_info_t *info, size_t count);
    pid_t process; /* that has initialised it */
    pmix_proc_t me;
    int size;
    unsigned round; /* exchanges so far */
    bool is_on;
} pmix; /* it belongs to the process, like its connection to srun */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static tutti_status say_failed(const char *what, pmix_status_t code)
{
    return error_set(TUTTI_ERR_SYSTEM, "PMIx cannot %s: error %d", what, (int)code);
}

static tutti_status ask_size(void)
{
    pmix_proc_t job = pmix.me;
    pmix_value_t *value = NULL;
    pmix_status_t code;

    job.rank = PMIX_RANK_WILDCARD;
    code = pmix.get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (code != PMIX_SUCCESS || value == NULL || value->type != PMIX_UINT32) {
        return say_failed("say how many ranks there are", code);
    }
    pmix.size = (int)value->data.uint32;
    free(value);
    pmix.is_on = true;
    return TUTTI_OK;
}

/* A launcher takes an exit without this for a failure. */
static void finalize_at_exit(void)
{
    if (pmix.process == getpid()) {
        (void)pmix.finalize(NULL, 0);
    }
}

static tutti_status initialise(void)
{
    const pmix_status_t code = pmix.init(&pmix.me, NULL, 0);

    if (code != PMIX_SUCCESS) {
        return say_failed("be initialised", code);
    }
    pmix.process = getpid();
    (void)atexit(finalize_at_exit);
    return ask_size();
}

static tutti_status begin(void)
{
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        return error_set(TUTTI_ERR_SYSTEM,
                "srun --mpi=pmix has started this process, but libpmix.so.2 cannot be "
                "loaded (%s); install libpmix2, or use srun --mpi=pmi2 or tuttirun",
                dlerror()); /* NOLINT(concurrency-mt-unsafe): glibc's is not shared */
    }
    if (!pmi_find(library, "PMIx_Init", &pmix.init) ||
            !pmi_find(library, "PMIx_Put", &pmix.put) ||
            !pmi_find(library, "PMIx_Commit", &pmix.commit) ||
            !pmi_find(library, "PMIx_Fence", &pmix.fence) ||
            !pmi_find(library, "PMIx_Get", &pmix.get) ||
            !pmi_find(library, "PMIx_Finalize", &pmix.finalize)) {
        return error_set(TUTTI_ERR_SYSTEM, "libpmix.so.2 is not PMIx");
    }
    return initialise();
}

static pmix_status_t put(const char *key, const void *mine, size_t bytes)
{
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
    pmix_status_t code;

    memcpy(&value.data.bo.bytes, &mine, sizeof mine); /* only reads it, if not const */
    value.data.bo.size = bytes;
    code = pmix.put(PMIX_GLOBAL, key, &value);
    return code == PMIX_SUCCESS ? pmix.commit() : code;
}

static tutti_status get(int rank, const char *key, void *to, size_t bytes)
{
    pmix_proc_t from = pmix.me;
    pmix_value_t *value = NULL;
    tutti_status status = TUTTI_OK;
    pmix_status_t code;

    from.rank = (pmix_rank_t)rank;
    code = pmix.get(&from, key, NULL, 0, &value);
    if (code != PMIX_SUCCESS || value == NULL || value->type != PMIX_BYTE_OBJECT ||
            value->data.bo.size != bytes) {
        status = error_set(TUTTI_ERR_SYSTEM,
                "PMIx has not what rank %d has put: error %d", rank, (int)code);
    } else {
        memcpy(to, value->data.bo.bytes, bytes);
        free(value->data.bo.bytes);
    }
    free(value);
    return status;
}

static tutti_status pmix_allgather(
        void *user, const void *mine, void *all, size_t bytes)
{
    pmix_info_t collect = { .key = PMIX_COLLECT_DATA,
        .value = { .type = PMIX_BOOL, .data.flag = true } };
    char key[64];
    tutti_status status = TUTTI_OK;
    pmix_status_t code;

    (void)user;
    (void)snprintf(key, sizeof key, "tutti-%u", ++pmix.round);
    code = put(key, mine, bytes);
    if (code == PMIX_SUCCESS) {
        code = pmix.fence(NULL, 0, &collect, 1);
    }
    if (code != PMIX_SUCCESS) {
        return say_failed("exchange what ranks have put", code);
    }
    for (int r = 0; r < pmix.size && status == TUTTI_OK; r++) {
        status = get(r, key, (uint8_t *)all + (size_t)r * bytes, bytes);
    }
    return status;
}

bool boot_pmix_is_here(void)
{
    return config_foreign("PMIX_RANK") != NULL &&
            config_foreign("PMIX_NAMESPACE") != NULL;
}

tutti_status boot_pmix_open(struct boot *boot)
{
    tutti_status status = TUTTI_OK;

    if (!boot_pmix_is_here()) {
        return TUTTI_AGAIN;
    }
    pthread_mutex_lock(&lock);
    if (!pmix.is_on) {
        status = begin();
    }
    pthread_mutex_unlock(&lock);
    if (status == TUTTI_OK) {
        *boot = (struct boot){ .name = "pmix",
            .rank = (int)pmix.me.rank,
            .size = pmix.size,
            .allgather = pmix_allgather };
    }
    return status;
}
