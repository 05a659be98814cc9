/*
 * What each rank should get on machines that exist, worked out by hand from what lstopo
 * shows of them, before the planner had an answer. The tests run them on the topologies of
 * machines.c, and on recorded ones in the folder that TUTTI_TOPOLOGIES names.
 */
#ifndef TUTTI_TEST_LAUNCHER_BIND_ROWS_H
#define TUTTI_TEST_LAUNCHER_BIND_ROWS_H

enum {
    ROW_RANKS_MAX = 16
};

/** One rank's share. */
struct row_rank {
    int gpu; /* its GPU in PCI order; -1: none */
    const char *cpus; /* hardware threads */
    const char *memory; /* NUMA nodes */
    int threads; /* OMP_NUM_THREADS */
};

struct row {
    const char *machine; /* name in machines.c, and of a recorded NAME.xml */
    const char *allowed; /* what the process may use already; NULL: everything */
    const char *variable; /* one of the environment, or NULL */
    int count; /* ranks */
    struct row_rank ranks[ROW_RANKS_MAX];
};

static const struct row rows[] = {
    /* 8 H200: two packages of 48 cores; threads 0-47 have 96-143 as siblings. GPUs 0-3
       are in package 0, so 48 / 4 = 12 cores each. */
    { .machine = "p5en.48xl",
            .count = 8,
            .ranks = { { 0, "0-11,96-107", "0", 12 }, { 1, "12-23,108-119", "0", 12 },
                    { 2, "24-35,120-131", "0", 12 }, { 3, "36-47,132-143", "0", 12 },
                    { 4, "48-59,144-155", "1", 12 }, { 5, "60-71,156-167", "1", 12 },
                    { 6, "72-83,168-179", "1", 12 },
                    { 7, "84-95,180-191", "1", 12 } } },
    /* One rank has one GPU and all of its node. */
    { .machine = "p5en.48xl", .count = 1, .ranks = { { 0, "0-47,96-143", "0", 48 } } },
    { .machine = "p5en.48xl",
            .count = 2,
            .ranks = { { 0, "0-23,96-119", "0", 24 },
                    { 1, "24-47,120-143", "0", 24 } } },
    /* GPUs of both nodes: the fifth is alone on its node. */
    { .machine = "p5en.48xl",
            .count = 5,
            .ranks = { { 0, "0-11,96-107", "0", 12 }, { 1, "12-23,108-119", "0", 12 },
                    { 2, "24-35,120-131", "0", 12 }, { 3, "36-47,132-143", "0", 12 },
                    { 4, "48-95,144-191", "1", 48 } } },
    /* More ranks than GPUs: 8 to 11 share GPUs 0 to 3, whose node has 8 ranks now. */
    { .machine = "p5en.48xl",
            .count = 12,
            .ranks = { { 0, "0-5,96-101", "0", 6 }, { 1, "6-11,102-107", "0", 6 },
                    { 2, "12-17,108-113", "0", 6 }, { 3, "18-23,114-119", "0", 6 },
                    { 4, "48-59,144-155", "1", 12 }, { 5, "60-71,156-167", "1", 12 },
                    { 6, "72-83,168-179", "1", 12 }, { 7, "84-95,180-191", "1", 12 },
                    { 0, "24-29,120-125", "0", 6 }, { 1, "30-35,126-131", "0", 6 },
                    { 2, "36-41,132-137", "0", 6 }, { 3, "42-47,138-143", "0", 6 } } },
    /* 48 cores for 3 ranks on the node of GPUs 4 to 6 alone: in the list's order. */
    { .machine = "p5en.48xl",
            .variable = "CUDA_VISIBLE_DEVICES=6,5,4",
            .count = 3,
            .ranks = { { 6, "48-63,144-159", "1", 16 }, { 5, "64-79,160-175", "1", 16 },
                    { 4, "80-95,176-191", "1", 16 } } },
    /* A whole GPU, and a part of one that may be on either node: both nodes are for
       both ranks. */
    { .machine = "p5en.48xl",
            .variable = "CUDA_VISIBLE_DEVICES=0,MIG-1",
            .count = 2,
            .ranks = { { 0, "0-47,96-143", "0", 48 },
                    { -1, "48-95,144-191", "1", 48 } } },
    /* The other way round: the rank whose GPU has a place is nearer to it. */
    { .machine = "p5en.48xl",
            .variable = "CUDA_VISIBLE_DEVICES=MIG-1,0",
            .count = 2,
            .ranks = { { -1, "48-95,144-191", "1", 48 },
                    { 0, "0-47,96-143", "0", 48 } } },
    /* A job's cpuset of the second threads of 16 cores in each package. */
    { .machine = "p5en.48xl",
            .allowed = "96-111,144-159",
            .count = 8,
            .ranks = { { 0, "96-99", "0", 4 }, { 1, "100-103", "0", 4 },
                    { 2, "104-107", "0", 4 }, { 3, "108-111", "0", 4 },
                    { 4, "144-147", "1", 4 }, { 5, "148-151", "1", 4 },
                    { 6, "152-155", "1", 4 }, { 7, "156-159", "1", 4 } } },
    /* All that is allowed is far from GPUs 4 and 5: an even split of it. */
    { .machine = "p5en.48xl",
            .allowed = "0-5,96-101",
            .count = 6,
            .ranks = { { 0, "0,96", "0", 1 }, { 1, "1,97", "0", 1 },
                    { 2, "2,98", "0", 1 }, { 3, "3,99", "0", 1 },
                    { 4, "4,100", "0", 1 }, { 5, "5,101", "0", 1 } } },
    /* 8 B200, the same processors. */
    { .machine = "p6-b200.48xl",
            .count = 8,
            .ranks = { { 0, "0-11,96-107", "0", 12 }, { 1, "12-23,108-119", "0", 12 },
                    { 2, "24-35,120-131", "0", 12 }, { 3, "36-47,132-143", "0", 12 },
                    { 4, "48-59,144-155", "1", 12 }, { 5, "60-71,156-167", "1", 12 },
                    { 6, "72-83,168-179", "1", 12 },
                    { 7, "84-95,180-191", "1", 12 } } },
    /* 8 H100 with two packages of 48 cores without hyper-threads. */
    { .machine = "p5.48xl",
            .count = 8,
            .ranks = { { 0, "0-11", "0", 12 }, { 1, "12-23", "0", 12 },
                    { 2, "24-35", "0", 12 }, { 3, "36-47", "0", 12 },
                    { 4, "48-59", "1", 12 }, { 5, "60-71", "1", 12 },
                    { 6, "72-83", "1", 12 }, { 7, "84-95", "1", 12 } } },
    /* 8 A100, two packages of 24 cores; two GPUs on each PCI bus. */
    { .machine = "p4d.24xl",
            .count = 8,
            .ranks = { { 0, "0-5", "0", 6 }, { 1, "6-11", "0", 6 },
                    { 2, "12-17", "0", 6 }, { 3, "18-23", "0", 6 },
                    { 4, "24-29", "1", 6 }, { 5, "30-35", "1", 6 },
                    { 6, "36-41", "1", 6 }, { 7, "42-47", "1", 6 } } },
    /* 8 A10G without locality: 96 cores / 8, four ranks on each node. */
    { .machine = "g5.48xl",
            .count = 8,
            .ranks = { { 0, "0-11,96-107", "0", 12 }, { 1, "12-23,108-119", "0", 12 },
                    { 2, "24-35,120-131", "0", 12 }, { 3, "36-47,132-143", "0", 12 },
                    { 4, "48-59,144-155", "1", 12 }, { 5, "60-71,156-167", "1", 12 },
                    { 6, "72-83,168-179", "1", 12 },
                    { 7, "84-95,180-191", "1", 12 } } },
    { .machine = "g5.48xl",
            .count = 2,
            .ranks = { { 0, "0-47,96-143", "0", 48 },
                    { 1, "48-95,144-191", "1", 48 } } },
    /* DGX-2, recorded inside of a cgroup with two cores of each package: 8 ranks share
       the two cores near their GPUs. */
    { .machine = "nvidiaDGX2",
            .count = 16,
            .ranks = { { 0, "0-1", "0", 1 }, { 1, "0-1", "0", 1 }, { 2, "0-1", "0", 1 },
                    { 3, "0-1", "0", 1 }, { 4, "0-1", "0", 1 }, { 5, "0-1", "0", 1 },
                    { 6, "0-1", "0", 1 }, { 7, "0-1", "0", 1 }, { 8, "24-25", "1", 1 },
                    { 9, "24-25", "1", 1 }, { 10, "24-25", "1", 1 },
                    { 11, "24-25", "1", 1 }, { 12, "24-25", "1", 1 },
                    { 13, "24-25", "1", 1 }, { 14, "24-25", "1", 1 },
                    { 15, "24-25", "1", 1 } } },
    { .machine = "nvidiaDGX2",
            .count = 2,
            .ranks = { { 0, "0", "0", 1 }, { 1, "1", "0", 1 } } },
    /* DGX H100: 2 x 56 cores, whose threads are 2k and 2k+1. 56 / 4 = 14 cores. */
    { .machine = "dgxh100",
            .count = 8,
            .ranks = { { 0, "0-27", "0", 14 }, { 1, "28-55", "0", 14 },
                    { 2, "56-83", "0", 14 }, { 3, "84-111", "0", 14 },
                    { 4, "112-139", "1", 14 }, { 5, "140-167", "1", 14 },
                    { 6, "168-195", "1", 14 }, { 7, "196-223", "1", 14 } } },
    /* One GPU under the machine itself, one node, 4 cores. */
    { .machine = "noloc", .count = 1, .ranks = { { 0, "0-3", "0", 4 } } },
    { .machine = "noloc",
            .count = 2,
            .ranks = { { 0, "0-1", "0", 2 }, { 0, "2-3", "0", 2 } } },
    { .machine = "noloc",
            .count = 3,
            .ranks = { { 0, "0", "0", 1 }, { 0, "1", "0", 1 }, { 0, "2-3", "0", 2 } } },
    /* POWER8: 4 cores of 2 of their 8 threads in each package; GPUs in PCI domains 2, 3,
       a and b. */
    { .machine = "power8gpudistances",
            .count = 4,
            .ranks = { { 0, "0-1,8-9", "0", 2 }, { 1, "16-17,24-25", "0", 2 },
                    { 2, "80-81,88-89", "1", 2 }, { 3, "96-97,104-105", "1", 2 } } },
    { .machine = "power8gpudistances",
            .count = 3,
            .ranks = { { 0, "0-1,8-9", "0", 2 }, { 1, "16-17,24-25", "0", 2 },
                    { 2, "80-81,88-89,96-97,104-105", "1", 4 } } },
    /* No GPU is to be seen: the cores of all nodes are split. */
    { .machine = "power8gpudistances",
            .variable = "CUDA_VISIBLE_DEVICES=",
            .count = 2,
            .ranks = { { -1, "0-1,8-9,16-17,24-25", "0", 4 },
                    { -1, "80-81,88-89,96-97,104-105", "1", 4 } } },
    /* Cores are never split between ranks; 8 / 3 are 2, 3 and 3, over a border. */
    { .machine = "power8gpudistances",
            .variable = "CUDA_VISIBLE_DEVICES=-1",
            .count = 3,
            .ranks = { { -1, "0-1,8-9", "0", 2 }, { -1, "16-17,24-25,80-81", "0-1", 3 },
                    { -1, "88-89,96-97,104-105", "1", 3 } } },
    /* Cores that are not described: the two ranges of a node are two threads of each. */
    { .machine = "stripped",
            .count = 2,
            .ranks = { { 0, "0-47,96-143", "0", 48 },
                    { 1, "48-95,144-191", "1", 48 } } },
    { .machine = "stripped",
            .allowed = "0-3,96-100",
            .count = 2,
            .ranks = { { 0, "0-1,96-97", "0", 2 }, { 1, "2-3,98-100", "0", 3 } } },
    /* One range: each is a core. */
    { .machine = "stripped-single",
            .count = 4,
            .ranks = { { -1, "0-3", "0", 4 }, { -1, "4-7", "0", 4 },
                    { -1, "8-11", "1", 4 }, { -1, "12-15", "1", 4 } } },
    /* Nodes 2 and 3 are memory of the GPUs: not for the program's. */
    { .machine = "gh200",
            .count = 2,
            .ranks = { { 0, "0-71", "0", 72 }, { 1, "72-143", "1", 72 } } },
};

#endif
