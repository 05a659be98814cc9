/*
 * What tuttirun --check wants to know of a host. An agent there (tuttirun --check-host)
 * writes it as lines "key value" between two marks, which separate it from what a shell
 * prints by itself. No I/O but the FILE.
 */
#ifndef TUTTI_TOOLS_CHECK_FACTS_H
#define TUTTI_TOOLS_CHECK_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "launcher/mpi_launcher/job_network.h"

#define FACTS_BEGIN "tutti-check-begin 1" /* the number is the protocol's version */
#define FACTS_END "tutti-check-end"

enum {
    FACTS_TEXT_MAX = 256, /* bytes of a name or sentence with its zero    */
    FACTS_ADDRESS_MAX = NETWORK_ADDRESS_MAX,
    FACTS_ADDRESSES_MAX = 16 /* addresses of one host                       */
};

struct facts {
    char release[FACTS_TEXT_MAX]; /* tutti_version() of its tuttirun            */
    char binary[FACTS_TEXT_MAX]; /* hash of the file of its tuttirun           */
    char host[FACTS_TEXT_MAX]; /* what it calls itself                       */
    char machine[FACTS_TEXT_MAX]; /* machine_identity(): equal names, one host  */
    char launcher
            [FACTS_TEXT_MAX]; /* version of the MPI launcher there; "": none      */
    char launcher_trouble[FACTS_TEXT_MAX]; /* why there is none                 */
    char seen_as[FACTS_ADDRESS_MAX]; /* its address on the way to us; "": unknown */
    char addresses[FACTS_ADDRESSES_MAX][FACTS_ADDRESS_MAX]; /* not loopback      */
    size_t address_count;
    uint64_t gpus; /* that programs can use                                 */
    uint64_t gpus_unusable; /* on the bus, but without a device file          */
    uint64_t shm_bytes; /* size of /dev/shm; 0: there is none                */
    uint64_t shm_free; /* of them not in use                                */
    uint64_t cma_errno; /* of process_vm_readv between siblings; 0: allowed  */
    int64_t ptrace_scope; /* of Yama; -1: no Yama                              */
    uint64_t port; /* on which the agent listens for the other hosts    */
    uint64_t nonce; /* that it sends on each connection                  */
};

/** Writes the lines, marks included. */
void facts_write(const struct facts *facts, FILE *file);

/**
 * Takes one line between the marks, without its newline. A key that is unknown is
 * ignored: agents may be newer.
 * @return TUTTI_OK, TUTTI_ERR_PROTOCOL (a value is malformed; the error shows the line)
 */
TUTTI_MUST_USE tutti_status facts_take(struct facts *facts, const char *line);

/** A number of decimal digits, up to 2^64 - 1; false when it is something else. */
bool facts_number(const char *text, uint64_t *value);
/** Cuts a line at its blanks. @return how many words there are, at most `capacity` */
size_t facts_words(char *line, char **words, size_t capacity);
/** An errno in words. */
const char *facts_errno(int error);

#endif
