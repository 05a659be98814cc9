/*
 * What was found, in words.
 */
#include <stdarg.h>
#include <stdio.h>

#include "ops/gpu/find.h"

/* A text that grows up to its capacity. */
struct description {
    char *text; /* of the caller                             */
    size_t capacity; /* bytes of text, at least 1                 */
    size_t length; /* written, without the terminating zero     */
    bool cut; /* there was more                            */
};

__attribute__((format(printf, 2, 3))) static void say(
        struct description *to, const char *format, ...)
{
    const size_t room = to->capacity - to->length;
    va_list values;
    int length;

    va_start(values, format);
    length = vsnprintf(to->text + to->length, room, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= room) {
        to->length = to->capacity - 1;
        to->cut = true;
        return;
    }
    to->length += (size_t)length;
}

static void say_device(struct description *to, const struct gpu_device_facts *facts)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;

    say(to,
            "GPU %d: %s, %s, %s, %d multiprocessors, %.1f GiB, compute capability "
            "%d.%d\n",
            facts->ordinal, facts->name, facts->pci, facts->uuid, facts->sm_count,
            (double)facts->memory_bytes / gib, facts->capability_major,
            facts->capability_minor);
}

/* The optional calls that are used. */
static void say_used(struct description *to, const struct nccl_api *nccl)
{
    const char *before = "NCCL calls used: ";
    struct nccl_optional call;

    for (size_t i = 0; nccl_get_optional(nccl, i, &call); i++) {
        if (call.used) {
            say(to, "%s%s", before, call.symbol);
            before = ", ";
        }
    }
    say(to, "%s", before[0] == ',' ? "\n" : "");
}

/* Those that are not, with the version that brings them. */
static void say_missing(struct description *to, const struct nccl_api *nccl)
{
    const char *before = "NCCL calls not there: ";
    struct nccl_optional call;

    for (size_t i = 0; nccl_get_optional(nccl, i, &call); i++) {
        if (!call.used) {
            say(to, "%s%s (%d.%d.%d)", before, call.symbol, call.since / 10000,
                    call.since / 100 % 100, call.since % 100);
            before = ", ";
        }
    }
    say(to, "%s", before[0] == ',' ? "\n" : "");
}

static void say_nccl(struct description *to, const struct gpu_found *found)
{
    const int version = found->nccl.version;

    if (!found->has_nccl) {
        say(to, "no NCCL: %s; tensors in device memory go through host memory\n",
                found->no_nccl);
        return;
    }
    say(to, "NCCL %d.%d.%d in %s\n", version / 10000, version / 100 % 100,
            version % 100, found->nccl.library);
    say_used(to, &found->nccl);
    say_missing(to, &found->nccl);
}

static void say_kernels(struct description *to, const struct config *config)
{
    if (config->gpu_kernels[0] != '\0') {
        say(to, "kernels: in %s\n", config->gpu_kernels);
    } else if (gpu_has_kernels()) {
        say(to, "kernels: built in\n");
    } else {
        say(to, "kernels: none, since tutti was built without nvcc\n");
    }
}

bool gpu_describe(const struct config *config, const struct gpu_found *found,
        char *text, size_t capacity)
{
    struct description to = { .capacity = capacity };

    to.text = text;
    if (!found->has_driver) {
        say(&to, "no GPU: %s\n", found->no_driver);
        return !to.cut;
    }
    say(&to, "CUDA %d.%d in %s\n", found->cuda.version / 1000,
            found->cuda.version % 1000 / 10, config->cuda_library);
    for (int i = 0; i < found->device_count; i++) {
        say_device(&to, &found->devices[i]);
    }
    say_nccl(&to, found);
    say_kernels(&to, config);
    return !to.cut;
}
