/*
 * Lists of GPUs in variables.
 */
#include <stdio.h>

#include "launcher/bind/visible.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/words.h"

enum {
    VARIABLES_MAX = 4
};

static const char *const uuids[] = {
    "GPU-00aa0000-0000-0000-0000-000000000000",
    "GPU-00ab0000-0000-0000-0000-000000000000",
    "GPU-11aa0000-0000-0000-0000-000000000000",
    "GPU-22aa0000-0000-0000-0000-000000000000",
};

/* Four GPUs, of which the driver has told the names. */
static void make_gpus(struct gpus *gpus, enum gpu_vendor vendor)
{
    *gpus = (struct gpus){ .vendor = vendor, .count = 4 };
    for (size_t i = 0; i < gpus->count; i++) {
        (void)snprintf(gpus->items[i].uuid, GPU_UUID_MAX, "%s", uuids[i]);
    }
}

static void assert_visible(const struct visible *visible, const char *expected)
{
    char text[256] = "";
    size_t len = 0;

    for (size_t i = 0; i < visible->count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", i > 0 ? " " : "",
                visible->items[i].gpu);
    }
    assert_string_equal(text, expected);
}

UNIT_TEST(test_lists_of_every_form)
{
    static const struct {
        enum gpu_vendor vendor;
        const char *variables[VARIABLES_MAX];
        const char *gpus; /* their indices; -1: not known which */
        const char *narrows; /* variable for a shorter list */
    } cases[] = {
        { .gpus = "0 1 2 3", .narrows = "CUDA_VISIBLE_DEVICES" },
        { .variables = { "CUDA_VISIBLE_DEVICES=3,1" },
                .gpus = "3 1",
                .narrows = "CUDA_VISIBLE_DEVICES" },
        { .variables = { "CUDA_VISIBLE_DEVICES= 2 , 0 " }, .gpus = "2 0" },
        { .variables = { "CUDA_VISIBLE_DEVICES=" }, .gpus = "" },
        { .variables = { "CUDA_VISIBLE_DEVICES=NoDevFiles" }, .gpus = "" },
        { .variables = { "CUDA_VISIBLE_DEVICES=1,-1,2" }, .gpus = "1" },
        { .variables = { "CUDA_VISIBLE_DEVICES=GPU-22,GPU-00ab" }, .gpus = "3 1" },
        /* Parts: of the old form, which names the GPU, and of the new, which does not. */
        { .variables = { "CUDA_VISIBLE_DEVICES=MIG-GPU-11aa0000-0000-0000-0000-"
                         "000000000000/1/0,MIG-GPU-11aa0000-0000-0000-0000-"
                         "000000000000/2/0" },
                .gpus = "2 2" },
        { .variables = { "CUDA_VISIBLE_DEVICES=MIG-33330000-0000-0000-0000-"
                         "000000000000" },
                .gpus = "-1" },
        /* Variables of the other vendor mean nothing. */
        { .variables = { "ROCR_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=0" },
                .gpus = "0 1 2 3" },
        { .vendor = GPU_AMD, .gpus = "0 1 2 3", .narrows = "ROCR_VISIBLE_DEVICES" },
        { .vendor = GPU_AMD,
                .variables = { "ROCR_VISIBLE_DEVICES=3,2,1" },
                .gpus = "3 2 1",
                .narrows = "ROCR_VISIBLE_DEVICES" },
        { .vendor = GPU_AMD,
                .variables = { "ROCR_VISIBLE_DEVICES=3,2,1",
                        "HIP_VISIBLE_DEVICES=2,0" },
                .gpus = "1 3",
                .narrows = "HIP_VISIBLE_DEVICES" },
        { .vendor = GPU_AMD,
                .variables = { "CUDA_VISIBLE_DEVICES=2" },
                .gpus = "2",
                .narrows = "CUDA_VISIBLE_DEVICES" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments environment = { .items = NULL };
        struct visible visible;
        struct gpus gpus;

        make_gpus(&gpus, cases[i].vendor);
        assert_int_equal(visible_read(&visible, &gpus,
                                 words_set(&environment, cases[i].variables)),
                TUTTI_OK);
        assert_visible(&visible, cases[i].gpus);
        if (cases[i].narrows != NULL) {
            assert_string_equal(visible.variable, cases[i].narrows);
        }
        arguments_fini(&environment);
    }
}

UNIT_TEST(test_what_is_not_there_is_refused)
{
    static const struct {
        const char *variables[VARIABLES_MAX];
        const char *says;
    } cases[] = {
        { .variables = { "CUDA_VISIBLE_DEVICES=0,4" },
                .says = "CUDA_VISIBLE_DEVICES: there is no GPU 4 on this host, which "
                        "has "
                        "4; unset it, or list what is there" },
        { .variables = { "CUDA_VISIBLE_DEVICES=0,x" },
                .says = "CUDA_VISIBLE_DEVICES: 'x' is neither an index nor GPU-... nor "
                        "MIG-..." },
        { .variables = { "CUDA_VISIBLE_DEVICES=1,1" },
                .says = "CUDA_VISIBLE_DEVICES: 1 is there twice, and programs would "
                        "see "
                        "no GPU at all" },
        { .variables = { "CUDA_VISIBLE_DEVICES=GPU-99" },
                .says = "CUDA_VISIBLE_DEVICES: GPU-99 is no GPU of this host; "
                        "nvidia-smi "
                        "-L lists them" },
        { .variables = { "CUDA_VISIBLE_DEVICES=GPU-00" },
                .says = "CUDA_VISIBLE_DEVICES: GPU-00 is the beginning of several "
                        "GPUs' "
                        "names; write more of it" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arguments environment = { .items = NULL };
        struct visible visible;
        struct gpus gpus;

        make_gpus(&gpus, GPU_NVIDIA);
        assert_int_equal(visible_read(&visible, &gpus,
                                 words_set(&environment, cases[i].variables)),
                TUTTI_ERR_INVALID);
        assert_string_equal(tutti_last_error(), cases[i].says);
        arguments_fini(&environment);
    }
}

/* HIP counts in what ROCR has left. */
UNIT_TEST(test_a_list_in_a_list_is_checked_against_it)
{
    static const char *const variables[] = { "ROCR_VISIBLE_DEVICES=3,2",
        "HIP_VISIBLE_DEVICES=2", NULL };
    struct arguments environment = { .items = NULL };
    struct visible visible;
    struct gpus gpus;

    make_gpus(&gpus, GPU_AMD);
    assert_int_equal(visible_read(&visible, &gpus, words_set(&environment, variables)),
            TUTTI_ERR_INVALID);
    arguments_fini(&environment);
}

/* In a container that hides the PCI bus, or where the driver names no GPU. */
UNIT_TEST(test_what_cannot_be_checked_is_believed)
{
    static const char *const indices[] = { "CUDA_VISIBLE_DEVICES=4,5", NULL };
    static const char *const names[] = { "CUDA_VISIBLE_DEVICES=GPU-99,GPU-98", NULL };
    struct arguments environment = { .items = NULL };
    struct visible visible;
    struct gpus gpus = { .vendor = GPU_NVIDIA };

    assert_int_equal(
            visible_read(&visible, &gpus, words_set(&environment, indices)), TUTTI_OK);
    assert_visible(&visible, "-1 -1");
    make_gpus(&gpus, GPU_NVIDIA);
    gpus.items[2].uuid[0] = '\0';
    assert_int_equal(
            visible_read(&visible, &gpus, words_set(&environment, names)), TUTTI_OK);
    assert_visible(&visible, "-1 -1");
    arguments_fini(&environment);
}

/* A part that nobody can place is near what every GPU of the host is near. */
UNIT_TEST(test_an_unknown_part_is_near_all_gpus)
{
    static const char *const variables[] = { "CUDA_VISIBLE_DEVICES=MIG-1,MIG-2", NULL };
    struct arguments environment = { .items = NULL };
    struct bind_plan plan;
    struct stage stage;
    char text[64];

    stage_open(&stage, "p5en.48xl", NULL);
    stage.machine.gpus.count = 3; /* those of node 0 */
    assert_int_equal(bind_plan_init(&plan, &stage.machine, 2,
                             words_set(&environment, variables)),
            TUTTI_OK);
    (void)hwloc_bitmap_list_snprintf(text, sizeof text, plan.places[1].cpus);
    assert_string_equal(text, "24-47,120-143");
    bind_plan_fini(&plan);
    stage_close(&stage);
    arguments_fini(&environment);
}
