/*
 * The plan. Each rank has a home: the allowed cpus near its GPU, or all that are allowed
 * where there is no GPU, where the machine does not say what is near, or where none of
 * the near ones are allowed. Homes that overlap are joined to parts, and each part is
 * divided evenly among its ranks:
 *
 *     GPU 0 1 2 3 -> node 0 -> part 0 -> ranks 0 1 2 3: a quarter each
 *     GPU 4 5 6 7 -> node 1 -> part 1 -> ranks 4 5 6 7
 *
 * Every rank makes the whole plan by itself and takes its place; nothing is asked of
 * anybody.
 */
#include "launcher/bind/bind_plan.h"

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

tutti_status cores_init(
        struct cores *cores, hwloc_topology_t topology, hwloc_const_cpuset_t allowed)
{
    const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;

    *cores = (struct cores){ .items = NULL };
    if (!add_objects(
                cores, topology, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU, allowed)) {
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

static tutti_status no_memory(void)
{
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a plan of the host");
}

/* GPUs whose place is not known are near what any GPU of the host is near. */
static hwloc_const_cpuset_t near_of_all(const struct gpus *gpus, hwloc_bitmap_t set)
{
    hwloc_bitmap_zero(set);
    for (size_t i = 0; i < gpus->count; i++) {
        if (gpus->items[i].near == NULL ||
                hwloc_bitmap_or(set, set, gpus->items[i].near) != 0) {
            return NULL;
        }
    }
    return gpus->count > 0 ? set : NULL;
}

/* Writes where a rank wants to be, within what is allowed. False: out of memory. */
static bool find_home(const struct bind_machine *machine, const struct bind_plan *plan,
        struct bind_place *place, hwloc_bitmap_t home)
{
    hwloc_const_cpuset_t near = NULL;

    if (place->device >= 0) {
        int gpu = plan->visible.items[place->device].gpu;

        near = gpu >= 0 ? machine->gpus.items[gpu].near
                        : near_of_all(&machine->gpus, home);
    }
    if (near == NULL) {
        return hwloc_bitmap_copy(home, machine->allowed) == 0;
    }
    place->is_far = !hwloc_bitmap_intersects(near, machine->allowed);
    return place->is_far ? hwloc_bitmap_copy(home, machine->allowed) == 0
                         : hwloc_bitmap_and(home, near, machine->allowed) == 0;
}

/* Adds a home to the parts, joined with all that it overlaps. */
static bool add_home(struct bind_plan *plan, hwloc_const_bitmap_t home)
{
    hwloc_bitmap_t joined = hwloc_bitmap_dup(home);
    bool ok = joined != NULL;
    int kept = 0;

    /* No part overlaps another, so joining one does not make the home meet a third. */
    for (int i = 0; ok && i < plan->part_count; i++) {
        ok = !hwloc_bitmap_intersects(plan->parts[i], home) ||
                hwloc_bitmap_or(joined, joined, plan->parts[i]) == 0;
    }
    if (!ok) {
        hwloc_bitmap_free(joined);
        return false;
    }
    for (int i = 0; i < plan->part_count; i++) {
        if (hwloc_bitmap_intersects(plan->parts[i], joined)) {
            hwloc_bitmap_free(plan->parts[i]);
        } else {
            plan->parts[kept++] = plan->parts[i];
        }
    }
    plan->parts[kept++] = joined;
    plan->part_count = kept;
    return true;
}

/* Homes of all ranks (in their `cpus`), and the parts that they make. */
static bool make_parts(const struct bind_machine *machine, struct bind_plan *plan)
{
    for (int rank = 0; rank < plan->count; rank++) {
        struct bind_place *place = &plan->places[rank];
        size_t devices = plan->visible.count;

        place->device = devices == 0 ? -1 : (int)((size_t)rank % devices);
        place->cpus = hwloc_bitmap_alloc();
        place->memory = hwloc_bitmap_alloc();
        if (place->cpus == NULL || place->memory == NULL ||
                !find_home(machine, plan, place, place->cpus) ||
                !add_home(plan, place->cpus)) {
            return false;
        }
    }
    return true;
}

static int part_of(const struct bind_plan *plan, hwloc_const_bitmap_t home)
{
    int part = 0;

    while (part < plan->part_count - 1 &&
            !hwloc_bitmap_intersects(plan->parts[part], home)) {
        part++;
    }
    return part;
}

/* Shares are dealt from the lowest cpu on: who has his home there, and no other, first. */
static bool is_before(const struct bind_place *a, const struct bind_place *b)
{
    if (a->home_first != b->home_first) {
        return a->home_first < b->home_first;
    }
    if (a->home_weight != b->home_weight) {
        return a->home_weight < b->home_weight;
    }
    return a < b;
}

/* Which share of its part a rank gets, and of how many. */
static int share_of(const struct bind_plan *plan, int rank, int *sharers)
{
    const struct bind_place *place = &plan->places[rank];
    int index = 0;

    *sharers = 0;
    for (int i = 0; i < plan->count; i++) {
        const struct bind_place *other = &plan->places[i];

        if (other->part == place->part) {
            *sharers += 1;
            index += is_before(other, place) ? 1 : 0;
        }
    }
    return index;
}

/*
 * The nodes of some cpus. A node without cpus of its own (memory of a GPU, of another
 * kind) is described as near the cpus of another; the first of such nodes is the one that
 * Linux takes memory from by default.
 */
static bool find_memory(
        hwloc_topology_t topology, hwloc_const_cpuset_t cpus, hwloc_bitmap_t memory)
{
    hwloc_obj_t node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, NULL);
    hwloc_bitmap_t left = hwloc_bitmap_dup(cpus);
    bool ok = left != NULL;

    hwloc_bitmap_zero(memory);
    for (; ok && node != NULL;
            node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) {
        if (hwloc_bitmap_intersects(node->cpuset, left)) {
            ok = hwloc_bitmap_set(memory, node->os_index) == 0 &&
                    hwloc_bitmap_andnot(left, left, node->cpuset) == 0;
        }
    }
    hwloc_bitmap_free(left);
    return ok;
}

/* With a limit of CPU time, more threads than it allows would only wait for each other. */
static int limit_threads(int threads, const struct bind_machine *machine, int count)
{
    int limit = machine->quota / count;

    if (machine->quota > 0 && threads > limit) {
        threads = limit;
    }
    return threads > 0 ? threads : 1;
}

/* Gives a rank its share of its part: the index-th of `sharers`. */
static tutti_status settle(const struct bind_machine *machine, struct bind_plan *plan,
        struct bind_place *place, int index, int sharers)
{
    hwloc_const_bitmap_t part = plan->parts[place->part];
    int all = (int)cores_count(&plan->cores, part);
    tutti_status status = cores_share(&plan->cores, part, index, sharers, place->cpus);

