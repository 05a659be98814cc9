#include "launcher/elastic/ssh_share.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/exec/keeper.h"
#include "launcher/exec/procs.h"
#include "launcher/job/launcher_process.h"

enum {
    END_MS = 1000 /* that masters have to end in */
};

void ssh_share_open(char folder[SSH_SHARE_MAX])
{
    /* Not below $TMPDIR: a socket's name is short. */
    (void)snprintf(folder, SSH_SHARE_MAX, "/tmp/tutti-ssh.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        folder[0] = '\0';
    }
}

/* Sockets of masters that were killed. */
static void empty(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is read by one thread */
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
}

void ssh_share_close(const char *folder)
{
    if (folder[0] == '\0') {
        return;
    }
    if (procs_signal_descendants(SIGTERM, KEEPER_NAME, NULL) > 0) {
        launcher_process_end_rest(END_MS, NULL);
    }
    empty(folder);
    (void)rmdir(folder);
}
