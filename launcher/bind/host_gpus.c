/*
 * GPUs on the PCI bus. Debian's hwloc is built without CUDA, NVML and RSMI, so classes
 * and vendors tell what is a GPU, and NVIDIA's folder in /proc what it is called.
 */
#include "launcher/bind/host_gpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
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

/* ------------------------------------------------- which of them ranks see */

/* One variable while it is read. */
struct reader {
    const char *variable; /* its name                                     */
    const struct gpus *gpus; /* of the host                                  */
    const struct visible *from; /* what indices count in                        */
    bool is_open; /* nothing is known of the host's GPUs: indices are believed */
};

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static tutti_status read_index(
        const struct reader *reader, const char *entry, struct visible_device *device)
{
    int64_t index;

    if (!text_to_int64(entry, &index) || index < 0) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: '%s' is neither an index nor GPU-... nor MIG-...",
                reader->variable, entry);
    }
    if (reader->is_open) {
        return TUTTI_OK;
    }
    if ((uint64_t)index >= reader->from->count) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: there is no GPU %s on this host, which has %zu; unset it, or list "
                "what is there",
                reader->variable, entry, reader->from->count);
    }
    device->gpu = reader->from->items[index].gpu;
    return TUTTI_OK;
}

/* The GPU whose UUID starts with `prefix`; unknown as long as no UUID is known. */
static tutti_status read_uuid(
        const struct reader *reader, const char *prefix, struct visible_device *device)
{
    size_t matches = 0;
    size_t known = 0;

    for (size_t i = 0; i < reader->gpus->count; i++) {
        const char *uuid = reader->gpus->items[i].uuid;

        known += uuid[0] != '\0' ? 1 : 0;
        if (has_prefix(uuid, prefix)) {
            device->gpu = (int)i;
            matches++;
        }
    }
    if (matches == 1 || (matches == 0 && known < reader->gpus->count) || known == 0) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_INVALID, "%s: %s %s", reader->variable, prefix,
            matches == 0 ? "is no GPU of this host; nvidia-smi -L lists them"
                         : "is the beginning of several GPUs' names; write more of it");
}

/*
 * Parts: "MIG-GPU-uuid/instance/instance" names its GPU; "MIG-uuid" does not, and nothing
 * but NVML knows it.
 */
static tutti_status read_part(
        const struct reader *reader, const char *entry, struct visible_device *device)
{
    const char *parent = entry + strlen("MIG-");
    char prefix[VISIBLE_NAME_MAX];

    if (!has_prefix(parent, "GPU-")) {
        return TUTTI_OK;
    }
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(parent, "/"), parent);
    return read_uuid(reader, prefix, device);
}

static tutti_status add_entry(
        const struct reader *reader, struct visible *list, const char *entry)
{
    struct visible_device device = { .gpu = -1 };
    tutti_status status;

    (void)snprintf(device.name, sizeof device.name, "%s", entry);
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, entry) == 0) {
            return error_set(TUTTI_ERR_INVALID,
                    "%s: %s is there twice, and programs would see no GPU at all",
                    reader->variable, entry);
        }
    }
    if (list->count == GPUS_MAX) {
        return error_set(TUTTI_ERR_INVALID, "%s lists more than %d devices",
                reader->variable, GPUS_MAX);
    }
    if (has_prefix(entry, "MIG-")) {
        status = read_part(reader, entry, &device);
    } else if (has_prefix(entry, "GPU-")) {
        status = read_uuid(reader, entry, &device);
    } else {
        status = read_index(reader, entry, &device);
    }
    if (status == TUTTI_OK) {
        list->items[list->count++] = device;
    }
    return status;
}

/* Copies the entry at *text without blanks; moves behind it and its comma. */
static void take_entry(const char **text, char entry[VISIBLE_NAME_MAX])
{
    size_t len;

    *text += strspn(*text, " \t");
    len = strcspn(*text, ",");
    (void)snprintf(entry, VISIBLE_NAME_MAX, "%.*s", (int)len, *text);
    entry[strcspn(entry, " \t\n")] = '\0';
    *text += len + ((*text)[len] == ',' ? 1 : 0);
}

/* How CUDA, ROCm and Slurm write that there are no (more) devices. */
static bool is_end(const char *entry)
{
    return entry[0] == '\0' || strcmp(entry, "-1") == 0 ||
            strcmp(entry, "NoDevFiles") == 0;
}

/* Replaces the list by what a variable's text leaves of it. */
static tutti_status apply(struct visible *visible, const struct gpus *gpus,
        const char *variable, const char *text)
{
    struct visible from = *visible;
    struct reader reader = {
        .variable = variable,
        .gpus = gpus,
        .from = &from,
        .is_open = gpus->count == 0,
    };
    tutti_status status = TUTTI_OK;

    visible->variable = variable;
    visible->count = 0;
    while (status == TUTTI_OK && *text != '\0') {
        char entry[VISIBLE_NAME_MAX];

        take_entry(&text, entry);
        if (is_end(entry)) {
            break;
        }
        status = add_entry(&reader, visible, entry);
    }
    return status;
}

tutti_status visible_read(
        struct visible *visible, const struct gpus *gpus, char *const *environment)
{
    const char *cuda = environment_get(environment, "CUDA_VISIBLE_DEVICES");
    const char *rocr = environment_get(environment, "ROCR_VISIBLE_DEVICES");
    const char *hip = environment_get(environment, "HIP_VISIBLE_DEVICES");
    bool is_amd = gpus->vendor == GPU_AMD ||
            (gpus->count == 0 && cuda == NULL && (rocr != NULL || hip != NULL));
    tutti_status status = TUTTI_OK;

    *visible = (struct visible){
        .variable = is_amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES",
        .count = gpus->count,
    };
    for (size_t i = 0; i < gpus->count; i++) {
        visible->items[i].gpu = (int)i;
        (void)snprintf(visible->items[i].name, VISIBLE_NAME_MAX, "%zu", i);
    }
    if (!is_amd) {
        return cuda == NULL ? TUTTI_OK
                            : apply(visible, gpus, "CUDA_VISIBLE_DEVICES", cuda);
    }
    /* HIP counts in what ROCR left, and takes CUDA's variable where its own is missing. */
    if (rocr != NULL) {
        status = apply(visible, gpus, "ROCR_VISIBLE_DEVICES", rocr);
    }
    if (status == TUTTI_OK && hip != NULL) {
        status = apply(visible, gpus, "HIP_VISIBLE_DEVICES", hip);
    } else if (status == TUTTI_OK && cuda != NULL) {
        status = apply(visible, gpus, "CUDA_VISIBLE_DEVICES", cuda);
    }
    return status;
}
