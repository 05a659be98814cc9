/*
 * The entries of a folder.
 */
#include "launcher/exec/folder.h"

#include <stddef.h>

const char *folder_next(DIR *folder)
{
    /* Safe, for no two threads read the same stream. */
    const struct dirent *entry = readdir(folder); /* NOLINT(concurrency-mt-unsafe) */

    return entry == NULL ? NULL : entry->d_name;
}

void folder_close(DIR *folder)
{
    if (folder != NULL) {
        (void)closedir(folder);
    }
}
