/*
 * cmocka, with the headers that it needs but does not include itself, and tests that list
 * themselves.
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

/** Fails the test unless a call gives TUTTI_OK. */
#define ASSERT_OK(call) assert_int_equal(call, TUTTI_OK)

/** Has main() of unit_main.c run a test: UNIT_TEST(name) { ... }, in the order of the file. */
#define UNIT_TEST(name) UNIT_TEST_WITH(name, NULL, NULL)

/** The same, between a CMFixtureFunction that sets up and one that tears down. */
#define UNIT_TEST_WITH(name, set_up, tear_down) \
    static void name(void **state); \
    __attribute__((constructor)) static void add_##name(void) \
    { \
        unit_add(#name, name, set_up, tear_down); \
    } \
    static void name(void **state __attribute__((unused)))

/* NOLINTBEGIN(bugprone-macro-parentheses): a parameter is no expression */
/**
 * The same; the body is given what the set-up made, as a parameter:
 * UNIT_TEST_ON(name, struct stage *stage, set_up, tear_down) { ... }
 */
#define UNIT_TEST_ON(name, parameter, set_up, tear_down) \
    static void name##_on(parameter); \
    UNIT_TEST_WITH(name, set_up, tear_down) \
    { \
        name##_on(*state); \
    } \
    static void name##_on(parameter __attribute__((unused)))
/* NOLINTEND(bugprone-macro-parentheses) */

/** The same after each of these CMFixtureFunctions, in turn. */
#define UNIT_TEST_SET_UPS(name, ...) \
    static void name(void **state); \
    __attribute__((constructor)) static void add_##name(void) \
    { \
        const CMFixtureFunction set_ups[] = { __VA_ARGS__ }; \
\
        for (size_t i = 0; i < sizeof set_ups / sizeof *set_ups; i++) { \
            unit_add(#name, name, set_ups[i], NULL); \
        } \
    } \
    static void name(void **state __attribute__((unused)))

void unit_add(const char *name, CMUnitTestFunction function, CMFixtureFunction set_up,
        CMFixtureFunction tear_down);

#endif
