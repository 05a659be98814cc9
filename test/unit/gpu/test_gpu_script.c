/*
 * The scripts of the GPU backend: what is packed, which calls follow, and what stays where it
 * lies. That they compute what they should is for the suite and device_suite, which carry them out
 * over the simulated GPU.
 */
#include "base/mem.h"
#include "ops/gpu/script.h"
#include "test/unit/unit.h"

#define RUNS_MAX 3
#define LARGE (SCRIPT_ALONE_BYTES / sizeof(float))

/* Device memory of the tensors; nobody looks into it. */
static float *const memory = (float *)(uintptr_t)0x10000000; // NOLINT

/* Where the tensors of a rank lie. */
enum placing {
    SIDE_BY_SIDE, /* as tutti_alloc() gives memory: padded to 256 bytes             */
    WIDE, /* padded to more                                             */
    SPACED, /* at the same places, with bytes of others in between        */
    ADJACENT, /* with nothing in between                                    */
    ANYWHERE
};

/* A sum of floats in place, as one rank sees it. */
struct scene {
    struct op_set set;
    struct op_run runs[RUNS_MAX];
    struct op_batch batch;
    struct gpu_form form;
    enum placing placing;
    struct script_view view;
    struct script script;
};

static bool is_padding(void *user, uint64_t address, size_t bytes)
{
    const struct scene *scene = user;

    (void)address;
    return (scene->placing == SIDE_BY_SIDE && bytes < 256) || scene->placing == WIDE;
}

/* Tensors of so many elements, up to a negative number. */
static void scene_init(
        struct scene *scene, int size, enum placing placing, const int64_t *counts)
{
    size_t at = 0;

    *scene = (struct scene){ .set = { .size = size }, .placing = placing };
    scene->batch = (struct op_batch){ .set = &scene->set,
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .divisor = size,
        .prescale = 1.0,
        .postscale = 1.0,
        .runs = scene->runs,
        .space = OP_DEVICE };
    for (size_t i = 0; counts[i] >= 0; i++) {
        scene->runs[i] = (struct op_run){
            .input = memory + at, .output = memory + at, .count = (size_t)counts[i]
        };
        at += (size_t)counts[i] + (placing == ANYWHERE ? 100 : 0) +
                (placing == WIDE ? 64 : 0);
        at = placing < ADJACENT ? size_align(at, 64) : at;
        scene->batch.run_count++;
    }
    scene->view = (struct script_view){ .batch = &scene->batch,
        .form = &scene->form,
        .kernels = true,
        .is_padding = is_padding,
        .user = scene };
}

static void write_script(struct scene *scene)
{
    assert_true(gpu_form_of(&scene->batch, true, &scene->form));
    script_reset(&scene->script);
    assert_int_equal(op_is_reduction(scene->batch.collective)
                    ? script_reduction(&scene->script, &scene->view)
                    : script_exchange(&scene->script, &scene->view),
            TUTTI_OK);
}

/* What one rank does: pieces that are packed, calls, pieces that are unpacked. */
static const struct row {
    const char *what;
    enum placing placing;
    tutti_collective collective;
    int64_t counts[RUNS_MAX + 1]; /* up to a negative number */
    tutti_reduce_op op;
    bool registers;
    size_t gathers, calls, scatters;
    size_t called; /* elements of all calls, gaps included: equal on all ranks */
} rows[] = {
    { "side by side", SIDE_BY_SIDE, TUTTI_ALLREDUCE, { 10, 100, 7, -1 }, TUTTI_SUM,
            false, 0, 1, 0, 199 },
    { "side by side", SIDE_BY_SIDE, TUTTI_REDUCE, { 10, 100, 7, -1 }, TUTTI_SUM, false,
            0, 1, 0, 199 },
    { "side by side", SIDE_BY_SIDE, TUTTI_BROADCAST, { 10, 100, 7, -1 }, TUTTI_SUM,
            false, 0, 1, 0, 796 },
    { "ranks may differ: the call of side by side, and a kernel that averages",
            SIDE_BY_SIDE, TUTTI_ALLREDUCE, { 10, 100, 7, -1 }, TUTTI_AVERAGE, false, 0,
            1, 3, 199 },
    { "and of anywhere", ANYWHERE, TUTTI_ALLREDUCE, { 10, 100, 7, -1 }, TUTTI_AVERAGE,
            false, 3, 1, 3, 199 },
    { "a layout has no more padding on one rank", WIDE, TUTTI_ALLREDUCE,
            { 10, 100, 7, -1 }, TUTTI_SUM, false, 3, 1, 3, 199 },
    { "memory of others is not touched", SPACED, TUTTI_ALLREDUCE, { 10, 100, 7, -1 },
            TUTTI_SUM, false, 3, 1, 3, 199 },
    { "whole boundaries need no padding", ADJACENT, TUTTI_ALLREDUCE, { 64, 10, -1 },
            TUTTI_SUM, false, 0, 1, 0, 74 },
    { "others do", ADJACENT, TUTTI_ALLREDUCE, { 63, 10, -1 }, TUTTI_SUM, false, 2, 1, 2,
            74 },
    { "an empty run begins on a boundary", SIDE_BY_SIDE, TUTTI_ALLREDUCE,
            { 0, 10, 10, -1 }, TUTTI_SUM, false, 0, 1, 0, 74 },
    { "also in between", SIDE_BY_SIDE, TUTTI_ALLREDUCE, { 10, 0, 10, -1 }, TUTTI_SUM,
            false, 0, 1, 0, 74 },
    { "none is packed for it", ANYWHERE, TUTTI_ALLREDUCE, { 10, 0, 10, -1 }, TUTTI_SUM,
            false, 2, 1, 2, 74 },
    { "what is registered is packed", SIDE_BY_SIDE, TUTTI_ALLREDUCE, { 10, 100, 7, -1 },
            TUTTI_SUM, true, 3, 1, 3, 199 },
    { "a large tensor is not copied for the sake of small ones", ANYWHERE,
            TUTTI_ALLREDUCE, { 3, LARGE, 3, -1 }, TUTTI_SUM, false, 0, 3, 0,
            LARGE + 6 },
};

