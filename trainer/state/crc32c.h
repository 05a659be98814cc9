/*
 * CRC-32C (Castagnoli; RFC 3720, appendix B.4), as of iSCSI, ext4 and TFRecords.
 */
#ifndef TUTTI_TRAINER_STATE_CRC32C_H
#define TUTTI_TRAINER_STATE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** Continues a checksum; begin with 0. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/** The same without the processor's instruction. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif
