/*
 * Plans in words and drawn.
 */
#include <stdio.h>

#include "launcher/bind/bind_map.h"
#include "test/unit/launcher/bind/stage.h"
#include "test/unit/launcher/words.h"

UNIT_TEST(test_words)
{
    static const struct {
        const char *machine, *allowed, *variable;
        int count, rank;
        const char *words;
    } cases[] = {
        { "p5en.48xl", NULL, NULL, 8, 5,
                "12 cores (cpus 60-71,156-167), memory of node 1, GPU 5 "
                "(0000:8c:00.0)" },
        { "p5en.48xl", NULL, NULL, 9, 8,
                "10 cores (cpus 38-47,134-143), memory of node 0, GPU 0 (0000:59:00.0) "
                "shared by 2 ranks" },
        { "p5en.48xl", "0-5,96-101", NULL, 6, 4,
                "1 core (cpus 4,100), memory of node 0, GPU 4 (0000:8b:00.0); none of "
                "the cores near it may be used" },
        { "g5.48xl", NULL, NULL, 1, 0,
                "96 cores (cpus 0-191), memory of nodes 0-1, GPU 0 (0000:00:16.0); "
                "which "
                "cores are near it is not known" },
        { "nvidiaDGX2", NULL, NULL, 16, 15,
                "2 cores shared by 8 ranks (cpus 24-25), memory of node 1, GPU 15 "
                "(0000:e7:00.0)" },
        { "cpus", NULL, NULL, 2, 1, "4 cores (cpus 4-7,12-15), memory of node 1" },
        { "cpus", NULL, NULL, 9, 1, "not bound: 9 ranks, 8 cores" },
        { "cpus", NULL, "CUDA_VISIBLE_DEVICES=MIG-5", 1, 0,
                "8 cores (cpus 0-15), memory of nodes 0-1, GPU MIG-5; which cores are "
                "near it is not known" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const variables[] = { cases[i].variable, NULL };
        struct arguments environment = { .items = NULL };
        struct bind_plan plan;
        struct stage stage;
        char text[512];

        stage_open(&stage, cases[i].machine, cases[i].allowed);
        assert_int_equal(bind_plan_init(&plan, &stage.machine, cases[i].count,
                                 words_set(&environment, variables)),
                TUTTI_OK);
        map_describe(&plan, &stage.machine, cases[i].rank, text, sizeof text);
        assert_string_equal(text, cases[i].words);
        map_describe(&plan, &stage.machine, cases[i].rank, text, 5);
        assert_int_equal(strlen(text), 4);
        bind_plan_fini(&plan);
        stage_close(&stage);
        arguments_fini(&environment);
    }
}

static void assert_drawn(const char *machine, int count, const char *expected)
{
    static char *const none[] = { NULL };
    struct bind_plan plan;
    struct stage stage;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    assert_non_null(file);
    stage_open(&stage, machine, NULL);
    assert_int_equal(bind_plan_init(&plan, &stage.machine, count, none), TUTTI_OK);
    map_draw(&plan, &stage.machine, file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, expected);
    free(text);
    bind_plan_fini(&plan);
    stage_close(&stage);
}

#define LEGEND \
    "\nEach character between | | is a core: the rank that has it (0-9, a-z, and " \
    "again), * several ranks, . none\n"

UNIT_TEST(test_a_drawing)
{
    assert_drawn("power8gpudistances", 3,
            "3 ranks of this host on 8 cores in 2 NUMA nodes with 4 GPUs\n"
            "\n"
            "node 0: cpus 0-1,8-9,16-17,24-25\n"
            "  cores |0011|\n"
            "  GPU 0  0002:01:00.0\n"
            "  GPU 1  0003:01:00.0\n"
            "  rank 0: 2 cores (cpus 0-1,8-9), memory of node 0, GPU 0 (0002:01:00.0)\n"
            "  rank 1: 2 cores (cpus 16-17,24-25), memory of node 0, GPU 1 "
            "(0003:01:00.0)\n"
            "\n"
            "node 1: cpus 80-81,88-89,96-97,104-105\n"
            "  cores |2222|\n"
            "  GPU 2  000a:01:00.0\n"
            "  GPU 3  000b:01:00.0\n"
            "  rank 2: 4 cores (cpus 80-81,88-89,96-97,104-105), memory of node 1, GPU "
            "2 (000a:01:00.0)\n" LEGEND);
}

UNIT_TEST(test_a_node_without_ranks_and_gpus_without_a_node)
{
    assert_drawn("nvidiaDGX2", 1,
            "1 rank of this host on 4 cores in 2 NUMA nodes with 16 GPUs\n"
            "\n"
            "node 0: cpus 0-1\n"
            "  cores |00|\n"
            "  GPU 0  0000:34:00.0\n"
            "  GPU 1  0000:36:00.0\n"
            "  GPU 2  0000:39:00.0\n"
            "  GPU 3  0000:3b:00.0\n"
            "  GPU 4  0000:57:00.0\n"
            "  GPU 5  0000:59:00.0\n"
            "  GPU 6  0000:5c:00.0\n"
            "  GPU 7  0000:5e:00.0\n"
            "  rank 0: 2 cores (cpus 0-1), memory of node 0, GPU 0 (0000:34:00.0)\n"
            "\n"
            "node 1: cpus 24-25\n"
            "  cores |..|\n"
            "  GPU 8  0000:b7:00.0\n"
            "  GPU 9  0000:b9:00.0\n"
            "  GPU 10  0000:bc:00.0\n"
            "  GPU 11  0000:be:00.0\n"
            "  GPU 12  0000:e0:00.0\n"
            "  GPU 13  0000:e2:00.0\n"
            "  GPU 14  0000:e5:00.0\n"
            "  GPU 15  0000:e7:00.0\n" LEGEND);
    assert_drawn("gh200", 1,
            "1 rank of this host on 144 cores in 4 NUMA nodes with 2 GPUs\n"
            "\n"
            "node 0: cpus 0-71\n"
            "  cores |000000000000000000000000000000000000000000000000000000000000000"
            "000000000|\n"
            "  GPU 0  0009:01:00.0\n"
            "  rank 0: 72 cores (cpus 0-71), memory of node 0, GPU 0 (0009:01:00.0)\n"
            "\n"
            "node 1: cpus 72-143\n"
            "  cores |..............................................................."
            ".........|\n"
            "  GPU 1  0019:01:00.0\n" LEGEND);
    assert_drawn("noloc", 5,
            "5 ranks of this host on 4 cores in 1 NUMA node with 1 GPU\n"
            "\n"
            "node 0: cpus 0-3\n"
            "  cores |****|\n"
            "  rank 0: not bound: 5 ranks, 4 cores, GPU 0 (0000:04:00.0) shared by 5 "
            "ranks; which cores are near it is not known\n"
            "  rank 1: not bound: 5 ranks, 4 cores, GPU 0 (0000:04:00.0) shared by 5 "
            "ranks; which cores are near it is not known\n"
            "  rank 2: not bound: 5 ranks, 4 cores, GPU 0 (0000:04:00.0) shared by 5 "
            "ranks; which cores are near it is not known\n"
            "  rank 3: not bound: 5 ranks, 4 cores, GPU 0 (0000:04:00.0) shared by 5 "
            "ranks; which cores are near it is not known\n"
            "  rank 4: not bound: 5 ranks, 4 cores, GPU 0 (0000:04:00.0) shared by 5 "
            "ranks; which cores are near it is not known\n"
            "\n"
            "near no particular node, for all that is known:\n"
            "  GPU 0  0000:04:00.0\n" LEGEND);
}
