/*
 * The session of tuttirun as a source of boot.h. A rank speaks to its supervisor (tuttirun
 * --exec), which hands on what it says over the link to tuttirun; tuttirun gathers and spreads.
 *
 * The program inherits the door, a SOCK_SEQPACKET socket whose number is in the environment, as
 * it inherits the failure page: a name in a file system would need a folder and a check of who
 * calls. Who starts passes one end of a socket of its own through the door, so that each start,
 * also of one program after another below a shell, has a connection without a past, and its end
 * tells the supervisor that the process is gone.
 *
 *     rank                         supervisor, tuttirun
 *        (through the door) a socket -->
 *        <-- PLACE
 *     GIVE -->                                    each allgather:
 *        <-- PART              when all have given
 *     MORE -->                 the next part; who is missing?
 *        <-- FAILED            in words; nothing follows
 *
 * A message is its length (4 bytes, little-endian, of what follows), its type (1 byte) and
 * its fields as base/wire.h writes them.
 */
#ifndef TUTTI_BOOT_SESSION_H
#define TUTTI_BOOT_SESSION_H

#include "boot/boot.h"

/** The variable of the door: "FD INODE". */
#define BOOT_SESSION_VARIABLE "TUTTI_INTERNAL_SESSION"

enum {
    BOOT_SESSION_BYTES_MAX = 1
            << 16, /* that a rank gives to an allgather, and of a PART */
    BOOT_SESSION_MESSAGE_MAX = 1
            << 17 /* bytes of a whole message                        */
};

enum boot_message {
    BOOT_PLACE = 1, /* svarints: rank, size */
    BOOT_GIVE, /* str: the bytes of this rank                           */
    BOOT_MORE, /* u64: what is there already                            */
    BOOT_PART, /* u64: bytes of all ranks; u64: where these belong; str */
    BOOT_FAILED /* str: why                                             */
};

/**
 * Opens it where a supervisor is there. Not all ranks within five minutes is an error.
 * @param[out] boot  on TUTTI_OK; released with boot->close(boot->user)
 * @return TUTTI_OK, TUTTI_AGAIN (there is no supervisor), TUTTI_ERR_SYSTEM (it is gone; the
 *         error says how), TUTTI_ERR_PROTOCOL, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status boot_session_open(struct boot *boot);
/** With another time. */
TUTTI_MUST_USE tutti_status boot_session_open_within(struct boot *boot, int timeout_ms);

#endif
