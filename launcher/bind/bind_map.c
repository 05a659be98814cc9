/*
 * Words and drawing. Cpus are numbered as the operating system does, which is what
 * taskset, numactl and htop show.
 */
#include "launcher/bind/bind_map.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/bind/here.h"
#include "launcher/program.h"
#include "launcher/signals.h"

enum {
    SET_TEXT_MAX = 256, /* bytes of a list of cpus with its zero */
    RANK_TEXT_MAX = 512 /* bytes of a rank's line with its zero  */
};

static const char *list_of(hwloc_const_bitmap_t set, char text[SET_TEXT_MAX])
{
    (void)hwloc_bitmap_list_snprintf(text, SET_TEXT_MAX, set);
    return text;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void add_cores(char *text, size_t capacity, const struct bind_place *place)
{
    char cpus[SET_TEXT_MAX];
    char memory[SET_TEXT_MAX];

    if (!place->is_bound) {
        text_append(text, capacity, "not bound: %d rank%s, %d core%s", place->sharers,
                plural(place->sharers), place->cores, plural(place->cores));
        return;
    }
    text_append(text, capacity, "%d core%s", place->cores, plural(place->cores));
    if (place->sharers > 1) {
        text_append(text, capacity, " shared by %d ranks", place->sharers);
    }
    text_append(text, capacity, " (cpus %s)", list_of(place->cpus, cpus));
    if (!hwloc_bitmap_iszero(place->memory)) {
        text_append(text, capacity, ", memory of node%s %s",
                plural(hwloc_bitmap_weight(place->memory)),
                list_of(place->memory, memory));
    }
}

static int count_device(const struct bind_plan *plan, int device)
{
    int count = 0;

    for (int rank = 0; rank < plan->count; rank++) {
        count += plan->places[rank].device == device ? 1 : 0;
    }
    return count;
}

static void add_device(char *text, size_t capacity, const struct bind_plan *plan,
        const struct bind_machine *machine, int rank)
{
    const struct bind_place *place = &plan->places[rank];
    const struct gpu *gpu = bind_plan_gpu(plan, machine, rank);
    int ranks;

    if (place->device < 0) {
        return;
    }
    ranks = count_device(plan, place->device);
    text_append(text, capacity, ", GPU %s", plan->visible.items[place->device].name);
    if (gpu != NULL) {
        text_append(text, capacity, " (%s)", gpu->bus);
    }
    if (ranks > 1) {
        text_append(text, capacity, " shared by %d ranks", ranks);
    }
    if (place->is_far) {
        text_append(text, capacity, "; none of the cores near it may be used");
    } else if (gpu == NULL || gpu->near == NULL) {
        text_append(text, capacity, "; which cores are near it is not known");
    }
}

void map_describe(const struct bind_plan *plan, const struct bind_machine *machine,
        int rank, char *text, size_t capacity)
{
    text[0] = '\0';
    add_cores(text, capacity, &plan->places[rank]);
    add_device(text, capacity, plan, machine, rank);
}

static int count_ranks(const struct bind_plan *plan, hwloc_const_bitmap_t core)
{
    int count = 0;

    for (int rank = 0; rank < plan->count; rank++) {
        count += hwloc_bitmap_intersects(plan->places[rank].cpus, core) ? 1 : 0;
    }
    return count;
}

/* The rank that has a core, as a character. */
static char mark_of(const struct bind_plan *plan, hwloc_const_bitmap_t core)
{
    static const char marks[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    int count = count_ranks(plan, core);
    int rank = 0;

    if (count != 1) {
        return count == 0 ? '.' : '*';
    }
    while (!hwloc_bitmap_intersects(plan->places[rank].cpus, core)) {
        rank++;
    }
    return marks[(size_t)rank % (sizeof marks - 1)];
}

static void draw_cores(
        const struct bind_plan *plan, hwloc_const_bitmap_t node, FILE *file)
{
    (void)fprintf(file, "  cores |");
    for (size_t i = 0; i < plan->cores.count; i++) {
        if (hwloc_bitmap_intersects(plan->cores.items[i], node)) {
            (void)fputc(mark_of(plan, plan->cores.items[i]), file);
        }
    }
    (void)fprintf(file, "|\n");
}

static bool is_at(const struct gpu *gpu, hwloc_const_bitmap_t node)
{
    return node == NULL ? gpu->near == NULL
                        : gpu->near != NULL && hwloc_bitmap_intersects(gpu->near, node);
}

/* GPUs near some cpus; of NULL: those of which that is not known. */
static void draw_gpus(
        const struct bind_machine *machine, hwloc_const_bitmap_t node, FILE *file)
{
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct gpu *gpu = &machine->gpus.items[i];

        if (is_at(gpu, node)) {
            (void)fprintf(file, "  GPU %zu  %s%s%s\n", i, gpu->bus,
                    gpu->uuid[0] == '\0' ? "" : "  ", gpu->uuid);
        }
    }
}

/* Ranks whose first cpu is in the node. */
static void draw_ranks(const struct bind_plan *plan, const struct bind_machine *machine,
        hwloc_const_bitmap_t node, FILE *file)
{
    char text[RANK_TEXT_MAX];

    for (int rank = 0; rank < plan->count; rank++) {
        int first = hwloc_bitmap_first(plan->places[rank].cpus);

        if (first >= 0 && hwloc_bitmap_isset(node, (unsigned)first)) {
            map_describe(plan, machine, rank, text, sizeof text);
            (void)fprintf(file, "  rank %d: %s\n", rank, text);
        }
    }
}

static void draw_node(const struct bind_plan *plan, const struct bind_machine *machine,
        hwloc_obj_t node, FILE *file)
{
    char cpus[SET_TEXT_MAX];

    (void)fprintf(
            file, "\nnode %u: cpus %s\n", node->os_index, list_of(node->cpuset, cpus));
    draw_cores(plan, node->cpuset, file);
    draw_gpus(machine, node->cpuset, file);
    draw_ranks(plan, machine, node->cpuset, file);
}

/* Memory without cpus of its own, of a GPU for example: near those of another node. */
static bool is_of_another(hwloc_topology_t topology, hwloc_obj_t node)
{
    hwloc_obj_t before = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, NULL);

    while (before != node && !hwloc_bitmap_intersects(before->cpuset, node->cpuset)) {
        before = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, before);
    }
    return before != node;
}

