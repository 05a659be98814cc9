/*
 * Lists of devices: indices, prefixes of UUIDs, and parts of GPUs. CUDA silently stops
 * at the first entry that it does not understand, and every rank of a job then looks for
 * GPUs that are not there; here that is an error.
 */
#include "launcher/bind/visible.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/environment.h"

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
