/*
 * A host's kept memory: a control page and two slots. A slot holds one commit, cut into as many
 * shares as the host had ranks; each rank writes its own share and what is known of that.
 *
 *     control page | slot 0: facts of shares, bytes | slot 1: facts of shares, bytes
 *
 * Slots are far apart in a sparse file without a name (memfd). Only the control page is mapped:
 * a write for which there is no memory fails, and raises no SIGBUS.
 */
#ifndef TUTTI_TRAINER_ELASTIC_REGION_H
#define TUTTI_TRAINER_ELASTIC_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "elastic/control.h"

enum {
    REGION_SLOTS = 2
};

/** What is known of a share of a commit. */
struct region_share {
    uint64_t number; /* of the commit; 0: it is being written               */
    uint64_t layout; /* hash of what is in it                               */
    uint64_t total; /* bytes of the whole commit                           */
    uint64_t first, bytes; /* of the whole: this share                            */
    uint32_t crc; /* of its bytes                                        */
    uint32_t shares; /* that the commit has on this host                    */
    uint32_t is_complete; /* all ranks of the job had it                     */
    uint32_t unused;
};

/** One rank's view. */
struct region {
    int fd; /* owned                                               */
    struct elastic_control *control; /* mapped                              */
    uint32_t generation; /* of the job                                          */
    uint32_t local_rank,
            local_size; /* among those that share it; 0 and 1 without tuttirun */
};

/** What a slot holds, as far as its facts say; number 0: nothing that is whole. */
struct region_commit {
    uint64_t number, layout, total;
    uint32_t shares;
    bool is_complete;
};

/**
 * Opens what ELASTIC_VARIABLE names, or memory of this process alone where `text` is NULL.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM, TUTTI_ERR_CONFIG (malformed)
 */
TUTTI_MUST_USE tutti_status region_open(struct region *region, const char *text);
void region_close(struct region *region);

/** What is in a slot. */
struct region_commit region_look(const struct region *region, int slot);
/** Reads bytes of a commit. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status region_read(
        const struct region *region, int slot, uint64_t at, void *bytes, size_t count);
/** True when all shares of a slot have their checksums. `buffer` has `room` bytes. */
bool region_is_sound(const struct region *region, int slot, void *buffer, size_t room);

/** The share of this rank of `total` bytes; its number is 0. */
struct region_share region_share(const struct region *region, uint64_t total);
/** Writes what is known of this rank's share. @return TUTTI_OK, TUTTI_ERR_SYSTEM */
TUTTI_MUST_USE tutti_status region_put(
        const struct region *region, int slot, const struct region_share *share);
/**
 * Writes bytes [at, at + count) of a commit, those of them that are in the share, and continues its
 * checksum: pieces come in ascending order.
 * @return TUTTI_OK, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status region_write(const struct region *region, int slot,
        struct region_share *share, uint64_t at, const void *bytes, size_t count);

#endif
