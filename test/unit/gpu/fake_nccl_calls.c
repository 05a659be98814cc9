/*
 * What fake_nccl.c answers.
 */
#include <stdlib.h>

#include "fakes.h"

nccl_result ncclGetVersion(int *version)
{
    const char *text = getenv("FAKE_NCCL_VERSION");

    *version = text == NULL ? 0 : (int)strtol(text, NULL, 10);
    return text == NULL ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS;
}
