/*
 * What ranks that start give to each other (boot/session.h): gathered here, and spread when all
 * have given. There is one allgather at a time, for none begins the next before it has all of the
 * last; a rank that ended can give nothing, so all who wait for it are told.
 */
#ifndef TUTTI_LAUNCHER_JOB_EXCHANGE_H
#define TUTTI_LAUNCHER_JOB_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "launcher/session/link.h"

struct job;
struct server_link;

/** Zeroed: nobody has given. Who has is in struct rank. */
struct exchange {
    uint8_t *open; /* what was given so far, by rank; owned              */
    size_t bytes; /* of each rank in it                                 */
    int given; /* ranks that have                                    */
    uint8_t *done; /* the last that is whole; owned                      */
    size_t total; /* bytes of it                                        */
};

void exchange_fini(struct exchange *exchange);

/** A rank gives, or takes back. */
void exchange_give(
        struct job *job, struct server_link *link, const struct link_give *give);
/** A rank has so much of the whole; or asks who is missing, and waits no longer. */
void exchange_more(struct job *job, struct server_link *link, uint64_t offset);
/** Tells those who wait for a rank that has ended. */
void exchange_step(struct job *job);

#endif
