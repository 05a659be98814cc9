/*
 * The kernels of the library on an opened device: of this build, or of the file that gpu_kernels names.
 */
#ifndef TUTTI_TEST_GPU_REAL_IMAGE_H
#define TUTTI_TEST_GPU_REAL_IMAGE_H

#include "ops/gpu/kernels/kernels.h"
#include "test/gpu/real/device.h"

/**
 * @param[out] functions  NULL for a kernel that is optional and that the image lacks
 * @return 0, or DEVICE_SKIPPED after a sentence that says why
 */
int image_load(struct device_rig *rig, const char *program, cu_module *module,
        cu_function functions[KERNEL_COUNT]);

#endif
