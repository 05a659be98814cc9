/*
 * Cores and shares of them. All threads of a core go to one rank: two ranks on one core
 * would halve each other's speed and take turns in being late.
 */
#include "launcher/bind/cores.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

/* Adds what is allowed of a core, if anything is. False when out of memory. */
static bool add_core(
        struct cores *cores, hwloc_const_cpuset_t threads, hwloc_const_cpuset_t allowed)
{
    hwloc_bitmap_t core;
    hwloc_bitmap_t *items;

    if (!hwloc_bitmap_intersects(threads, allowed)) {
        return true;
    }
    core = hwloc_bitmap_alloc();
    items = mem_resize(cores->items, cores->count + 1, sizeof(hwloc_bitmap_t));
    if (items != NULL) {
        cores->items = items;
    }
    if (items == NULL || core == NULL ||
            hwloc_bitmap_and(core, threads, allowed) != 0) {
        hwloc_bitmap_free(core);
        return false;
    }
    cores->items[cores->count++] = core;
    return true;
}

static bool add_objects(struct cores *cores, hwloc_topology_t topology,
        hwloc_obj_type_t type, hwloc_const_cpuset_t allowed)
{
    hwloc_obj_t object = hwloc_get_next_obj_by_type(topology, type, NULL);
    bool ok = true;

    for (; ok && object != NULL;
            object = hwloc_get_next_obj_by_type(topology, type, object)) {
        ok = add_core(cores, object->cpuset, allowed);
    }
    return ok;
}

/*
 * Distance between the threads of a core, as Linux numbers them: a node of 48 cores has
 * 0-47,96-143. Two ranges of equal length mean that, everything else means one thread
 * per core, 0.
 */
static int sibling_step(hwloc_const_cpuset_t node)
{
    int first = hwloc_bitmap_first(node);
    int gap = hwloc_bitmap_next_unset(node, first);
    int second = hwloc_bitmap_next(node, gap);
    int last = hwloc_bitmap_last(node);

    if (first < 0 || second < 0 || last < 0 || last - second != gap - 1 - first ||
            hwloc_bitmap_weight(node) != 2 * (gap - first)) {
        return 0;
    }
    return second - first;
}

/* Cores of a node of which only the threads are known. */
static bool guess_cores(
        struct cores *cores, hwloc_const_cpuset_t node, hwloc_const_cpuset_t allowed)
{
    hwloc_bitmap_t core = hwloc_bitmap_alloc();
    int step = sibling_step(node);
    int first = hwloc_bitmap_first(node);
    int thread = first;
    bool ok = core != NULL;

    for (; ok && thread >= 0 && (step == 0 || thread < first + step);
            thread = hwloc_bitmap_next(node, thread)) {
        ok = hwloc_bitmap_only(core, (unsigned)thread) == 0 &&
                (step == 0 || !hwloc_bitmap_isset(node, (unsigned)(thread + step)) ||
                        hwloc_bitmap_set(core, (unsigned)(thread + step)) == 0) &&
                add_core(cores, core, allowed);
    }
    hwloc_bitmap_free(core);
    return ok;
}

/* For descriptions of machines that leave out cores and threads. */
static bool guess_objects(
        struct cores *cores, hwloc_topology_t topology, hwloc_const_cpuset_t allowed)
{
    hwloc_obj_t node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, NULL);
    hwloc_bitmap_t left = hwloc_bitmap_dup(allowed);
    bool ok = left != NULL;

    for (; ok && node != NULL;
            node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) {
        ok = guess_cores(cores, node->cpuset, left) &&
                hwloc_bitmap_andnot(left, left, node->cpuset) == 0;
    }
    hwloc_bitmap_free(left);
    return ok;
}

tutti_status cores_init(
        struct cores *cores, hwloc_topology_t topology, hwloc_const_cpuset_t allowed)
{
    bool ok;

    *cores = (struct cores){ .items = NULL };
    if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0) {
        ok = add_objects(cores, topology, HWLOC_OBJ_CORE, allowed);
    } else if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU) > 0) {
        ok = add_objects(cores, topology, HWLOC_OBJ_PU, allowed);
    } else {
        ok = guess_objects(cores, topology, allowed);
    }
    if (!ok) {
        cores_fini(cores);
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a map of the cores");
    }
    return TUTTI_OK;
}

void cores_fini(struct cores *cores)
{
    for (size_t i = 0; i < cores->count; i++) {
        hwloc_bitmap_free(cores->items[i]);
    }
    mem_free(cores->items);
    *cores = (struct cores){ .items = NULL };
}

size_t cores_count(const struct cores *cores, hwloc_const_cpuset_t part)
{
    size_t count = 0;

    for (size_t i = 0; i < cores->count; i++) {
        count += hwloc_bitmap_intersects(cores->items[i], part) ? 1 : 0;
    }
    return count;
}

tutti_status cores_share(const struct cores *cores, hwloc_const_cpuset_t part,
        int index, int count, hwloc_bitmap_t share)
{
    int64_t all = (int64_t)cores_count(cores, part);
    bool is_shared = all < count;
    int64_t first = is_shared ? 0 : index * all / count;
    int64_t end = is_shared ? all : (index + 1) * all / count;
    int64_t k = 0;

    hwloc_bitmap_zero(share);
    for (size_t i = 0; i < cores->count; i++) {
        if (!hwloc_bitmap_intersects(cores->items[i], part)) {
            continue;
        }
        if (k >= first && k < end &&
                hwloc_bitmap_or(share, share, cores->items[i]) != 0) {
            return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a set of cores");
        }
        k++;
    }
    return TUTTI_OK;
}