    if (status != TUTTI_OK) {
        return status;
    }
    if (!find_memory(machine->topology, place->cpus, place->memory)) {
        return no_memory();
    }
    place->sharers = all < sharers ? sharers : 1;
    place->cores = (int)cores_count(&plan->cores, place->cpus);
    place->threads = limit_threads(place->cores / place->sharers, machine, plan->count);
    place->is_bound = all > 0 &&
            (place->sharers == 1 || !hwloc_bitmap_isequal(part, machine->allowed));
    return TUTTI_OK;
}

static tutti_status divide(const struct bind_machine *machine, struct bind_plan *plan)
{
    tutti_status status = TUTTI_OK;

    for (int rank = 0; rank < plan->count; rank++) {
        struct bind_place *place = &plan->places[rank];

        place->part = part_of(plan, place->cpus);
        place->home_first = hwloc_bitmap_first(place->cpus);
        place->home_weight = hwloc_bitmap_weight(place->cpus);
    }
    for (int rank = 0; status == TUTTI_OK && rank < plan->count; rank++) {
        int sharers;
        int index = share_of(plan, rank, &sharers);

        status = settle(machine, plan, &plan->places[rank], index, sharers);
    }
    return status;
}

tutti_status bind_plan_init(struct bind_plan *plan, const struct bind_machine *machine,
        int count, char *const *environment)
{
    tutti_status status;

    *plan = (struct bind_plan){ .count = count };
    status = visible_read(&plan->visible, &machine->gpus, environment);
    if (status != TUTTI_OK) {
        return status;
    }
    plan->places = mem_calloc((size_t)count, sizeof *plan->places);
    plan->parts = mem_calloc((size_t)count, sizeof(hwloc_bitmap_t));
    if (plan->places == NULL || plan->parts == NULL) {
        status = no_memory();
        goto err_fini;
    }
    status = cores_init(&plan->cores, machine->topology, machine->allowed);
    if (status != TUTTI_OK) {
        goto err_fini;
    }
    if (!make_parts(machine, plan)) {
        status = no_memory();
        goto err_fini;
    }
    status = divide(machine, plan);
    if (status != TUTTI_OK) {
        goto err_fini;
    }
    return TUTTI_OK;

err_fini:
    bind_plan_fini(plan);
    return status;
}

void bind_plan_fini(struct bind_plan *plan)
{
    for (int rank = 0; plan->places != NULL && rank < plan->count; rank++) {
        hwloc_bitmap_free(plan->places[rank].cpus);
        hwloc_bitmap_free(plan->places[rank].memory);
    }
    for (int part = 0; plan->parts != NULL && part < plan->part_count; part++) {
        hwloc_bitmap_free(plan->parts[part]);
    }
    mem_free(plan->places);
    mem_free(plan->parts);
    cores_fini(&plan->cores);
    *plan = (struct bind_plan){ .places = NULL };
}

const struct gpu *bind_plan_gpu(
        const struct bind_plan *plan, const struct bind_machine *machine, int rank)
{
    int device = plan->places[rank].device;
    int gpu = device < 0 ? -1 : plan->visible.items[device].gpu;

    return gpu < 0 ? NULL : &machine->gpus.items[gpu];
}
