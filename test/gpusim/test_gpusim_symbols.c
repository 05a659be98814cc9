/*
 * The simulator exports what the product looks for, and the product loads it.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "ops/gpu/driver.h"
#include "test/gpusim/gpu.h"

static const char *const symbols[] = {
#define CUDA_REQUIRED(field, symbol, parameters) #symbol,
#define CUDA_OPTIONAL(field, symbol, parameters) #symbol,
#include "ops/gpu/driver.def"
};

UNIT_TEST(test_every_symbol_of_the_table_is_there)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (dlsym(RTLD_DEFAULT, symbols[i]) == NULL) {
            fail_msg("libgpusim_cuda.so lacks %s", symbols[i]);
        }
    }
    assert_null(dlsym(RTLD_DEFAULT, "cuNoSuchCall"));
}

UNIT_TEST(test_the_product_loads_it)
{
    struct cuda_driver driver;
    cu_context context;
    cu_pointer pointer;
    Dl_info self;

    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "gpusim_races"), &self), 0);
    assert_int_equal(driver_load(self.dli_fname, &driver), TUTTI_OK);
    assert_int_equal(driver.version, 13000);
    assert_string_equal(driver_error_name(&driver, 700), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(driver.device_primary_ctx_retain(&context, 0), CU_SUCCESS);
    assert_int_equal(driver.ctx_push_current(context), CU_SUCCESS);
    assert_int_equal(driver.mem_alloc(&pointer, 8), CU_SUCCESS);
    assert_int_equal(driver.mem_free(pointer), CU_SUCCESS);
    assert_int_equal(driver.ctx_pop_current(&context), CU_SUCCESS);
    assert_int_equal(driver.device_primary_ctx_release(0), CU_SUCCESS);
    assert_int_equal(gpusim_calls("cuMemAlloc_v2"), 1); /* this very library */
}
