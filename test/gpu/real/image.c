#include "test/gpu/real/image.h"

#include <stdio.h>
#include <stdlib.h>

#include "test/batch/reference.h"

#define IMAGE_BYTES_MAX ((size_t)64 << 20)

/* NULL: it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *image = must_alloc(IMAGE_BYTES_MAX, 1);
    const size_t bytes = file != NULL ? fread(image, 1, IMAGE_BYTES_MAX - 1, file) : 0;

    if (file != NULL) {
        (void)fclose(file);
    }
    if (bytes == 0) {
        free(image);
        return NULL;
    }
    return image;
}

int image_load(struct device_rig *rig, const char *program, cu_module *module,
        cu_function functions[KERNEL_COUNT])
{
    const char *path = rig->config.gpu_kernels;
    char *file = path[0] != '\0' ? read_file(path) : NULL;
    size_t bytes = 0;
    const void *image = path[0] != '\0' ? file : kernel_image(&bytes);

    if (image == NULL) {
        (void)printf("%s: skipped: %s%s\n", program,
                path[0] != '\0' ? "no kernels can be read from "
                                : "this build has no kernels",
                path);
        return DEVICE_SKIPPED;
    }
    device_must(rig, rig->cuda.module_load_data(module, image), "load kernels");
    for (int i = 0; i < KERNEL_COUNT; i++) {
        const cu_result result =
                rig->cuda.module_get_function(&functions[i], *module, kernel_name(i));

        if (result != CU_SUCCESS && kernel_is_optional(i)) {
            functions[i] = NULL;
        } else {
            device_must(rig, result, kernel_name(i));
        }
    }
    free(file);
    return 0;
}
