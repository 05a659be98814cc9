/*
 * Gives a target each file of its corpus, and what is left of it when it is cut off anywhere
 * within its first bytes: what a compiler without libFuzzer can do.
 *
 *   fuzz_TARGET FOLDER
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

enum {
    FILE_MAX = 1 << 16,
    CUTS_MAX = 256
};

/* False when it is none. */
static bool replay(const char *path)
{
    static uint8_t bytes[FILE_MAX];
    FILE *file = fopen(path, "rb");
    size_t size;

    REQUIRE(file != NULL);
    size = fread(bytes, 1, sizeof bytes, file);
    if (ferror(file) != 0) { /* a folder */
        (void)fclose(file);
        return false;
    }
    (void)fclose(file);
    for (size_t cut = 0; cut < size && cut < CUTS_MAX; cut++) {
        (void)LLVMFuzzerTestOneInput(bytes, cut);
    }
    (void)LLVMFuzzerTestOneInput(bytes, size);
    return true;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;
    char path[1024];
    int files = 0;

    REQUIRE(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        files += replay(path) ? 1 : 0;
    }
    (void)closedir(folder);
    REQUIRE(files > 0);
    (void)printf("%d files\n", files);
    return 0;
}
