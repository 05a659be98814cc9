/*
 * Binding a rank: reads the host, makes the plan, takes the rank's place and tells the
 * program by variables. Binding is for speed: where it is impossible the rank runs as it
 * is and the words say why.
 */
#include "launcher/bind/bind.h"

#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/bind/bind_map.h"
#include "launcher/bind/here.h"

enum {
    CPUS_MAX = 1 << 16 /* no kernel is made for more */
};

static const char *value_of(const struct arguments *environment, const char *name)
{
    return environment->items == NULL ? NULL
                                      : environment_get(environment->items, name);
}

static bool has_value(const struct arguments *environment, const char *name)
{
    const char *value = value_of(environment, name);

    return value != NULL && value[0] != '\0';
}

/* Slurm bound each task on its own; an mpirun in between says who is local itself. */
static bool is_bound_by_slurm(const struct arguments *environment)
{
    const char *type = value_of(environment, "SLURM_CPU_BIND_TYPE");

    return type != NULL && type[0] != '\0' && strcmp(type, "none") != 0 &&
            value_of(environment, "OMPI_COMM_WORLD_LOCAL_RANK") == NULL &&
            value_of(environment, "MPI_LOCALRANKID") == NULL;
}

static void set_number(struct arguments *environment, const char *name, int value)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%d", value);
    arguments_set(environment, name, text);
}

/* Tells the program which GPU is its own, and shows it no other with one_gpu. */
static void export_device(const struct bind_request *request,
        const struct bind_plan *plan, enum gpu_vendor vendor,
        struct arguments *environment)
{
    int device = plan->places[request->index].device;

    if (device < 0) {
        return;
    }
    /* CUDA's own order is "fastest first": on a host of unlike GPUs its numbers would
       not be those of the plan. */
    if (vendor == GPU_NVIDIA && !has_value(environment, "CUDA_DEVICE_ORDER")) {
        arguments_set(environment, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if (request->one_gpu) {
        arguments_set(
                environment, plan->visible.variable, plan->visible.items[device].name);
        device = 0;
    }
    set_number(environment, BIND_DEVICE_VARIABLE, device);
}

/* Sets how many threads OpenMP and BLAS libraries start, or says that there are many. */
static void export_threads(const struct bind_place *place,
        struct arguments *environment, char text[BIND_TEXT_MAX])
{
    static const char name[] = "OMP_NUM_THREADS";
    int cpus = hwloc_bitmap_weight(place->cpus);
    int64_t wanted;

    if (!has_value(environment, name)) {
        set_number(environment, name, place->threads);
    } else if (place->is_bound && cpus > 0 &&
            text_to_int64(value_of(environment, name), &wanted) && wanted > cpus) {
        text_append(text, BIND_TEXT_MAX, "; %s=%lld, but it has %d cpu%s", name,
                (long long)wanted, cpus, cpus == 1 ? "" : "s");
    }
}

/* The rank's place where tuttirun binds nothing: what it has already. */
static void keep(
        struct bind_place *place, const struct here *here, const struct bind_plan *plan)
{
    (void)hwloc_bitmap_copy(place->cpus, here->allowed);
    place->cores = (int)plan->cores.count;
    place->threads = place->cores > 0 ? place->cores : 1;
}

static void describe_kept(const struct here *here, const char *why,
        const struct bind_plan *plan, int rank, char text[BIND_TEXT_MAX])
{
    const struct gpu *gpu = bind_plan_gpu(plan, &here->machine, rank);
    int device = plan->places[rank].device;
    char cpus[128];

    (void)hwloc_bitmap_list_snprintf(cpus, sizeof cpus, here->allowed);
    (void)snprintf(text, BIND_TEXT_MAX, "%s: cpus %s", why, cpus);
    if (device >= 0) {
        text_append(text, BIND_TEXT_MAX, ", GPU %s", plan->visible.items[device].name);
    }
    if (gpu != NULL) {
        text_append(text, BIND_TEXT_MAX, " at %s", gpu->bus);
    }
}

static void bind_place(const struct here *here, const struct bind_plan *plan, int rank,
        struct arguments *environment, char text[BIND_TEXT_MAX])
{
    struct bind_place *place = &plan->places[rank];
    bool has_memory;

    if (here_bind(here, place, &has_memory) != TUTTI_OK) {
        (void)snprintf(text, BIND_TEXT_MAX, "not bound: %s", tutti_last_error());
        keep(place, here, plan);
    } else {
        map_describe(plan, &here->machine, rank, text, BIND_TEXT_MAX);
        text_append(text, BIND_TEXT_MAX, "%s%s",
                has_memory ? "" : "; the system refuses to bind memory",
                here->is_real ? "" : "; of another machine, so nothing is bound");
    }
    export_threads(place, environment, text);
}

static void take_place(const struct bind_request *request, const struct here *here,
        struct bind_plan *plan, struct arguments *environment, char text[BIND_TEXT_MAX])
{
    if (request->how != BIND_AUTO) {
        describe_kept(here,
                request->how == BIND_MPI ? "left to mpirun" : "not bound, as asked",
                plan, request->index, text);
    } else if (is_bound_by_slurm(environment)) {
        describe_kept(here, "bound by Slurm", plan, request->index, text);
        keep(&plan->places[request->index], here, plan);
        export_threads(&plan->places[request->index], environment, text);
    } else {
        bind_place(here, plan, request->index, environment, text);
    }
    export_device(request, plan, here->machine.gpus.vendor, environment);
}

void bind_release(void)
{
    static unsigned char every_cpu[CPUS_MAX / CHAR_BIT];

    memset(every_cpu, UCHAR_MAX, sizeof every_cpu);
    /* The kernel takes those that are there and that the cgroup has. */
    (void)syscall(SYS_sched_setaffinity, 0, sizeof every_cpu, every_cpu);
    (void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

tutti_status bind_rank(const struct bind_request *request,
        struct arguments *environment, char text[BIND_TEXT_MAX])
{
    static char *const none[] = { NULL };
    char *const *variables = environment->items == NULL ? none : environment->items;
    struct bind_plan plan = { .places = NULL };
    struct here here;
    tutti_status status;

    if (request->index < 0 || request->index >= request->count) {
        return error_set(TUTTI_ERR_INVALID,
                "there is no local rank %d of %d: it is 0 to the number of ranks less "
                "1",
                request->index, request->count);
    }
    if (here_open(&here, variables) != TUTTI_OK) {
        (void)snprintf(text, BIND_TEXT_MAX, "not bound: %s", tutti_last_error());
        return TUTTI_OK;
    }
    status = bind_plan_init(&plan, &here.machine, request->count, variables);
    if (status == TUTTI_OK) {
        take_place(request, &here, &plan, environment, text);
        status = arguments_status(environment);
    }
    bind_plan_fini(&plan);
    here_close(&here);
    return status;
}
