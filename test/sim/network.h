/*
 * The simulated network: a FIFO link for each ordered pair of ranks, shared by all process
 * sets. Order is kept within a link and is anything between links.
 */
#ifndef TUTTI_SIM_NETWORK_H
#define TUTTI_SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message {
    struct message *next;
    int from, to; /* world ranks */
    int set;
    int shown; /* words that the sender had written to its board before */
    size_t len;
    uint8_t bytes[];
};

struct link {
    struct message *first, *last;
    int position; /* in busy, while not empty */
};

struct network {
    int ranks;
    struct link *links; /* [ranks * ranks]; owned           */
    int *busy; /* links that are not empty; owned  */
    int busy_count;
};

void network_init(struct network *network, int ranks);
void network_fini(struct network *network);
void network_send(
        struct network *network, const struct message *head, const void *bytes);
/** Takes the oldest message of the index-th busy link; free(). */
struct message *network_take(struct network *network, int index);
/** The rank that the index-th busy link leads to. */
int network_target(const struct network *network, int index);
/** Drops everything that is under way to a rank. */
void network_drop(struct network *network, int rank);

#endif
