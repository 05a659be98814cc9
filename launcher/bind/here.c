#include "launcher/bind/here.h"

#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/mem.h"
#include "launcher/arguments.h"
#include "launcher/bind/pci.h"

static const char devices_folder[] = "/sys/bus/pci/devices";
static const char driver_folder[] = "/proc/driver/nvidia/gpus";

/*
 * Devices are wanted from the PCI bus alone. The others load the libraries of their
 * vendors and talk to displays, which takes longer than all the rest.
 */
static void leave_out_slow_parts(hwloc_topology_t topology)
{
    static const char *const names[] = { "opencl", "gl", "cuda", "nvml", "rsmi",
        "levelzero" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)hwloc_topology_set_components(
                topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, names[i]);
    }
}

/* Another machine is put in the place of this one. */
static bool is_replaced(char *const *environment)
{
    return environment_get(environment, "HWLOC_XMLFILE") != NULL ||
            environment_get(environment, "HWLOC_SYNTHETIC") != NULL;
}

/*
 * Where hwloc has plugins it loads all of them, with a parser of XML and the libraries of
 * displays behind them, before it can be told what to leave out: half of the time that a
 * rank takes to start. It asks only a variable, which is ours for that moment; what was
 * handed to us as the environment does not change.
 */
static int init_topology(hwloc_topology_t *topology, char *const *environment)
{
    static char variable[] =
            "HWLOC_PLUGINS_BLACKLIST=hwloc_xml_libxml,hwloc_gl,hwloc_opencl,hwloc_cuda,"
            "hwloc_nvml,hwloc_rsmi,hwloc_levelzero";
    char **before = environ;
    char **list = NULL;
    size_t count = 0;
    int result;

    if (!is_replaced(environment) &&
            environment_get(environment, "HWLOC_PLUGINS_BLACKLIST") == NULL) {
        while (before[count] != NULL) {
            count++;
        }
        list = mem_calloc(count + 2, sizeof *list);
    }
    if (list != NULL) {
        memcpy(list, before, count * sizeof *list);
        list[count] = variable;
        environ = list;
    }
    result = hwloc_topology_init(topology);
    environ = before;
    mem_free(list);
    return result;
}

static tutti_status load(hwloc_topology_t topology, char *const *environment)
{
    const char *file = environment_get(environment, "HWLOC_XMLFILE");
    const char *text = environment_get(environment, "HWLOC_SYNTHETIC");

    /* hwloc would pass over what it cannot read, without a word. */
    if (file != NULL && hwloc_topology_set_xml(topology, file) != 0) {
        return error_set(TUTTI_ERR_SYSTEM, "hwloc cannot read HWLOC_XMLFILE=%s", file);
    }
    if (file == NULL && text != NULL &&
            hwloc_topology_set_synthetic(topology, text) != 0) {
        return error_set(
                TUTTI_ERR_SYSTEM, "hwloc cannot read HWLOC_SYNTHETIC=%s", text);
    }
    leave_out_slow_parts(topology);
    /* Without this, hwloc leaves out all devices, of recorded machines as well. */
    if (is_replaced(environment) || pci_may_have_gpu(devices_folder)) {
        (void)hwloc_topology_set_io_types_filter(
                topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    if (hwloc_topology_load(topology) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "hwloc cannot read this host");
    }
    return TUTTI_OK;
}

/* What a parent bound this process to stays a limit. */
static tutti_status find_allowed(struct here *here)
{
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();

    here->allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(here->topology));
    if (bound == NULL || here->allowed == NULL) {
        hwloc_bitmap_free(bound);
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for a set of cpus");
    }
    if (here->is_real &&
            hwloc_get_cpubind(here->topology, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
            hwloc_bitmap_intersects(bound, here->allowed)) {
        (void)hwloc_bitmap_and(here->allowed, here->allowed, bound);
    }
    hwloc_bitmap_free(bound);
    return TUTTI_OK;
}

static int read_quota(const struct here *here)
{
    int cores = cpu_allowed_count();

    return here->is_real && cores < hwloc_bitmap_weight(here->allowed) ? cores : 0;
}

tutti_status here_open(struct here *here, char *const *environment)
{
    tutti_status status;

    *here = (struct here){ .is_real = false };
    if (init_topology(&here->topology, environment) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "hwloc_topology_init");
    }
    status = load(here->topology, environment);
    if (status == TUTTI_OK) {
        here->is_real = hwloc_topology_is_thissystem(here->topology) != 0;
        status = find_allowed(here);
    }
    if (status != TUTTI_OK) {
        here_close(here);
        return status;
    }
    here->machine.topology = here->topology;
    here->machine.allowed = here->allowed;
    here->machine.quota = read_quota(here);
    gpus_find(&here->machine.gpus, here->topology);
    if (here->is_real) {
        gpus_read_driver(&here->machine.gpus, driver_folder);
    }
    return TUTTI_OK;
}

void here_close(struct here *here)
{
    hwloc_bitmap_free(here->allowed);
    hwloc_topology_destroy(here->topology);
    *here = (struct here){ .is_real = false };
}

static bool bind_memory(const struct here *here, const struct bind_place *place)
{
    /* Every node: that is so without a policy, which would only cost. */
    if (hwloc_bitmap_isincluded(
                hwloc_topology_get_topology_nodeset(here->topology), place->memory)) {
        return true;
    }
    /* Not strict: when the nodes are full, memory comes from others. */
    return hwloc_set_membind(here->topology, place->memory, HWLOC_MEMBIND_BIND,
                   HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0;
}

tutti_status here_bind(
        const struct here *here, const struct bind_place *place, bool *has_memory)
{
    *has_memory = true;
    if (!here->is_real || !place->is_bound) {
        return TUTTI_OK;
    }
    if (hwloc_set_cpubind(here->topology, place->cpus, HWLOC_CPUBIND_PROCESS) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "the system refuses to bind");
    }
    *has_memory = bind_memory(here, place);
    return TUTTI_OK;
}
