/*
 * How many ranks this machine takes when nobody says. The device files are counted, for
 * they are there in containers exactly when the GPUs may be used.
 */
#include "launcher/join/slots.h"

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "launcher/hosts/host_list.h"

/* "nvidia0": the prefix and nothing but digits. */
static bool is_numbered(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(name, prefix, len) == 0 && name[len] != '\0' &&
            name[len + strspn(name + len, "0123456789")] == '\0';
}

static int count_devices(const char *folder, const char *prefix)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    int count = 0;

    if (entries == NULL) {
        return 0;
    }
    entry = readdir(entries);
    while (entry != NULL) {
        count += is_numbered(entry->d_name, prefix) ? 1 : 0;
        entry = readdir(entries);
    }
    (void)closedir(entries);
    return count;
}

int slots_here(void)
{
    int count = count_devices("/dev", "nvidia");
    cpu_set_t cores;

    if (count == 0 && sched_getaffinity(0, sizeof cores, &cores) == 0) {
        count = CPU_COUNT(&cores);
    }
    return count < 1 ? 1 : count > HOST_SLOTS_LIMIT ? HOST_SLOTS_LIMIT : count;
}
