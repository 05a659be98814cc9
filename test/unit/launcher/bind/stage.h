/*
 * A machine to plan for: one of machines.c.
 */
#ifndef TUTTI_TEST_LAUNCHER_BIND_STAGE_H
#define TUTTI_TEST_LAUNCHER_BIND_STAGE_H

#include <stdlib.h>
#include <string.h>

#include "launcher/bind/bind_plan.h"
#include "test/unit/launcher/bind/machines.h"
#include "test/unit/unit.h"

struct stage {
    struct bind_machine machine;
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed;
};

/** `allowed` NULL: all. */
static inline void stage_open(
        struct stage *stage, const char *name, const char *allowed)
{
    struct machine_model model;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    assert_non_null(file);
    assert_true(machine_find(&model, name));
    machine_write(&model, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hwloc_topology_init(&stage->topology), 0);
    assert_int_equal(
            hwloc_topology_set_xmlbuffer(stage->topology, text, (int)len + 1), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(
                             stage->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT),
            0);
    assert_int_equal(hwloc_topology_load(stage->topology), 0);
    free(text);
    stage->allowed =
            hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(stage->topology));
    assert_non_null(stage->allowed);
    if (allowed != NULL) {
        assert_int_equal(hwloc_bitmap_list_sscanf(stage->allowed, allowed), 0);
    }
    stage->machine = (struct bind_machine){
        .topology = stage->topology,
        .allowed = stage->allowed,
    };
    gpus_find(&stage->machine.gpus, stage->topology);
}

static inline void stage_close(struct stage *stage)
{
    hwloc_bitmap_free(stage->allowed);
    hwloc_topology_destroy(stage->topology);
}

#endif
