/*
 * What the header of a program says about the libraries that it needs. Pure: bytes in,
 * names out; nothing of the program is run.
 */
#ifndef TUTTI_LAUNCHER_ENGINE_ELF_H
#define TUTTI_LAUNCHER_ENGINE_ELF_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/arguments.h"

/** Zeroed is valid and empty. */
struct elf_needs {
    struct arguments
            libraries; /* "libm.so.6", in the order of the file               */
    struct arguments folders; /* where they are looked for first; "$ORIGIN" is kept  */
};

void elf_needs_fini(struct elf_needs *needs);

/**
 * Reads a program or shared library of this kind of machine (64 bits, our byte order).
 * @param[in,out] needs  empty; its lists note when memory runs out
 * @return false when it is none, is linked statically, or is damaged
 */
bool elf_read(const void *bytes, size_t len, struct elf_needs *needs);

#endif
