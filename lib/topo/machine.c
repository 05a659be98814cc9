/*
 * Facts about this machine, from hwloc, whose own environment variables (HWLOC_XMLFILE,
 * HWLOC_SYNTHETIC) let tests put any other machine in its place.
 */
#include "topo/machine.h"

#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/mem.h"

enum {
    L2_BYTES_UNKNOWN = 1 << 20,
    HOST_NAME_TEXT_MAX = 65 /* HOST_NAME_MAX of Linux and the terminating zero */
};

/* A loaded topology and what this process may use of it. */
struct topology {
    hwloc_topology_t handle;
    hwloc_cpuset_t allowed; /* hardware threads; owned */
};

static void topology_close(struct topology *topology)
{
    hwloc_bitmap_free(topology->allowed);
    hwloc_topology_destroy(topology->handle);
}

static tutti_status topology_open(struct topology *topology)
{
    struct topology opened = { .allowed = NULL };

    if (hwloc_topology_init(&opened.handle) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "hwloc_topology_init");
    }
    if (hwloc_topology_load(opened.handle) != 0) {
        (void)error_set_errno(TUTTI_ERR_SYSTEM, "hwloc_topology_load");
        goto err_close;
    }
    opened.allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(opened.handle));
    if (opened.allowed == NULL) {
        (void)error_set(TUTTI_ERR_SYSTEM, "hwloc_bitmap_dup: out of memory");
        goto err_close;
    }
    *topology = opened;
    return TUTTI_OK;

err_close:
    topology_close(&opened);
    return TUTTI_ERR_SYSTEM;
}

/* Narrows the allowed set to the binding of this process, where that can be known. */
static void topology_apply_binding(struct topology *topology)
{
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();

    if (bound == NULL) {
        return;
    }
    if (hwloc_get_cpubind(topology->handle, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
            hwloc_bitmap_intersects(bound, topology->allowed) != 0) {
        (void)hwloc_bitmap_and(topology->allowed, topology->allowed, bound);
    }
    hwloc_bitmap_free(bound);
}

/* What counts as a core: hardware threads where the machine tells of no cores. */
static hwloc_obj_type_t core_type(const struct topology *topology)
{
    return hwloc_get_nbobjs_by_type(topology->handle, HWLOC_OBJ_CORE) > 0
            ? HWLOC_OBJ_CORE
            : HWLOC_OBJ_PU;
}

/* The next core after `core` (NULL: the first) with an allowed hardware thread. */
static hwloc_obj_t next_core(const struct topology *topology, hwloc_obj_t core)
{
    do {
        core = hwloc_get_next_obj_by_type(topology->handle, core_type(topology), core);
    } while (core != NULL && !hwloc_bitmap_intersects(core->cpuset, topology->allowed));
    return core;
}

static int count_cores(const struct topology *topology)
{
    hwloc_obj_t core = next_core(topology, NULL);
    int count = 0;

    while (core != NULL) {
        count++;
        core = next_core(topology, core);
    }
    return count;
}

/* A core's part of its level 2 cache, which some machines share; 0: unknown. */
static size_t core_l2_bytes(const struct topology *topology, hwloc_obj_t core)
{
    hwloc_obj_t cache =
            hwloc_get_ancestor_obj_by_type(topology->handle, HWLOC_OBJ_L2CACHE, core);
    int sharers;

    if (cache == NULL) {
        return 0;
    }
    sharers = hwloc_get_nbobjs_inside_cpuset_by_type(
            topology->handle, cache->cpuset, core_type(topology));
    return (size_t)cache->attr->cache.size / (sharers > 1 ? (size_t)sharers : 1);
}

/* The smallest over the allowed cores, which need not be alike. */
static size_t least_l2_bytes(const struct topology *topology)
{
    hwloc_obj_t core;
    size_t least = SIZE_MAX;

    for (core = next_core(topology, NULL); core != NULL;
            core = next_core(topology, core)) {
        size_t bytes = core_l2_bytes(topology, core);

        if (bytes > 0) {
            least = size_min(least, bytes);
        }
    }
    return least == SIZE_MAX ? L2_BYTES_UNKNOWN : least;
}

static size_t largest_l3_bytes(const struct topology *topology)
{
    hwloc_obj_t cache = NULL;
    size_t largest = 0;

    for (;;) {
        cache = hwloc_get_next_obj_by_type(topology->handle, HWLOC_OBJ_L3CACHE, cache);
        if (cache == NULL) {
            return largest;
        }
        if (hwloc_bitmap_intersects(cache->cpuset, topology->allowed)) {
            largest = size_max(largest, (size_t)cache->attr->cache.size);
        }
    }
}

/* The object of a type that holds all allowed hardware threads, or NULL. */
static hwloc_obj_t holder_of(const struct topology *topology, hwloc_obj_type_t type)
{
    hwloc_obj_t object = hwloc_get_next_obj_by_type(topology->handle, type, NULL);

    while (object != NULL &&
            !hwloc_bitmap_isincluded(topology->allowed, object->cpuset)) {
        object = hwloc_get_next_obj_by_type(topology->handle, type, object);
    }
    return object;
}

static void name_cache(const struct topology *topology, char *text, size_t capacity)
{
    const bool has_caches =
            hwloc_get_nbobjs_by_type(topology->handle, HWLOC_OBJ_L3CACHE) > 0;
    hwloc_obj_t object =
            holder_of(topology, has_caches ? HWLOC_OBJ_L3CACHE : HWLOC_OBJ_PACKAGE);

    text[0] = '\0';
    if (object != NULL) {
        /* Its first thread: logical indices depend on what a process may see. */
        (void)snprintf(text, capacity, "%s of thread %d", has_caches ? "L3" : "package",
                hwloc_bitmap_first(object->complete_cpuset));
    }
}

static void name_cpu(const struct topology *topology, char *text, size_t capacity)
{
    hwloc_obj_t package =
            hwloc_get_next_obj_by_type(topology->handle, HWLOC_OBJ_PACKAGE, NULL);
    const char *model =
            package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

    (void)snprintf(text, capacity, "%s", model != NULL ? model : "");
}

tutti_status machine_read(struct machine *machine)
{
    struct topology topology = { .allowed = NULL };
    tutti_status status = topology_open(&topology);
    int cores;

    if (status != TUTTI_OK) {
        return status;
    }
    topology_apply_binding(&topology);
    cores = count_cores(&topology);
    *machine = (struct machine){
        .cores = cores > 0 ? cores : 1,
        .l2_bytes = least_l2_bytes(&topology),
        .l3_bytes = largest_l3_bytes(&topology),
    };
    name_cache(&topology, machine->cache, sizeof machine->cache);
    name_cpu(&topology, machine->cpu, sizeof machine->cpu);
    topology_close(&topology);
    return TUTTI_OK;
}

void machine_identity(char *text, size_t capacity)
{
    char boot_id[48] = "";
    char host[HOST_NAME_TEXT_MAX];

    (void)kernel_file_read("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
    boot_id[strcspn(boot_id, "\n")] = '\0';
    if (gethostname(host, sizeof host) != 0) {
        host[0] = '\0';
    }
    host[sizeof host - 1] = '\0';
    (void)snprintf(text, capacity, "%s %s", boot_id, host);
}
