/*
 * The inside of parameter servers: what a rank knows, and the messages.
 *
 * A pair is a process set of a client (worker or evaluator), its rank 0, and a server, its
 * rank 1. A broadcast whose root is the sender is a message. There are four:
 *
 *     first   client -> server   the values that the server begins with
 *     head    client -> server   what the client asks for
 *     push    client -> server   gradients, behind a head of SERVER_ASKS_PUSH
 *     answer  server -> client   a header and parameters: the answer to all other heads
 *
 * A pair has one message in flight on the server. Their callback wakes the thread that serves,
 * which alone does everything else.
 */
#ifndef TUTTI_TRAINER_SERVER_SERVER_H
#define TUTTI_TRAINER_SERVER_SERVER_H

#include <pthread.h>

#include <tutti/trainer/server.h>

#include "server/plan.h"
#include "state/agree.h"

enum {
    SERVER_NAME_MAX = 200 /* bytes of options.name */
};

/** What a client asks for. */
enum server_ask {
    SERVER_ASKS_PUSH,
    SERVER_ASKS_PULL,
    SERVER_ASKS_FINISH
};

/** The numbers of a head, and of the header of an answer. */
enum server_number {
    HEAD_ASK = 0, /* enum server_ask                                     */
    HEAD_RATE = 1, /* the learning rate of a push                         */
    HEAD_NUMBERS = 2,
    ANSWER_SLOWEST = 0, /* smallest clock of the workers that are not finished */
    ANSWER_OVER = 1 /* 1: all are finished                                 */
};

/** Where a pair is on the server: at a message in flight, or at none. */
enum server_state {
    SERVER_FIRST,
    SERVER_HEAD,
    SERVER_PUSH,
    SERVER_ANSWER,
    SERVER_MESSAGES, /* their number                                        */
    SERVER_ASKED, /* the head has come and is to be followed            */
    SERVER_DONE /* the last answer has left                            */
};

/** What is copied between parameters and messages. */
enum server_copy {
    SERVER_VALUES_OUT,
    SERVER_GRADIENTS_OUT,
    SERVER_VALUES_IN /* from the message */
};

/** A client and a server. */
struct server_pair {
    struct tutti_server *ps;
    int peer; /* the other rank, in the world                            */
    bool is_worker; /* the client trains                                       */
    tutti_process_set set;
    const struct server_slice *slices; /* of the server                             */
    size_t slice_count;
    size_t bytes; /* of the slices in memory                                 */
    double head[HEAD_NUMBERS];
    double *header; /* of an answer; SERVER_ALIGN bytes                        */
    char *part; /* behind it: gradients of a push, parameters of an answer */
    int64_t steps[SERVER_MESSAGES]; /* messages so far: the steps of their names */
    tutti_request requests[2]; /* of a client                             */
    /* On a server, by the thread that serves: */
    enum server_state state;
    bool held; /* a gradient in `part` is not yet in the parameters       */
    bool finished; /* asked to finish: does not count any more                */
    int64_t clock; /* pushes in the parameters                                */
    double rate; /* of the last push                                        */
    /* On a server, under ps->lock: */
    bool in_flight; /* the callback of a message has not run                   */
};

struct tutti_server {
    tutti *t;
    tutti_server_options options;
    char name[SERVER_NAME_MAX + 1]; /* in front of the names of operations     */
    tutti_role role;
    size_t n;
    tutti_param *params; /* with names of their own                         */
    int32_t *ranks; /* of the world: chief, workers, evaluators, servers   */
    int worker_count; /* with the chief                                     */
    int client_count; /* with the evaluators                                */
    int server_count;
    struct server_slice *slices; /* of the pairs                                    */
    int pair_count;
    struct server_pair *pairs; /* one per server, or on a server one per client   */
    tutti_process_set *sets; /* all of the job: removed together                */
    int set_count;
    void *memory; /* of pairs, values and velocity; of tutti_alloc()  */
    bool pulled, finished; /* of a client; served: finished                   */
    bool failed; /* a call failed and cannot be repeated            */
    double rate;
    tutti_server_report report;
    /* Of a server: */
    char *values; /* of its part                                     */
    char *velocity; /* likewise; NULL without momentum                 */
    int left; /* pairs whose last answer has not left           */
    pthread_mutex_t lock; /* of the following, and of pair->in_flight        */
    pthread_cond_t arrived;
    bool news; /* a callback has run                              */
    tutti_status status; /* the first failure                               */
    char message[512];
};

/* options.c */

/** What is wrong with the arguments of tutti_server_create() on this rank. */
tutti_status server_check(
        const struct tutti_server *ps, const tutti_param *params, size_t n);

/**
 * Collective: all ranks have the same settings and parameters.
 * @param status  what this rank alone has found so far: all get that
 */
tutti_status server_compare(const struct tutti_server *ps,
        const struct state_group *group, tutti_status status);

/** How many pushes may be missing in what a worker pulls. */
int64_t server_bound(const struct tutti_server *ps);

/* message.c */

/** Begins a message of a pair; as tutti_broadcast_async(). The callback gets the pair. */
tutti_status server_message(struct server_pair *pair, enum server_state message,
        tutti_callback callback, tutti_request *request);

/**
 * Waits for the messages of a client.
 * @param status  whether all have been begun; if not, or if one fails, server_give_up()
 */
tutti_status server_wait(struct tutti_server *ps, tutti_status status);

/** Ends the job with the calling thread's last error, which stays; no message is in flight. */
tutti_status server_give_up(struct tutti_server *ps, tutti_status status);

/** Copies between the parameters and a pair's part of them. */
void server_copy(const struct server_pair *pair, enum server_copy what);

/* update.c */

/** Adds the gradient of a pair to that of another. */
void server_add(const struct server_pair *sum, const struct server_pair *pair);

/** Updates the part of this server with the gradient of a pair, divided by n. */
void server_update(const struct server_pair *pair, int n);

#endif
