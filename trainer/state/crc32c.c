/*
 * CRC-32C with the processor's instruction where it has one, and with a table elsewhere.
 */
#include "state/crc32c.h"

#include <string.h>

/* Of an instruction: the target that has it, whether the processor does, and its two forms. */
#if defined(__x86_64__)
#    include <nmmintrin.h>
#    define CRC_TARGET "sse4.2"
#    define CRC_AVAILABLE __builtin_cpu_supports("sse4.2")
#    define CRC_WORD(crc, word) (uint32_t) _mm_crc32_u64(crc, word)
#    define CRC_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
#elif defined(__aarch64__)
#    include <arm_acle.h>
#    include <sys/auxv.h>
#    define CRC_TARGET "+crc"
#    define CRC_AVAILABLE (getauxval(AT_HWCAP) & HWCAP_CRC32)
#    define CRC_WORD(crc, word) __crc32cd(crc, word)
#    define CRC_BYTE(crc, byte) __crc32cb(crc, byte)
#endif

/* Castagnoli's polynomial, reflected: what four bits become. */
static const uint32_t nibbles[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
    0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6,
    0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;

    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return ~crc;
}

#if defined(CRC_TARGET)
__attribute__((target(CRC_TARGET))) static uint32_t crc32c_hardware(
        uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;

    crc = ~crc;
    for (; bytes >= sizeof(uint64_t);
            bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, at, sizeof word);
        crc = CRC_WORD(crc, word);
    }
    for (; bytes > 0; bytes--, at++) {
        crc = CRC_BYTE(crc, *at);
    }
    return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return CRC_AVAILABLE ? crc32c_hardware(crc, data, bytes)
                         : crc32c_portable(crc, data, bytes);
}
#else
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return crc32c_portable(crc, data, bytes);
}
#endif
