/*
 * An NCCL that can do nothing but tell its version, which is FAKE_NCCL_VERSION of the
 * environment. It has all functions, whatever its version, as the vendor's preliminary
 * builds have some; nobody calls another one than ncclGetVersion().
 */
#include <stdlib.h>

static int tell(int *version)
{
    const char *text = getenv("FAKE_NCCL_VERSION");

    *version = text == NULL ? 0 : (int)strtol(text, NULL, 10);
    return text == NULL ? 2 : 0;
}

#define NCCL_REQUIRED(field, symbol, parameters) \
    int symbol(int *version); \
    int symbol(int *version) \
    { \
        return tell(version); \
    }
#define NCCL_OPTIONAL(field, symbol, since, parameters) \
    NCCL_REQUIRED(field, symbol, parameters)
#define NCCL_TEXT_REQUIRED(field, symbol, parameters) \
    NCCL_REQUIRED(field, symbol, parameters)
#define NCCL_TEXT_OPTIONAL(field, symbol, since, parameters) \
    NCCL_REQUIRED(field, symbol, parameters)
#include "ops/gpu/nccl.def"
