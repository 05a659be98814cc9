/*
 * The entries of a folder.
 */
#ifndef TUTTI_LAUNCHER_EXEC_FOLDER_H
#define TUTTI_LAUNCHER_EXEC_FOLDER_H

#include <dirent.h>

/** The next name, also "." and ".."; NULL at the end. Valid until the next call. */
const char *folder_next(DIR *folder);
/** Closes; NULL is allowed. */
void folder_close(DIR *folder);

#endif
