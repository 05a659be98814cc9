/*
 * A machine to plan for: one of machines.c, or a recorded one.
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

/* What is left to do when hwloc has its source; `allowed` NULL: all. */
static inline void stage_load(struct stage *stage, const char *allowed)
{
    assert_int_equal(hwloc_topology_set_io_types_filter(
                             stage->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT),
            0);
    assert_int_equal(hwloc_topology_load(stage->topology), 0);
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

static inline void stage_open(
        struct stage *stage, const char *name, const char *allowed)
{
    const struct machine_model *model = machine_find(name);
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    assert_non_null(model);
    assert_non_null(file);
    machine_write(model, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(hwloc_topology_init(&stage->topology), 0);
    assert_int_equal(
            hwloc_topology_set_xmlbuffer(stage->topology, text, (int)len + 1), 0);
    stage_load(stage, allowed);
    free(text);
}

/* False when there is no such file. */
static inline bool stage_open_file(
        struct stage *stage, const char *path, const char *allowed)
{
    assert_int_equal(hwloc_topology_init(&stage->topology), 0);
    if (hwloc_topology_set_xml(stage->topology, path) != 0) {
        hwloc_topology_destroy(stage->topology);
        return false;
    }
    stage_load(stage, allowed);
    return true;
}

static inline void stage_close(struct stage *stage)
{
    hwloc_bitmap_free(stage->allowed);
    hwloc_topology_destroy(stage->topology);
}

#endif
