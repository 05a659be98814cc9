/*
 * Which kernels reduce: a set of vector kernels what fills vectors, and the portable
 * ones the rest, or everything.
 */
#include "ops/reduce/reduce.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/text.h"
#include "ops/reduce/kernels.h"
#include "ops/reduce/scalar.h"
#include "ops/reduce/vector.h"

/* Elements that are widened at a time. */
#define WIDEN_BLOCK 512

/* For CONFIG_KERNELS_SCALAR. */
static const struct vector_set no_vectors = { .which = CONFIG_KERNELS_SCALAR };

/*
 * The set in use; NULL: not chosen yet. It says nothing about a job or a context, but
 * about the processor: asking that takes microseconds in a virtual machine.
 */
static _Atomic(const struct vector_set *) set_in_use;

/** The set, or NULL when the build or the processor does not have it. */
static const struct vector_set *find_set(enum config_kernels which)
{
    const struct vector_set *sets[VECTOR_SETS_MAX];
    size_t i = 0;

    vector_sets(sets);
    while (sets[i] != NULL && which != CONFIG_KERNELS_AUTO && which != sets[i]->which) {
        i++;
    }
    if (sets[i] == NULL &&
            (which == CONFIG_KERNELS_AUTO || which == CONFIG_KERNELS_SCALAR)) {
        return &no_vectors;
    }
    return sets[i];
}

/* Threads may both choose at first, the same. Nothing is published but constants. */
static const struct vector_set *current_set(void)
{
    const struct vector_set *set =
            atomic_load_explicit(&set_in_use, memory_order_relaxed);

    if (set == NULL) {
        set = find_set(CONFIG_KERNELS_AUTO);
        atomic_store_explicit(&set_in_use, set, memory_order_relaxed);
    }
    return set;
}

bool reduce_has(enum config_kernels which)
{
    return find_set(which) != NULL;
}

tutti_status reduce_use(enum config_kernels which)
{
    const struct vector_set *set = find_set(which);
    char name[16] = "";

    if (set == NULL) {
        (void)text_from_choice(
                config_find("kernels")->range, (int)which, name, sizeof name);
        return error_set(TUTTI_ERR_CONFIG,
                "kernels cannot be %s: this processor does not have these "
                "instructions, "
                "or this build of tutti has no kernels for them; auto picks the best "
                "that there are",
                name);
    }
    atomic_store_explicit(&set_in_use, set, memory_order_relaxed);
    return TUTTI_OK;
}

enum config_kernels reduce_in_use(void)
{
    return current_set()->which;
}

bool reduce_is_supported(tutti_dtype dtype, tutti_reduce_op op)
{
    return scalar_is_supported(dtype, op);
}

/** What the result is divided by. */
static int divisor_of(const struct reduce_spec *spec)
{
    return spec->op == TUTTI_AVERAGE ? spec->divisor : 1;
}

static bool is_copy(const struct reduce_spec *spec, int n)
{
    return n == 1 && divisor_of(spec) == 1 && spec->prescale == 1 &&
            spec->postscale == 1 && spec->dtype != TUTTI_BOOL;
}

/** @return the number of elements that vector kernels have reduced */
static size_t reduce_vectors(const struct reduce_spec *spec, const void *const *inputs,
        int n, void *const *outputs, int m, size_t count)
{
    const vector_kernel kernel = current_set()->kernels[spec->dtype][spec->op];
    const struct vector_pass pass = {
        .inputs = inputs,
        .outputs = outputs,
        .n = n,
        .m = m,
        .count = count,
        .prescale = dtype_is_float(spec->dtype) ? spec->prescale : 1,
        .postscale = dtype_is_float(spec->dtype) ? spec->postscale : 1,
        .divisor = divisor_of(spec),
    };

    return kernel != NULL && !is_copy(spec, n) ? kernel(&pass) : 0;
}

void reduce_tree(const struct reduce_spec *spec, const void *const *inputs, int n,
        void *const *outputs, int m, size_t count)
{
    size_t first;

    assert(n >= 1 && n <= REDUCE_OPERANDS_MAX && m >= 1 && divisor_of(spec) >= 1);
    first = reduce_vectors(spec, inputs, n, outputs, m, count);
    if (first < count) {
        scalar_tree(spec, inputs, n, outputs, m, first, count);
    }
}

int64_t reduce_clock(const struct op_env *env)
{
    return env->spent != NULL && env->spent->is_asked ? clock_ns() : 0;
}

void reduce_count(const struct op_env *env, int64_t begin_ns)
{
    if (begin_ns != 0) {
        env->spent->reduce_ns += clock_ns() - begin_ns;
    }
}

void reduce_narrow(tutti_dtype to, void *out, const void *in, size_t count)
{
    const vector_convert narrow = current_set()->narrow[to];
    const size_t done = narrow != NULL ? narrow(out, in, count) : 0;

    kernels_float(to)->store((char *)out + done * 2,
            (const char *)in + done * sizeof(float), count - done);
}

void reduce_widen(tutti_dtype from, void *out, const void *in, size_t count)
{
    const vector_convert widen = current_set()->widen[from];
    size_t done = widen != NULL ? widen(out, in, count) : 0;

    /* The portable kernels do not keep to an order: what they write must not be read. */
    while (done < count) {
        uint16_t block[WIDEN_BLOCK];
        const size_t some = size_min(WIDEN_BLOCK, count - done);

        memcpy(block, (const char *)in + done * sizeof *block, some * sizeof *block);
        kernels_float(from)->load((char *)out + done * sizeof(float), block, some);
        done += some;
    }
}
