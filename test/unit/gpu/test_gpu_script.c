/*
 * The scripts of the GPU backend: what is packed, which calls follow, and what stays where it
 * lies. That they compute what they should is for gpu.reductions and gpu.exchanges, which
 * carry them out over the simulated GPU.
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

/* So many pieces are packed, so many calls made, so many pieces unpacked. */
static void expect(
        const struct scene *scene, size_t gathers, size_t calls, size_t scatters)
{
    assert_int_equal(scene->script.gathers.count, gathers);
    assert_int_equal(scene->script.call_count, calls);
    assert_int_equal(scene->script.scatters.count, scatters);
    assert_int_equal(scene->script.slab_bytes > 0, gathers > 0);
}

static const int64_t three[] = { 10, 100, 7, -1 };

UNIT_TEST(test_side_by_side_is_one_call_and_no_copy)
{
    static const tutti_collective collectives[] = { TUTTI_ALLREDUCE, TUTTI_REDUCE,
        TUTTI_BROADCAST };
    struct scene scene;

    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        scene_init(&scene, 2, SIDE_BY_SIDE, three);
        scene.batch.collective = collectives[i];
        for (int r = 0; r < 3 && collectives[i] == TUTTI_BROADCAST; r++) {
            scene.batch.dtype = TUTTI_UINT8; /* bytes are moved */
            scene.runs[r].count *= sizeof(float);
        }
        write_script(&scene);
        expect(&scene, 0, 1, 0);
        assert_false(scene.script.calls[0].input.in_slab);
        script_fini(&scene.script);
    }
}

/* Memory of others is not touched, and a layout has no more padding on one rank. */
UNIT_TEST(test_anything_else_is_packed)
{
    static const enum placing placings[] = { WIDE, SPACED, ANYWHERE };
    struct scene scene;

    for (size_t i = 0; i < sizeof placings / sizeof *placings; i++) {
        scene_init(&scene, 2, placings[i], three);
        write_script(&scene);
        expect(&scene, 3, 1, 3);
        script_fini(&scene.script);
    }
}

/* Adjacent tensors are in one piece only where their sizes make a layout of that. */
UNIT_TEST(test_whole_boundaries_need_no_padding)
{
    struct scene scene;

    scene_init(&scene, 2, ADJACENT, (int64_t[]){ 64, 10, -1 });
    write_script(&scene);
    expect(&scene, 0, 1, 0);
    script_fini(&scene.script);
    scene_init(&scene, 2, ADJACENT, (int64_t[]){ 63, 10, -1 });
    write_script(&scene);
    expect(&scene, 2, 1, 2);
    script_fini(&scene.script);
}

/* A run of a layout begins on a boundary, also an empty one, and none is packed for it. */
UNIT_TEST(test_empty_runs)
{
    struct scene scene;

    for (int first = 0; first < 3; first++) {
        int64_t counts[] = { 10, 10, 10, -1 };

        counts[first] = 0;
        scene_init(&scene, 2, SIDE_BY_SIDE, counts);
        write_script(&scene);
        expect(&scene, 0, 1, 0);
        script_fini(&scene.script);
        scene_init(&scene, 2, ANYWHERE, counts);
        write_script(&scene);
        expect(&scene, 2, 1, 2);
        script_fini(&scene.script);
    }
}

/* Where one rank's tensors lie side by side and the other's do not, both call the same. */
UNIT_TEST(test_ranks_may_differ)
{
    struct scene here;
    struct scene there;

    scene_init(&here, 2, SIDE_BY_SIDE, three);
    scene_init(&there, 2, ANYWHERE, three);
    here.batch.op = there.batch.op = TUTTI_AVERAGE;
    write_script(&here);
    write_script(&there);
    expect(&here, 0, 1, 3); /* the average */
    expect(&there, 3, 1, 3);
    assert_int_equal(here.script.calls[0].count, there.script.calls[0].count);
    script_fini(&here.script);
    script_fini(&there.script);
}

/* Memory that is registered is packed, also what lies side by side. */
UNIT_TEST(test_registered_is_packed)
{
    struct scene scene;

    scene_init(&scene, 2, SIDE_BY_SIDE, three);
    scene.view.registers = true;
    write_script(&scene);
    expect(&scene, 3, 1, 3);
    assert_true(scene.script.calls[0].input.in_slab);
    script_fini(&scene.script);
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

/* The root could give its output, and the others could not. */
UNIT_TEST(test_registered_and_scaled_is_packed_alike_on_all_ranks)
{
    struct scene scene;

    for (int rank = 0; rank < 2; rank++) {
        scene_init(&scene, 2, SIDE_BY_SIDE, (int64_t[]){ LARGE, -1 });
        scene.view.registers = true;
        scene.batch.collective = TUTTI_REDUCE;
        scene.batch.prescale = 0.5;
        scene.set.rank = rank;
        scene.runs[0].output = rank == 0 ? scene.runs[0].output : NULL;
        write_script(&scene);
        assert_true(scene.script.calls[0].input.in_slab);
        script_fini(&scene.script);
    }
}

/* A large tensor is not copied for the sake of small ones. */
UNIT_TEST(test_large_runs_stand_alone)
{
    struct scene scene;

    scene_init(&scene, 2, ANYWHERE, (int64_t[]){ 3, LARGE, 3, -1 });
    write_script(&scene);
    expect(&scene, 0, 3, 0);
    assert_int_equal(scene.script.calls[1].count, LARGE);
    script_fini(&scene.script);
}
