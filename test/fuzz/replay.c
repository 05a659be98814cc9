/*
 * Gives a target each file of its corpus, and what is left of it when it is cut off anywhere
 * within its first bytes: what a compiler without libFuzzer can do.
 *
 *   fuzz_TARGET CORPUS.tar
 */
#include <string.h>

#include "fuzz.h"

enum {
    BLOCK = 512, /* of an archive */
    FILE_MAX = 1 << 16,
    CUTS_MAX = 256
};

/* Reads the next file; false at the end of the archive. */
static bool read_file(FILE *archive, uint8_t bytes[FILE_MAX], size_t *size)
{
    char header[BLOCK];
    size_t padded;

    REQUIRE(fread(header, 1, BLOCK, archive) == BLOCK);
    *size = strtoul(header + 124, NULL, 8); /* it is followed by the time */
    padded = (*size + BLOCK - 1) / BLOCK * BLOCK;
    REQUIRE(padded <= FILE_MAX && fread(bytes, 1, padded, archive) == padded);
    return header[0] != '\0';
}

int main(int argc, char **argv)
{
    static uint8_t bytes[FILE_MAX];
    FILE *archive = argc == 2 ? fopen(argv[1], "rb") : NULL;
    size_t size;
    int files = 0;

    REQUIRE(archive != NULL);
    while (read_file(archive, bytes, &size)) {
        for (size_t cut = 0; cut < size && cut < CUTS_MAX; cut++) {
            (void)LLVMFuzzerTestOneInput(bytes, cut);
        }
        (void)LLVMFuzzerTestOneInput(bytes, size);
        files++;
    }
    (void)fclose(archive);
    REQUIRE(files > 0);
    (void)printf("%d files\n", files);
    return 0;
}
