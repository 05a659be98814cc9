/*
 * The context of a rank's GPU on a thread, and errors of the driver in words.
 */
#include "base/error.h"
#include "ops/gpu/gpu.h"

/* ----------------------------------------------------------------------- errors */

/*
 * Results after which nothing on the device works any more: its context is gone, or a
 * kernel has left it in a state from which only a new process recovers.
 */
static const cu_result fatal_results[] = { CU_ERROR_DEINITIALIZED,
    CU_ERROR_DEVICE_UNAVAILABLE, CU_ERROR_INVALID_CONTEXT, CU_ERROR_ECC,
    CU_ERROR_NVLINK, CU_ERROR_CONTAINED, CU_ERROR_TENSOR_LEAK, CU_ERROR_ILLEGAL_ADDRESS,
    CU_ERROR_LAUNCH_TIMEOUT, CU_ERROR_CONTEXT_DESTROYED, CU_ERROR_ASSERT,
    CU_ERROR_HARDWARE_STACK, CU_ERROR_ILLEGAL_INSTRUCTION, CU_ERROR_MISALIGNED_ADDRESS,
    CU_ERROR_INVALID_ADDRESS_SPACE, CU_ERROR_INVALID_PC, CU_ERROR_LAUNCH_FAILED,
    CU_ERROR_UNKNOWN };

static bool is_fatal(cu_result result)
{
    for (size_t i = 0; i < sizeof fatal_results / sizeof *fatal_results; i++) {
        if (fatal_results[i] == result) {
            return true;
        }
    }
    return false;
}

/* True when the context was taken away, and not broken from within. */
static bool is_reset(cu_result result)
{
    return result == CU_ERROR_DEINITIALIZED || result == CU_ERROR_INVALID_CONTEXT ||
            result == CU_ERROR_CONTEXT_DESTROYED;
}

tutti_status gpu_alive(const struct gpu *gpu)
{
    /* acquire: pairs with gpu_lose(), which tells after this what it was doing */
    const cu_result lost = atomic_load_explicit(&gpu->lost, memory_order_acquire);
    const char *doing = atomic_load_explicit(&gpu->lost_doing, memory_order_acquire);

    if (lost == CU_SUCCESS) {
        return TUTTI_OK;
    }
    return error_set(TUTTI_ERR_SYSTEM,
            "rank %d has lost GPU %d (%s): it could not %s: %s (%s); %s", gpu->rank,
            gpu->ordinal, gpu->pci, doing == NULL ? "use it" : doing,
            driver_error_text(gpu->cuda, lost), driver_error_name(gpu->cuda, lost),
            is_reset(lost) ? "was it reset (cudaDeviceReset()) before tutti_finalize()?"
                           : "a kernel of this process has failed, or the device: "
                             "compute-sanitizer finds out which");
}

tutti_status gpu_lose(struct gpu *gpu, cu_result result, const char *doing)
{
    int none = CU_SUCCESS;

    if (atomic_compare_exchange_strong_explicit(&gpu->lost, &none, result,
                memory_order_acq_rel, memory_order_acquire)) {
        atomic_store_explicit(&gpu->lost_doing, doing, memory_order_release);
    }
    return gpu_alive(gpu);
}

tutti_status gpu_check(struct gpu *gpu, cu_result result, const char *doing)
{
    if (result == CU_SUCCESS) {
        return TUTTI_OK;
    }
    if (is_fatal(result)) {
        return gpu_lose(gpu, result, doing);
    }
    return error_set(
            result == CU_ERROR_OUT_OF_MEMORY ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_SYSTEM,
            "rank %d, GPU %d (%s): cannot %s: %s (%s)", gpu->rank, gpu->ordinal,
            gpu->pci, doing, driver_error_text(gpu->cuda, result),
            driver_error_name(gpu->cuda, result));
}

/* ---------------------------------------------------------------------- context */

/*
 * After cudaDeviceReset() the context's handle stays, and may even be of a new context,
 * but streams and events are dangling: the driver may crash on them. So this comes first.
 */
static tutti_status check_context(struct gpu *gpu)
{
    static const char doing[] = "find its context";
    const struct cuda_driver *cuda = gpu->cuda;
    unsigned long long id = 0;
    unsigned flags = 0;
    int is_active = 0;
    cu_result result;

    if (cuda->ctx_get_id != NULL) {
        result = cuda->ctx_get_id(gpu->context, &id);
        is_active = id == gpu->context_id;
    } else {
        result = cuda->device_primary_ctx_get_state(gpu->device, &flags, &is_active);
    }
    if (result != CU_SUCCESS || is_active) {
        return gpu_check(gpu, result, doing);
    }
    return gpu_lose(gpu, CU_ERROR_CONTEXT_DESTROYED, doing);
}

/* How often a thread is inside, and the mode that it had before; in whichever device. */
static _Thread_local unsigned entered;
static _Thread_local cu_capture_mode mode_before;

/*
 * While a thread of the application captures a graph, the driver refuses calls such as
 * cuMemAlloc() and cuEventQuery() of all threads that have not said that they know what they
 * do, and makes the capture invalid. What is done inside has nothing to do with a capture.
 */
static cu_result push(const struct gpu *gpu)
{
    const cu_result result = gpu->cuda->ctx_push_current(gpu->context);

    if (result == CU_SUCCESS && entered++ == 0) {
        mode_before = CU_CAPTURE_RELAXED;
        (void)gpu->cuda->thread_exchange_capture_mode(&mode_before);
    }
    return result;
}

tutti_status gpu_enter(struct gpu *gpu)
{
    tutti_status status = gpu_alive(gpu);

    if (status == TUTTI_OK) {
        status = check_context(gpu);
    }
    if (status == TUTTI_OK) {
        status = gpu_check(gpu, push(gpu), "enter its context");
    }
    return status;
}

bool gpu_enter_to_close(struct gpu *gpu)
{
    if (gpu_enter(gpu) == TUTTI_OK) {
        return true;
    }
    /* Lost for another reason: what can be given back is, and errors are of no interest. */
    return !is_reset(atomic_load_explicit(&gpu->lost, memory_order_acquire)) &&
            push(gpu) == CU_SUCCESS;
}

void gpu_leave(const struct gpu *gpu)
{
    cu_context popped = NULL;

    if (--entered == 0) {
        (void)gpu->cuda->thread_exchange_capture_mode(&mode_before);
    }
    (void)gpu->cuda->ctx_pop_current(&popped);
}
