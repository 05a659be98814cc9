/*
 * Connections of ssh that the generations of an elastic job share. The first ssh to a host
 * becomes their master (ControlMaster of ssh_config(5)), which stays; those of later generations
 * need no new connection.
 */
#ifndef TUTTI_LAUNCHER_ELASTIC_SSH_SHARE_H
#define TUTTI_LAUNCHER_ELASTIC_SSH_SHARE_H

enum {
    SSH_SHARE_MAX = 32 /* bytes of a folder's name with its zero */
};

/** Makes a folder for their sockets; "" where that fails: nothing is shared. */
void ssh_share_open(char folder[SSH_SHARE_MAX]);
/** Ends the masters, and removes the folder. */
void ssh_share_close(const char *folder);

#endif