UNIT_TEST(test_what_is_packed_and_called)
{
    struct scene scene;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        size_t called = 0;

        scene_init(&scene, 2, row->placing, row->counts);
        scene.batch.collective = row->collective;
        scene.batch.op = row->op;
        scene.view.registers = row->registers;
        for (size_t r = 0; row->collective == TUTTI_BROADCAST && r < 3; r++) {
            scene.batch.dtype = TUTTI_UINT8; /* bytes are moved */
            scene.runs[r].count *= sizeof(float);
        }
        write_script(&scene);
        for (size_t c = 0; c < scene.script.call_count; c++) {
            called += scene.script.calls[c].count;
        }
        if (scene.script.gathers.count != row->gathers ||
                scene.script.call_count != row->calls ||
                scene.script.scatters.count != row->scatters || called != row->called ||
                (scene.script.slab_bytes > 0) != (row->gathers > 0) ||
                scene.script.calls[0].input.in_slab != (row->gathers > 0)) {
            fail_msg("%s: %zu packed, %zu calls of %zu, %zu unpacked", row->what,
                    scene.script.gathers.count, scene.script.call_count, called,
                    scene.script.scatters.count);
        }
        script_fini(&scene.script);
    }
}

/* A large one is given as it is, unless ranks say that theirs lie elsewhere. */
UNIT_TEST(test_registered_is_packed_if_spots_are_mixed)
{
    static const enum op_spot spots[] = { OP_SPOT_NONE, OP_SPOT_SAME, OP_SPOT_MIXED };
    struct scene scene;

    for (size_t i = 0; i < sizeof spots / sizeof *spots; i++) {
        scene_init(&scene, 2, SIDE_BY_SIDE, (int64_t[]){ LARGE, -1 });
        scene.view.registers = true;
        scene.runs[0].spot = spots[i];
        write_script(&scene);
        assert_int_equal(
                scene.script.calls[0].input.in_slab, spots[i] == OP_SPOT_MIXED);
        script_fini(&scene.script);
    }
}

/* What comes would overwrite what is still to be sent. */
UNIT_TEST(test_an_alltoall_in_place_is_sent_from_a_copy)
{
    struct op_part parts[] = { { .bytes = 8 }, { .offset = 8, .bytes = 8 } };
    struct scene scene;

    for (int in_place = 0; in_place < 2; in_place++) {
        scene_init(&scene, 2, SIDE_BY_SIDE, (int64_t[]){ 4, -1 });
        scene.batch.collective = TUTTI_ALLTOALL;
        scene.runs[0].sends = parts;
        scene.runs[0].recvs = parts;
        scene.runs[0].output = in_place ? memory : memory + 64;
        write_script(&scene);
        assert_int_equal(scene.script.slab_bytes > 0, in_place);
        for (size_t c = 0; c < scene.script.call_count; c++) {
            if (scene.script.calls[c].verb == SCRIPT_SEND) {
                assert_int_equal(scene.script.calls[c].input.in_slab, in_place);
            }
        }
        script_fini(&scene.script);
    }
}

/* The sum of float16 could overflow, where its average does not. */
UNIT_TEST(test_float16_is_scaled_before_the_sum)
{
    struct scene scene;

    scene_init(&scene, 2, SIDE_BY_SIDE, (int64_t[]){ 4, -1 });
    scene.batch.dtype = TUTTI_FLOAT16;
    scene.batch.op = TUTTI_AVERAGE;
    assert_true(gpu_form_of(&scene.batch, false, &scene.form));
    assert_true(scene.form.before == 0.5 && scene.form.divisor == 1);
    scene.batch.dtype = TUTTI_BFLOAT16;
    assert_true(gpu_form_of(&scene.batch, false, &scene.form));
    assert_true(scene.form.before == 1.0 && scene.form.divisor == 2);
}
