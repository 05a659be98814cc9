/*
 * Function pointers by name.
 */
#include "ops/gpu/symbols.h"

#include <dlfcn.h>
#include <string.h>

void *symbols_open(const char *library, const char **reason)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        /* glibc and musl keep the text per thread. */
        *reason = dlerror(); /* NOLINT(concurrency-mt-unsafe) */
    }
    return handle;
}

const char *symbols_fill(void *handle, const struct symbol *symbols, size_t count,
        int version, void *table)
{
    const char *missing = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct symbol *symbol = &symbols[i];
        void *function = symbol->since > version ? NULL : dlsym(handle, symbol->name);

        if (function == NULL && symbol->since == SYMBOL_REQUIRED && missing == NULL) {
            missing = symbol->name;
        }
        /* C casts no object pointer to a function pointer; POSIX equates them. */
        memcpy((char *)table + symbol->offset, &function, sizeof function);
    }
    return missing;
}
