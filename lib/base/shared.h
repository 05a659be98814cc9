/*
 * Functions of the library that its plug-ins call: exported with the version TUTTI_PRIVATE, and
 * under names that no program has, so that no program's function comes in their place.
 */
#ifndef TUTTI_BASE_SHARED_H
#define TUTTI_BASE_SHARED_H

/** At the end of a declaration, before other attributes. */
#define TUTTI_SHARED(name) \
    __asm__("libtutti_" #name) __attribute__((visibility("default")))

#endif
