#include "launcher/bind/pci.h"

#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "launcher/hosts/host_list.h"

enum {
    CLASS_DISPLAY = 0x03, /* VGA, 3D and others; NVSwitches are bridges, 0x06 */
    CLASS_ACCELERATOR = 0x12 /* AMD Instinct from MI300 on                    */
};

static const char devices_folder[] = "/sys/bus/pci/devices";

/* What the entries of a folder are counted for. */
struct tally {
    uint64_t nvidia; /* GPUs, or device files of GPUs       */
    uint64_t amd;
    bool is_whole; /* everything could be read            */
};

bool pci_is_gpu(unsigned base_class)
{
    return base_class == CLASS_DISPLAY || base_class == CLASS_ACCELERATOR;
}

bool pci_read(const char *folder, const char *device, const char *name, char *text,
        size_t capacity)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/%s/%s", folder, device, name);
    return kernel_file_read(path, text, capacity) >= 0;
}

/* One device of the kernel's list. */
static void count_device(struct tally *tally, const char *folder, const char *device)
{
    char class[16];
    char vendor[16];
    unsigned long number;

    if (!pci_read(folder, device, "class", class, sizeof class) ||
            !pci_read(folder, device, "vendor", vendor, sizeof vendor)) {
        tally->is_whole = false;
    } else if (pci_is_gpu((unsigned)(strtoul(class, NULL, 16) >> 16))) {
        number = strtoul(vendor, NULL, 16);
        tally->nvidia += number == PCI_NVIDIA ? 1 : 0;
        tally->amd += number == PCI_AMD ? 1 : 0;
    }
}

/* "nvidia0" and the like, which a container has of the GPUs that it was given. */
static void count_file(struct tally *tally, const char *folder, const char *name)
{
    static const char prefix[] = "nvidia";
    const char *digits = name + strlen(prefix);

    (void)folder;
    if (strncmp(name, prefix, strlen(prefix)) == 0 && *digits != '\0' &&
            digits[strspn(digits, "0123456789")] == '\0') {
        tally->nvidia++;
    }
}

static struct tally count_entries(const char *folder,
        void (*count)(struct tally *tally, const char *folder, const char *name))
{
    DIR *entries = opendir(folder);
    struct tally tally = { .is_whole = entries != NULL };

    while (entries != NULL) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is our own */
        const struct dirent *entry = readdir(entries);

        if (entry == NULL) {
            (void)closedir(entries);
            break;
        }
        if (entry->d_name[0] != '.') {
            count(&tally, folder, entry->d_name);
        }
    }
    return tally;
}

bool pci_may_have_gpu(const char *folder)
{
    struct tally tally = count_entries(folder, count_device);

    return !tally.is_whole || tally.nvidia + tally.amd > 0;
}

/*
 * A container sees all GPUs of its machine on the bus, and the device files only of those
 * it was given; some sandboxes show no bus at all.
 */
void pci_count_gpus(struct pci_gpus *gpus, const char *root)
{
    char path[PATH_MAX];
    struct tally bus;

    (void)snprintf(path, sizeof path, "%s%s", root, devices_folder);
    bus = count_entries(path, count_device);
    (void)snprintf(path, sizeof path, "%s/dev", root);
    *gpus = (struct pci_gpus){ .usable = count_entries(path, count_file).nvidia };
    gpus->unusable = bus.nvidia > gpus->usable ? bus.nvidia - gpus->usable : 0;
    (void)snprintf(path, sizeof path, "%s/dev/kfd", root);
    if (access(path, F_OK) == 0) {
        gpus->usable += bus.amd;
    }
}

int pci_slots_here(void)
{
    struct pci_gpus gpus;
    cpu_set_t cores;
    uint64_t count;

    pci_count_gpus(&gpus, "");
    count = gpus.usable;
    if (count == 0 && sched_getaffinity(0, sizeof cores, &cores) == 0) {
        count = (uint64_t)CPU_COUNT(&cores);
    }
    return count < 1 ? 1 : count > HOST_SLOTS_LIMIT ? HOST_SLOTS_LIMIT : (int)count;
}
