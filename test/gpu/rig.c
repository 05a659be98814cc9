/*
 * What tests of a rank's GPU share.
 */
#include "test/gpu/rig.h"

#include <stdio.h>
#include <string.h>

static void keep_line(void *user, tutti_log_level level, int rank, const char *line)
{
    struct rig *rig = user;
    const size_t len = strlen(rig->lines);

    (void)level;
    (void)rank;
    (void)snprintf(rig->lines + len, sizeof rig->lines - len, "%s\n", line);
}

void rig_init(struct rig *rig)
{
    *rig = (struct rig){ .seat = { .rank = 5, .local_rank = 1, .is_alone = true } };
    rig->log = (struct log){
        .callback = keep_line, .user = rig, .level = TUTTI_LOG_INFO, .rank = 5
    };
    ASSERT_OK(config_init(&rig->config));
    rig_set(rig, "cuda_library", GPUSIM_CUDA);
    rig_set(rig, "nccl_library", "no-such-nccl.so");
    rig_set(rig, "gpu_kernels", "/proc/self/exe");
}

void rig_fini(struct rig *rig)
{
    config_fini(&rig->config);
}

void rig_set(struct rig *rig, const char *name, const char *value)
{
    ASSERT_OK(config_set(&rig->config, name, value, "test"));
}

struct gpu *rig_open(struct rig *rig)
{
    struct gpu *gpu = NULL;

    if (gpu_open(&rig->config, &rig->log, &rig->seat, &gpu) != TUTTI_OK) {
        fail_msg("gpu_open: %s", tutti_last_error());
    }
    assert_non_null(gpu);
    return gpu;
}

void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

void assert_error_has(const char *part)
{
    assert_has(tutti_last_error(), part);
}

void assert_nothing_leaked(const struct gpusim_live *before)
{
    const struct gpusim_live now = gpusim_live();

    assert_memory_equal(&now, before, sizeof now);
}

void *caller_enter(int device)
{
    void *context = NULL;

    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    return context;
}

void caller_leave(int device)
{
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(device), 0);
}

void *caller_stream(void)
{
    void *stream = NULL;

    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    return stream;
}

int fixture_begin(void **state)
{
    static struct fixture f;

    f.before = gpusim_live();
    rig_init(&f.rig);
    f.context = caller_enter(1);
    f.stream = caller_stream();
    f.gpu = rig_open(&f.rig);
    *state = &f;
    return 0;
}

int fixture_end(void **state)
{
    struct fixture *f = *state;

    gpu_close(f->gpu);
    assert_int_equal(gpusim_take_reports(NULL, 0), 0);
    assert_int_equal(cuStreamDestroy_v2(f->stream), 0);
    caller_leave(1);
    assert_nothing_leaked(&f->before);
    rig_fini(&f->rig);
    return 0;
}
