/*
 * A fixed amount of arithmetic that stays in registers: the back-propagation of
 * `overlap --compute cpu`, without any memory traffic that communication could disturb.
 */
#ifndef TUTTI_BENCH_CORE_ARITHMETIC_H
#define TUTTI_BENCH_CORE_ARITHMETIC_H

#include <stdint.h>

/** Does `units` units of work, about a microsecond each; the result only proves it. */
double bench_arithmetic(uint64_t units);
/** Units per millisecond of the calling thread, the best of several short runs. */
double bench_arithmetic_rate(void);
/** Monotonic microseconds. */
double bench_now_us(void);

#endif