static bool has_unplaced(const struct gpus *gpus)
{
    bool found = false;

    for (size_t i = 0; i < gpus->count; i++) {
        found = found || gpus->items[i].near == NULL;
    }
    return found;
}

void map_draw(
        const struct bind_plan *plan, const struct bind_machine *machine, FILE *file)
{
    hwloc_obj_t node = NULL;
    int nodes = hwloc_get_nbobjs_by_type(machine->topology, HWLOC_OBJ_NUMANODE);
    int cores = (int)plan->cores.count;
    int gpus = (int)machine->gpus.count;

    (void)fprintf(file,
            "%d rank%s of this host on %d core%s in %d NUMA node%s with %d GPU%s\n",
            plan->count, plural(plan->count), cores, plural(cores), nodes,
            plural(nodes), gpus, plural(gpus));
    for (;;) {
        node = hwloc_get_next_obj_by_type(machine->topology, HWLOC_OBJ_NUMANODE, node);
        if (node == NULL) {
            break;
        }
        if (!is_of_another(machine->topology, node)) {
            draw_node(plan, machine, node, file);
        }
    }
    if (has_unplaced(&machine->gpus)) {
        (void)fprintf(file, "\nnear no particular node, for all that is known:\n");
        draw_gpus(machine, NULL, file);
    }
    (void)fprintf(file,
            "\nEach character between | | is a core: the rank that has it (0-9, a-z, "
            "and again), * several ranks, . none\n");
}

/* ---------------------------------------------------------- --show-binding */

enum {
    LINE_MAX_BYTES = 512
};

/* How many ranks this host would have. */
static int ranks_here(const struct options *options, const struct visible *visible)
{
    const struct host_list *hosts = &options->hosts;

    if (hosts->count > 0) {
        int slots = hosts->hosts[0].slots;

        return options->np > 0 && options->np < slots ? options->np : slots;
    }
    if (options->np > 0) {
        return options->np;
    }
    return visible->count > 0 ? (int)visible->count : 1;
}

static tutti_status find_lstopo(char *const *environment, char file[PATH_MAX])
{
    static const char *const names[] = { "lstopo-no-graphics", "lstopo" };
    const char *path = environment_get(environment, "PATH");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (program_find(names[i], path, file, PATH_MAX) == TUTTI_OK) {
            return TUTTI_OK;
        }
    }
    return error_set(TUTTI_ERR_INVALID,
            "--show-binding=svg: hwloc's lstopo, which draws it, is not in PATH; "
            "install hwloc (Debian: hwloc-nox), or take --show-binding without svg");
}

/* Becomes lstopo. */
static tutti_status draw_svg(const struct bind_plan *plan, const struct here *here,
        const char *form, char *const *environment)
{
    struct arguments command = { .items = NULL };
    char file[PATH_MAX];
    tutti_status status = find_lstopo(environment, file);

    if (status != TUTTI_OK) {
        return status;
    }
    arguments_add(&command, file);
    arguments_add(&command, "--force");
    arguments_add(&command, "--no-default-legend");
    for (int rank = 0; rank < plan->count; rank++) {
        char text[LINE_MAX_BYTES];

        map_describe(plan, &here->machine, rank, text, sizeof text);
        arguments_add(&command, "--append-legend");
        arguments_add_format(&command, "rank %d: %s", rank, text);
    }
    arguments_add(&command, "--of");
    arguments_add(&command, "svg");
    arguments_add(&command, strcmp(form, "svg") == 0 ? "-" : form);
    status = arguments_status(&command);
    if (status == TUTTI_OK) {
        signals_restore();
        (void)execve(file, command.items, environment);
        status = error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", file);
    }
    arguments_fini(&command);
    return status;
}

tutti_status bind_show(const struct options *options, char *const *environment)
{
    struct bind_plan plan = { .places = NULL };
    struct visible visible;
    struct here here;
    tutti_status status = here_open(&here, environment);

    if (status != TUTTI_OK) {
        return status;
    }
    status = visible_read(&visible, &here.machine.gpus, environment);
    if (status == TUTTI_OK) {
        status = bind_plan_init(
                &plan, &here.machine, ranks_here(options, &visible), environment);
    }
    if (status == TUTTI_OK && strcmp(options->show_binding, "text") != 0) {
        status = draw_svg(&plan, &here, options->show_binding, environment);
    } else if (status == TUTTI_OK) {
        map_draw(&plan, &here.machine, stdout);
    }
    bind_plan_fini(&plan);
    here_close(&here);
    return status;
}
