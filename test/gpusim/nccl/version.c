/*
 * The version that this build of the library stands for.
 */
#include "test/gpusim/nccl/api.h"

const int api_version = GPUSIM_NCCL_VERSION;
