/*
 * Fails the n-th call of a kind that the library makes, and counts what it does not give
 * back. The linker puts this in front of the C library (--wrap, CMakeLists.txt), for all
 * objects of this program and none of the C library's own.
 */
#ifndef TUTTI_TEST_TORTURE_INJECT_H
#define TUTTI_TEST_TORTURE_INJECT_H

#include <stdbool.h>
#include <stdint.h>

enum inject_kind {
    INJECT_MEMORY, /* malloc() and its kin return NULL                       */
    INJECT_SYSTEM, /* system calls, mmap() among them, and threads: -1, errno */
    INJECT_MESSAGE, /* a control message is not sent                          */
    INJECT_KINDS
};

/** The n-th call of a kind from now fails, and no other. */
void inject_arm(enum inject_kind kind, uint64_t n);
/**
 * Nothing fails any more.
 * @param[out] what  the function that failed, or "nothing"
 * @return how many calls of the kind there were since inject_arm()
 */
uint64_t inject_disarm(const char **what);
/** The calling thread's calls neither count nor fail: they are the test's. */
void inject_exempt(bool is_exempt);
/** Blocks of memory and mappings that are not given back. */
long inject_alive(void);

#endif
