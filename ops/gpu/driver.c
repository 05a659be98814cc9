/*
 * Loads the CUDA driver, and says in one sentence why there is none.
 */
#include "ops/gpu/driver.h"

#include <limits.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "ops/gpu/symbols.h"

/* Optional functions of the driver are there or not: versions are parts of names. */
static const struct symbol driver_symbols[] = {
#define CUDA_REQUIRED(field, symbol, parameters) \
    { #symbol, offsetof(struct cuda_driver, field), SYMBOL_REQUIRED },
#define CUDA_OPTIONAL(field, symbol, parameters) \
    { #symbol, offsetof(struct cuda_driver, field), 0 },
#include "ops/gpu/driver.def"
};

const char *driver_error_name(const struct cuda_driver *driver, cu_result error)
{
    const char *name = NULL;

    if (driver->get_error_name(error, &name) != CU_SUCCESS || name == NULL) {
        return "an unknown error";
    }
    return name;
}

const char *driver_error_text(const struct cuda_driver *driver, cu_result error)
{
    const char *text = NULL;

    if (driver->get_error_string(error, &text) != CU_SUCCESS || text == NULL) {
        return "the driver has no text for it";
    }
    return text;
}

tutti_status driver_count(const struct cuda_driver *driver, int *count)
{
    const cu_result error = driver->device_get_count(count);

    if (error == CU_SUCCESS) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "the CUDA driver does not tell how many devices there are: %s (%s)",
            driver_error_text(driver, error), driver_error_name(driver, error));
}

/* Other tools of the vendor write a domain of eight digits, and the system lower case. */
cu_result driver_read_pci(
        const struct cuda_driver *driver, cu_device device, char pci[GPU_PCI_MAX])
{
    char text[32] = "";
    const char *from = text;
    const cu_result result =
            driver->device_get_pci_bus_id(text, (int)sizeof text - 1, device);
    size_t i;

    while (strcspn(from, ":") > 4 && *from == '0') {
        from++;
    }
    for (i = 0; i < GPU_PCI_MAX - 1 && from[i] != '\0'; i++) {
        pci[i] = text_lower(from[i]);
    }
    pci[i] = '\0';
    return result;
}

cu_result driver_read_uuid(
        const struct cuda_driver *driver, cu_device device, char uuid[GPU_UUID_MAX])
{
    static const char digits[] = "0123456789abcdef";
    static const char prefix[] = { 'G', 'P', 'U', '-' };
    cu_uuid bytes = { { 0 } };
    char *to = uuid + sizeof prefix;
    /* The second version tells the parts of a divided device (MIG) apart. */
    const cu_result result = driver->device_get_uuid_v2 != NULL
            ? driver->device_get_uuid_v2(&bytes, device)
            : driver->device_get_uuid(&bytes, device);

    memcpy(uuid, prefix, sizeof prefix);
    for (size_t i = 0; i < sizeof bytes.bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *to++ = '-';
        }
        *to++ = digits[(unsigned char)bytes.bytes[i] >> 4];
        *to++ = digits[bytes.bytes[i] & 15];
    }
    *to = '\0';
    return result;
}

static tutti_status note_no_device(void)
{
    const char *visible = config_foreign("CUDA_VISIBLE_DEVICES");

    if (visible == NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED, "the CUDA driver reports no device");
    }
    return error_set(TUTTI_ERR_UNSUPPORTED,
            "the CUDA driver reports no device (CUDA_VISIBLE_DEVICES=%s)", visible);
}

static tutti_status note_init(
        const struct cuda_driver *driver, const char *library, cu_result error)
{
    if (error == CU_ERROR_STUB_LIBRARY) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%s is a stub of the CUDA toolkit, not a driver (error %d)", library,
                error);
    }
    if (error == CU_ERROR_NO_DEVICE) {
        return note_no_device();
    }
    if (error == CU_ERROR_NOT_INITIALIZED) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%s cannot be used in this process (error %d): it was used before "
                "fork() "
                "in the parent; start processes that use GPUs with exec()",
                library, error);
    }
    return error_set(TUTTI_ERR_UNSUPPORTED,
            "the CUDA driver in %s does not start: %s, %s (error %d)", library,
            driver_error_name(driver, error), driver_error_text(driver, error), error);
}

static tutti_status driver_start(struct cuda_driver *driver, const char *library)
{
    cu_result error = driver->init(0);
    int devices = 0;

    if (error == CU_SUCCESS) {
        error = driver->driver_get_version(&driver->version);
    }
    if (error == CU_SUCCESS) {
        error = driver->device_get_count(&devices);
    }
    if (error != CU_SUCCESS) {
        return note_init(driver, library, error);
    }
    return devices == 0 ? note_no_device() : TUTTI_OK;
}

tutti_status driver_load(const char *library, struct cuda_driver *driver)
{
    struct cuda_driver loaded = { .version = 0 };
    const char *text = "";
    void *handle = symbols_open(library, &text);
    tutti_status status;

    if (handle == NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED, "there is no CUDA driver: %s", text);
    }
    text = symbols_fill(handle, driver_symbols,
            sizeof driver_symbols / sizeof *driver_symbols, INT_MAX, &loaded);
    if (text != NULL) {
        return error_set(TUTTI_ERR_UNSUPPORTED,
                "%s lacks %s: it is no CUDA driver, or older than CUDA 11.0", library,
                text);
    }
    status = driver_start(&loaded, library);
    if (status == TUTTI_OK) {
        *driver = loaded;
    }
    return status;
}
