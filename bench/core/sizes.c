/*
 * Parsing and stepping of sizes.
 */
#include "bench/core/sizes.h"

#include <stddef.h>

/* The exponent of a suffix; -1 for a character that is none. */
static int suffix_shift(char suffix)
{
    switch (suffix) {
    case 'k':
    case 'K':
        return 10;
    case 'm':
    case 'M':
        return 20;
    case 'g':
    case 'G':
        return 30;
    default:
        return -1;
    }
}

bool bench_size_parse(const char *text, uint64_t *bytes)
{
    uint64_t value = 0;
    const char *at = text;

    while (*at >= '0' && *at <= '9') {
        uint64_t digit = (uint64_t)(*at - '0');

        if (__builtin_mul_overflow(value, 10U, &value) ||
                __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
        at++;
    }
    if (at == text) {
        return false;
    }
    if (*at != '\0') {
        int shift = suffix_shift(*at);

        if (shift < 0 || at[1] != '\0' || value > UINT64_MAX >> shift) {
            return false;
        }
        value <<= shift;
    }
    *bytes = value;
    return true;
}

bool bench_sweep_next(const struct bench_sweep *sweep, uint64_t *bytes)
{
    uint64_t next;
    bool overflow;

    if (sweep->step != 0) {
        overflow = __builtin_add_overflow(*bytes, sweep->step, &next);
    } else {
        overflow = __builtin_mul_overflow(*bytes, sweep->factor, &next);
    }
    /* next == *bytes: zero times a factor, which would never end */
    if (overflow || next > sweep->last || next == *bytes) {
        return false;
    }
    *bytes = next;
    return true;
}

int bench_default_iterations(uint64_t bytes)
{
    static const struct {
        uint64_t up_to;
        int iterations;
    } rules[] = {
        { UINT64_C(8) << 10, 1000 },
        { UINT64_C(2) << 20, 100 },
        { UINT64_C(64) << 20, 20 },
        { UINT64_MAX, 5 },
    };
    size_t i = 0;

    while (bytes > rules[i].up_to) {
        i++;
    }
    return rules[i].iterations;
}
