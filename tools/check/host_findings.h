/*
 * Finds what is wrong with hosts, from what was observed of them. No I/O.
 */
#ifndef TUTTI_TOOLS_CHECK_HOST_FINDINGS_H
#define TUTTI_TOOLS_CHECK_HOST_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/check/check_agent.h"
#include "tools/check/facts.h"
#include "tools/check/ssh.h"

enum {
    FINDING_TEXT_MAX = 1024 /* bytes of a sentence with its zero */
};

enum finding_level {
    FINDING_WARNING, /* jobs run, but not as they should      */
    FINDING_ERROR /* jobs with this host fail, or may hang */
};

struct finding {
    enum finding_level level;
    char text[FINDING_TEXT_MAX];
    char *command; /* to copy and paste; owned */
};

/** Zeroed is valid and empty. Adding latches the first failure. */
struct findings {
    struct finding *items; /* owned                     */
    size_t count;
    size_t capacity;
    size_t errors; /* of them                   */
    bool failed; /* out of memory             */
};

void findings_fini(struct findings *list);
/** Adds one. Takes ownership of command, which is NULL when out of memory. */
void findings_add(struct findings *list, enum finding_level level, char *command,
        const char *format, ...) __attribute__((format(printf, 4, 5)));

/** What each rank wants of /dev/shm, in bytes. */
#define SHM_PER_RANK (UINT64_C(64) << 20)

/** What was seen of one host. */
struct seen {
    const char *name; /* as the user wrote it; borrowed                  */
    int slots; /* ranks that it takes                             */
    bool is_here; /* its agent was started without ssh               */
    bool has_facts; /* it answered; else the next four say why not     */
    struct facts facts;
    bool is_late; /* it had not answered at the deadline             */
    int status; /* exit status of ssh, srun or the agent           */
    char last_words[FACTS_TEXT_MAX]; /* its last line of stderr             */
    int probe_status; /* enum connect_exit of a try to reach its sshd; -1: none */
    char probe[FACTS_TEXT_MAX]; /* what that said                           */
    char probe_host[FACTS_TEXT_MAX]; /* what ssh makes of the name          */
    char probe_port[16]; /* and which port it takes                         */
    size_t noise_lines; /* that a shell printed before the agent's          */
    char noise[FACTS_TEXT_MAX]; /* the first of them                        */
    double answer_ms; /* from the start of ssh to the agent's answer      */
    bool has_clock; /* the next two are known                          */
    double offset_s; /* its clock less ours                              */
    double round_trip_s; /* within which that was measured                  */
    char address[FACTS_ADDRESS_MAX]; /* at which the others try it; "": none */
    struct findings findings; /* owned                                       */
};

/** What hosts are compared with. */
struct findings_yardstick {
    struct ssh_way way; /* for the commands                                  */
    const char *self; /* path of tuttirun, the same on all hosts           */
    const char *launcher; /* path of the MPI launcher; "": none was found here       */
    const struct facts *here; /* of this machine                             */
};

/** A connection from one host to another. */
struct tried_pair {
    size_t from, to; /* indices of hosts                               */
    enum agent_pair what;
    int64_t number; /* by what; see enum agent_pair                   */
};

/** Fills seen->findings of all hosts. */
void host_findings_hosts(struct seen *const *hosts, size_t count,
        const struct findings_yardstick *yardstick);
/** Adds what is wrong with a connection, if anything is. */
void host_findings_pair(const struct seen *const *hosts, const struct tried_pair *pair,
        const struct findings_yardstick *yardstick, struct findings *findings);

/** Bytes as "64 MiB" or "1.5 GiB". Returns text. */
char *host_findings_bytes(uint64_t bytes, char *text, size_t capacity);

#endif
