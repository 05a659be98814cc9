/*
 * GPUs on the PCI bus. Debian's hwloc is built without CUDA, NVML and RSMI, so classes
 * and vendors tell what is a GPU, and NVIDIA's folder in /proc what it is called.
 */
#include "launcher/bind/host_gpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/bind/pci.h"

enum {
    INFORMATION_MAX = 2048 /* bytes of a driver's file that are looked at          */
};

static bool is_gpu(hwloc_obj_t device, unsigned vendor)
{
    return device->attr->pcidev.vendor_id == vendor &&
            pci_is_gpu((unsigned)device->attr->pcidev.class_id >> 8);
}

/* The UUID that an hwloc with NVML wrote at the device; "" when there is none. */
static void copy_uuid(char *uuid, hwloc_obj_t device)
{
    for (hwloc_obj_t child = device->io_first_child; child != NULL;
            child = child->next_sibling) {
        const char *text = hwloc_obj_get_info_by_name(child, "NVIDIAUUID");

        if (text != NULL) {
            (void)snprintf(uuid, GPU_UUID_MAX, "%s", text);
        }
    }
}

/* What a device hangs under; the machine as a whole says nothing. */
static hwloc_const_cpuset_t near_of(hwloc_topology_t topology, hwloc_obj_t device)
{
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);

    if (place == NULL || place->cpuset == NULL || place->type == HWLOC_OBJ_MACHINE ||
            hwloc_bitmap_iszero(place->cpuset)) {
        return NULL;
    }
    return place->cpuset;
}

static void add(struct gpus *gpus, hwloc_topology_t topology, hwloc_obj_t device)
{
    const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
    struct gpu *gpu = &gpus->items[gpus->count++];

    *gpu = (struct gpu){ .near = near_of(topology, device) };
    (void)snprintf(gpu->bus, sizeof gpu->bus, "%04x:%02x:%02x.%x",
            (unsigned)pci->domain, (unsigned)pci->bus, (unsigned)pci->dev,
            (unsigned)pci->func);
    copy_uuid(gpu->uuid, device);
}

/* By address; one with a domain of more than four digits comes last. */
static int compare(const void *a, const void *b)
{
    const struct gpu *left = a;
    const struct gpu *right = b;
    size_t left_len = strlen(left->bus);
    size_t right_len = strlen(right->bus);

    if (left_len != right_len) {
        return left_len < right_len ? -1 : 1;
    }
    return strcmp(left->bus, right->bus);
}

static void find_of(struct gpus *gpus, hwloc_topology_t topology, unsigned vendor)
{
    hwloc_obj_t device = hwloc_get_next_pcidev(topology, NULL);

    for (; device != NULL && gpus->count < GPUS_MAX;
            device = hwloc_get_next_pcidev(topology, device)) {
        if (is_gpu(device, vendor)) {
            add(gpus, topology, device);
        }
    }
}

void gpus_find(struct gpus *gpus, hwloc_topology_t topology)
{
    *gpus = (struct gpus){ .vendor = GPU_NVIDIA };
    find_of(gpus, topology, PCI_NVIDIA);
    if (gpus->count == 0) {
        find_of(gpus, topology, PCI_AMD);
        gpus->vendor = gpus->count > 0 ? GPU_AMD : GPU_NVIDIA;
    }
    if (gpus->count > 1) {
        qsort(gpus->items, gpus->count, sizeof gpus->items[0], compare);
    }
}

/* Copies what follows "GPU UUID:" up to the end of the line. */
static void copy_information(char *uuid, const char *text)
{
    static const char label[] = "GPU UUID:";
    const char *found = strstr(text, label);
    size_t len;

    if (found == NULL) {
        return;
    }
    found += strlen(label);
    found += strspn(found, " \t");
    len = strcspn(found, " \t\n");
    /* The driver writes question marks while nobody has used the device. */
    if (len < GPU_UUID_MAX && memchr(found, '?', len) == NULL) {
        (void)snprintf(uuid, GPU_UUID_MAX, "%.*s", (int)len, found);
    }
}

/* False when the driver has no such device, for this container at least. */
static bool read_information(struct gpu *gpu, const char *folder)
{
    char text[INFORMATION_MAX];

    if (!pci_read(folder, gpu->bus, "information", text, sizeof text)) {
        return false;
    }
    copy_information(gpu->uuid, text);
    return true;
}

void gpus_read_driver(struct gpus *gpus, const char *folder)
{
    struct gpus known = { .vendor = gpus->vendor };

    if (gpus->vendor != GPU_NVIDIA) {
        return;
    }
    for (size_t i = 0; i < gpus->count; i++) {
        if (read_information(&gpus->items[i], folder)) {
            known.items[known.count++] = gpus->items[i];
        }
    }
    if (known.count > 0) {
        *gpus = known;
    }
}
