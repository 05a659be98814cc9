/*
 * The hosts of an elastic job over all its generations: which are there, which are put aside
 * for a while or for good because ranks fail on them, and which the next generation gets. Pure;
 * times are nanoseconds of tuttirun's monotonic clock.
 */
#ifndef TUTTI_LAUNCHER_ELASTIC_MEMBERS_H
#define TUTTI_LAUNCHER_ELASTIC_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

#include "launcher/hosts/host_list.h"
#include "launcher/job/ranks.h"
#include "launcher/job/report.h"

enum {
    MEMBER_FAILURES = 3 /* without a commit between, until a host is put aside */
};

/** One host. */
struct member {
    char name[HOST_NAME_LIMIT]; /* "": this machine, which no list names        */
    int slots;
    bool is_listed; /* by the newest list                               */
    int failures; /* of ranks on it since the last commit            */
    int returns; /* how often it was put aside                      */
    int64_t aside_until; /* 0: it may be used; INT64_MAX: never again        */
};

/** Zeroed is valid and empty. */
struct members {
    struct member *items; /* owned; in the order in which they came         */
    size_t count;
    int64_t cooldown[2]; /* least and greatest time aside; 0, 0: for good    */
};

void members_fini(struct members *members);

/** Reads "MIN,MAX", seconds with fractions, as nanoseconds; false: malformed, or none, or MAX < MIN. */
bool members_read_cooldown(const char *text, int64_t range[2]);

/**
 * Takes a newer list: hosts that are not in it are left out, new ones come behind.
 * @return TUTTI_OK, TUTTI_ERR_NO_MEMORY
 */
TUTTI_MUST_USE tutti_status members_update(
        struct members *members, const struct host_list *list);

/** The job has committed: what failed before is forgotten. */
void members_forget_failures(struct members *members);
/** A rank failed on a host; puts that aside when it was one too many. @return that it did */
bool members_fail(struct members *members, size_t index, int64_t now);
/** Puts a host aside: it is silent, or cannot be reached. */
void members_put_aside(struct members *members, size_t index, int64_t now);
/** The member of this name; -1: none. */
int members_find(const struct members *members, const char *name);

/**
 * Chooses hosts for the next generation: those that may be used, in their order, with as many
 * slots as get ranks.
 * @param most  ranks at most
 * @param[in,out] list  an empty list, in which "this machine" is none; NULL: only counts
 * @return how many ranks; -1: out of memory
 */
int members_choose(
        const struct members *members, int most, int64_t now, struct host_list *list);
/** When the next host comes back; INT64_MAX: none does. */
int64_t members_next_return(const struct members *members, int64_t now);

/* -------- what a generation's end says of hosts */

/** What is known of a generation that has ended. Borrowed. */
struct judge_facts {
    uint32_t generation;
    const struct ranks *ranks;
    const struct cause *cause;
    const struct host_list
            *hosts; /* on whose slots they were, in order; empty: this machine */
    int orphan; /* rank whose MPI launcher's daemon died first; -1: none    */
    /* True when the MPI launcher named a host in what it said. */
    bool (*names)(const void *context, const char *host);
    const void *context;
};

enum judge_verdict {
    JUDGE_FINISHED, /* the program is done                             */
    JUDGE_LEFT, /* all ranks left, to be started anew              */
    JUDGE_FAILED, /* in a way of which another start may be spared   */
    JUDGE_FATAL /* another start would end in the same way, or is not wanted */
};

/** True for a line of ssh that does not reach this host. */
bool judge_names(const char *line, const char *host);
/** What has happened. */
enum judge_verdict judge_end(const struct judge_facts *facts);
/**
 * Blames hosts for a JUDGE_FAILED, after forgetting earlier failures where the job has
 * committed since. Says on stderr which are put aside.
 */
void judge_hosts(const struct judge_facts *facts, struct members *members, int64_t now);

#endif
