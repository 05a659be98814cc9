/*
 * cmocka with the headers that it needs but does not include itself.
 */
#ifndef TUTTI_TEST_UNIT_H
#define TUTTI_TEST_UNIT_H

/* cmocka.h must come last. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
