/*
 * PMI-2: a store of short texts. Bytes travel as hexadecimal digits, in parts; a fence makes
 * what all have put visible to all.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "boot/pmi.h"

/* PMI2_MAX_VALLEN is 1024, with the end; PMI2_MAX_KEYLEN is 64. */
#define PART_BYTES 500
#define VALUE_MAX 1024
#define KEY_MAX 64
#define JOB_MAX 256
#define ANY_SOURCE (-1)

/* The functions of slurm/pmi2.h. */
struct pmi2 {
    int (*init)(int *spawned, int *size, int *rank, int *appnum);
    int (*job_id)(char *job, int len);
    int (*put)(const char *key, const char *value);
    int (*fence)(void);
    int (*get)(const char *job, int source, const char *key, char *value, int max,
            int *len);
    char job[JOB_MAX];
    int rank;
    int size;
    unsigned round; /* exchanges so far */
    bool is_on;
};

/* It belongs to the process, like its connection to srun. */
static struct pmi2 pmi2;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static tutti_status begin(void)
{
    void *library = dlopen("libpmi2.so.0", RTLD_NOW | RTLD_LOCAL);
    int spawned = 0;
    int appnum = 0;

    if (library == NULL) {
        return error_set(TUTTI_ERR_SYSTEM,
                "srun --mpi=pmi2 has started this process, but libpmi2.so.0 cannot be "
                "loaded (%s); install libpmi2-0, or use srun --mpi=pmix or tuttirun",
                dlerror()); /* NOLINT(concurrency-mt-unsafe): glibc's is not shared */
    }
    if (!pmi_find(library, "PMI2_Init", &pmi2.init) ||
            !pmi_find(library, "PMI2_Job_GetId", &pmi2.job_id) ||
            !pmi_find(library, "PMI2_KVS_Put", &pmi2.put) ||
            !pmi_find(library, "PMI2_KVS_Fence", &pmi2.fence) ||
            !pmi_find(library, "PMI2_KVS_Get", &pmi2.get) ||
            pmi2.init(&spawned, &pmi2.size, &pmi2.rank, &appnum) != 0 ||
            pmi2.job_id(pmi2.job, sizeof pmi2.job) != 0) {
        return error_set(TUTTI_ERR_SYSTEM, "PMI-2 of srun cannot be initialised");
    }
    pmi2.is_on = true;
    return TUTTI_OK;
}

static void key_of(char key[KEY_MAX], int rank, size_t part)
{
    (void)snprintf(key, KEY_MAX, "tutti-%u-%d-%zu", pmi2.round, rank, part);
}

static bool put_part(size_t part, const uint8_t *bytes, size_t count)
{
    char value[VALUE_MAX] = "";
    char key[KEY_MAX];

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(value + 2 * i, sizeof value - 2 * i, "%02x", bytes[i]);
    }
    key_of(key, pmi2.rank, part);
    return pmi2.put(key, value) == 0;
}

static bool get_part(int rank, size_t part, uint8_t *bytes, size_t count)
{
    char value[VALUE_MAX] = "";
    char key[KEY_MAX];
    int len = 0;

    key_of(key, rank, part);
    if (pmi2.get(pmi2.job, ANY_SOURCE, key, value, sizeof value, &len) != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned digits = 0;

        if (sscanf(value + 2 * i, "%2x", &digits) != 1) { /* NOLINT(cert-err34-c) */
            return false;
        }
        bytes[i] = (uint8_t)digits;
    }
    return true;
}

static tutti_status pmi2_allgather(
        void *user, const void *mine, void *all, size_t bytes)
{
    uint8_t *const to = all;
    bool right = true;

    (void)user;
    pmi2.round++;
    for (size_t at = 0; at < bytes && right; at += PART_BYTES) {
        right = put_part(at / PART_BYTES, (const uint8_t *)mine + at,
                size_min(PART_BYTES, bytes - at));
    }
    if (!right || pmi2.fence() != 0) {
        return error_set(
                TUTTI_ERR_SYSTEM, "PMI-2 of srun could not exchange %zu bytes", bytes);
    }
    for (int r = 0; r < pmi2.size && right; r++) {
        for (size_t at = 0; at < bytes && right; at += PART_BYTES) {
            right = get_part(r, at / PART_BYTES, to + (size_t)r * bytes + at,
                    size_min(PART_BYTES, bytes - at));
        }
    }
    return right ? TUTTI_OK
                 : error_set(TUTTI_ERR_SYSTEM,
                           "PMI-2 of srun has not kept what the ranks have put");
}

bool boot_pmi2_is_here(void)
{
    return config_foreign("PMI_FD") != NULL && config_foreign("SLURM_STEP_ID") != NULL;
}

tutti_status boot_pmi2_open(struct boot *boot)
{
    tutti_status status = TUTTI_OK;

    if (!boot_pmi2_is_here()) {
        return TUTTI_AGAIN;
    }
    pthread_mutex_lock(&lock);
    if (!pmi2.is_on) {
        status = begin();
    }
    pthread_mutex_unlock(&lock);
    if (status == TUTTI_OK) {
        *boot = (struct boot){ .name = "pmi2",
            .rank = pmi2.rank,
            .size = pmi2.size,
            .allgather = pmi2_allgather };
    }
    return status;
}
