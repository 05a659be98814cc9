/*
 * How many ranks this machine takes when nobody says.
 */
#include "launcher/join/slots.h"

#include <sched.h>

#include "launcher/check/local_facts.h"
#include "launcher/hosts/host_list.h"

int slots_here(void)
{
    struct gather_gpus gpus;
    cpu_set_t cores;
    uint64_t count;

    gather_gpus_count(&gpus, "");
    count = gpus.usable;
    if (count == 0 && sched_getaffinity(0, sizeof cores, &cores) == 0) {
        count = (uint64_t)CPU_COUNT(&cores);
    }
    return count < 1 ? 1 : count > HOST_SLOTS_LIMIT ? HOST_SLOTS_LIMIT : (int)count;
}
