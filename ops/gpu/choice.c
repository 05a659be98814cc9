/*
 * Which device a rank uses.
 */
#include "ops/gpu/choice.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "ops/gpu/find.h"

/* Characters of "GPU-". */
#define UUID_PREFIX 4

/** One entry of the list, not terminated. */
struct entry {
    const char *text;
    size_t len;
};

static bool is_word(const char *text, const char *word)
{
    while (*text != '\0' && text_lower(*text) == *word) {
        text++;
        word++;
    }
    return *text == *word;
}

bool choice_is_off(const char *wanted)
{
    return is_word(wanted, "off");
}

bool choice_is_definite(const char *wanted)
{
    return !is_word(wanted, "auto") && !choice_is_off(wanted);
}

/* ------------------------------------------------------------------ identities */

/*
 * True when two PCI ids are of one device: tools write the domain with no, four or eight
 * digits, and some leave the function out.
 */
static bool same_pci(const char *pci, const struct entry *entry)
{
    const char *colon = memchr(entry->text, ':', entry->len);
    const char *text = entry->text;
    size_t len = entry->len;

    if (colon == NULL) {
        return false;
    }
    if (memchr(colon + 1, ':', (size_t)(text + len - colon) - 1) == NULL) {
        pci = strchr(pci, ':') + 1; /* it has no domain; ours is 0 then */
    } else {
        while (len > strlen(pci) && *text == '0') {
            text++;
            len--;
        }
    }
    for (size_t i = 0; i < len; i++) {
        if (text_lower(text[i]) != pci[i]) {
            return false;
        }
    }
    return pci[len] == '\0' || strcmp(pci + len, ".0") == 0;
}

/* A part of a device (MIG) has a UUID of its own, which begins with "MIG-". */
static bool begins_uuid(const char *uuid, const struct entry *entry)
{
    if (entry->len <= UUID_PREFIX || entry->len >= GPU_UUID_MAX ||
            (text_lower(entry->text[0]) != 'g' && text_lower(entry->text[0]) != 'm')) {
        return false;
    }
    for (size_t i = 1; i < entry->len; i++) {
        const bool is_kind = i < UUID_PREFIX - 1;

        if (!is_kind && text_lower(entry->text[i]) != uuid[i]) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------ lists */

/* The index-th entry; false: the list is shorter. */
static bool find_entry(const char *list, int index, struct entry *entry)
{
    while (index > 0) {
        list = strchr(list, ',');
        if (list == NULL) {
            return false;
        }
        list++;
        index--;
    }
    *entry = (struct entry){ .text = list, .len = strcspn(list, ",") };
    while (entry->len > 0 && *entry->text == ' ') {
        entry->text++;
        entry->len--;
    }
    while (entry->len > 0 && entry->text[entry->len - 1] == ' ') {
        entry->len--;
    }
    return true;
}

/* An entry of digits; false: it is something else. */
static bool read_ordinal(const struct entry *entry, int count, int64_t *ordinal)
{
    char text[16];

    if (entry->len >= sizeof text) {
        return false;
    }
    memcpy(text, entry->text, entry->len);
    text[entry->len] = '\0';
    if (!text_to_int64(text, ordinal)) {
        return false;
    }
    *ordinal = *ordinal < 0 || *ordinal >= count ? -1 : *ordinal;
    return true;
}

static tutti_status identify(const struct cuda_driver *driver, int count,
        const struct entry *entry, int *found)
{
    tutti_status status = TUTTI_OK;

    *found = -1;
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        struct gpu_device_facts facts;
        bool is_it;

        status = gpu_device_read(driver, i, &facts);
        is_it = status == TUTTI_OK &&
                (same_pci(facts.pci, entry) || begins_uuid(facts.uuid, entry));
        if (is_it && *found >= 0) {
            return error_set(TUTTI_ERR_CONFIG,
                    "gpu: \"%.*s\" is the beginning of the UUIDs of device %d and of "
                    "device %d; write more of it",
                    (int)entry->len, entry->text, *found, i);
        }
        *found = is_it ? i : *found;
    }
    return status;
}

static tutti_status choose_listed(const struct cuda_driver *driver, int count,
        const char *wanted, const struct gpu_seat *seat, int *ordinal)
{
    const bool is_list = strchr(wanted, ',') != NULL;
    struct entry entry;
    int64_t number = -1;
    int found = -1;
    tutti_status status = TUTTI_OK;

    if (!find_entry(wanted, is_list ? seat->local_rank : 0, &entry)) {
        return error_set(TUTTI_ERR_CONFIG,
                "gpu=%s has too few devices: rank %d is number %d on its node, counted "
                "from 0; name a device for each of them",
                wanted, seat->rank, seat->local_rank);
    }
    if (read_ordinal(&entry, count, &number)) {
        found = (int)number;
    } else {
        status = identify(driver, count, &entry, &found);
    }
    if (status == TUTTI_OK && found < 0) {
        return error_set(TUTTI_ERR_CONFIG,
                "gpu: there is no device \"%.*s\" for rank %d: the driver has %d%s, by "
                "ordinal (0 to %d), PCI id or UUID (\"GPU-...\"); CUDA_VISIBLE_DEVICES "
                "may hide others",
                (int)entry.len, entry.text, seat->rank, count,
                count == 1 ? "" : " devices", count - 1);
    }
    *ordinal = found;
    return status;
}

/* The device of the context that is current on this thread; -1: there is none. */
static int current_device(const struct cuda_driver *driver)
{
    cu_context context = NULL;
    cu_device device = 0;

    if (driver->ctx_get_current(&context) != CU_SUCCESS || context == NULL ||
            driver->ctx_get_device(&device) != CU_SUCCESS) {
        return -1;
    }
    return device;
}

/* Ordinals and devices are the same numbers in all drivers, but not by their word. */
static int ordinal_of(const struct cuda_driver *driver, int count, cu_device device)
{
    for (int i = 0; i < count; i++) {
        cu_device other = -1;

        if (driver->device_get(&other, i) == CU_SUCCESS && other == device) {
            return i;
        }
    }
    return -1;
}

tutti_status choice_make(const struct cuda_driver *driver, const char *wanted,
        const struct gpu_seat *seat, int *ordinal)
{
    int count = 0;
    int current = -1;
    tutti_status status = driver_count(driver, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    if (choice_is_definite(wanted)) {
        return choose_listed(driver, count, wanted, seat, ordinal);
    }
    if (seat->is_alone) {
        current = ordinal_of(driver, count, current_device(driver));
    }
    *ordinal = current >= 0 ? current : seat->local_rank % count;
    return TUTTI_OK;
}
