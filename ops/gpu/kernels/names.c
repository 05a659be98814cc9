/*
 * The names of the kernels, by number.
 */
#include "ops/gpu/kernels/kernels.h"

static const char *const names[KERNEL_COUNT] = {
#define KERNEL_FORM(symbol, form, text) \
    [FAMILY_##symbol * PACK_FORMS + (form)] = (text),
#define KERNEL_FORMS(symbol, name) \
    KERNEL_FORM(symbol, PACK_SMALL, "tutti_" #name "_small") \
    KERNEL_FORM(symbol, PACK_LARGE, "tutti_" #name "_large") \
    KERNEL_FORM(symbol, PACK_TABLE, "tutti_" #name "_table")
    PACK_FAMILY_MAP(KERNEL_FORMS)
#undef KERNEL_FORM
#undef KERNEL_FORMS
};

const char *kernel_name(int kernel)
{
    return kernel >= 0 && kernel < KERNEL_COUNT ? names[kernel] : NULL;
}

bool kernel_is_optional(int kernel)
{
    return kernel % PACK_FORMS == PACK_LARGE;
}
