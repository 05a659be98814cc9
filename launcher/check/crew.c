/*
 * The agents on all hosts: one loop over the processes that lead to them.
 */
#include "launcher/check/crew.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/check/gather.h"
#include "launcher/check/probe.h"
#include "launcher/check/route.h"

enum {
    AT_ONCE_MAX = 64, /* hosts that are being connected to; sshd and DNS have limits */
    LINE_BYTES = 1024,
    END_MS = 500 /* that agents get to end by themselves                       */
};

#define SECONDS(n) ((n)*INT64_C(1000000000))
static const int64_t answer_limit_ns = SECONDS(SSH_CONNECT_S + 10);
static const int64_t pairs_limit_ns = SECONDS(5);

static int64_t real_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool is_this_machine(const struct host *host, const char *own_name)
{
    struct host copy = *host;
    const struct host_list list = { .hosts = &copy, .count = 1 };

    return host_list_is_here(&list, own_name);
}

static void init_member(
        struct crew_member *member, const struct host *host, bool is_here)
{
    member->seen = (struct seen){
        .name = host->name,
        .slots = host->slots,
        .is_here = is_here,
        .probe_status = -1,
    };
    member->talk = (struct talk){ .seen = &member->seen };
}

/* Every host takes three descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool asks_for_network(const struct options *options)
{
    return options->engine.nic != NULL && strcmp(options->engine.nic, "mpi") != 0;
}

tutti_status crew_init(
        struct crew *crew, const struct check_plan *plan, const char *own_name)
{
    static const struct host this_machine = { .name = "localhost", .slots = 1 };
    const struct host_list *hosts = &plan->placement->hosts;
    tutti_status status;

    *crew = (struct crew){ .plan = plan, .count = hosts->count };
    crew->count = hosts->count == 0 ? 1 : hosts->count;
    crew->members = mem_calloc(crew->count, sizeof *crew->members);
    crew->processes = mem_calloc(crew->count, sizeof(struct process *));
    crew->seen = mem_calloc(crew->count, sizeof(struct seen *));
    if (crew->members == NULL || crew->processes == NULL || crew->seen == NULL) {
        crew->count = crew->members == NULL ? 0 : crew->count;
        return error_set(
                TUTTI_ERR_NO_MEMORY, "out of memory for %zu hosts", crew->count);
    }
    for (size_t i = 0; i < crew->count; i++) {
        const struct host *host = hosts->count == 0 ? &this_machine : &hosts->hosts[i];

        init_member(&crew->members[i], host, is_this_machine(host, own_name));
        crew->processes[i] = &crew->members[i].process;
        crew->seen[i] = &crew->members[i].seen;
    }
    if (hosts->count == 0 && plan->options->ranks > 0) {
        crew->members[0].seen.slots = plan->options->ranks;
    }
    raise_limit();
    status = gather_self(crew->self, sizeof crew->self);
    if (status == TUTTI_OK && asks_for_network(plan->options)) {
        status = network_choose(hosts, plan->options->engine.nic, &crew->network);
    }
    gather_facts(&crew->here, plan->engine, plan->environment);
    crew->yardstick = (struct judge_yardstick){
        .way = { .options = plan->options,
                .is_slurm = plan->placement->is_slurm,
                .agent = ssh_agent(plan->options, plan->environment) },
        .self = crew->self,
        .engine = plan->engine,
        .here = &crew->here,
    };
    return status;
}

/* It will say no more: what it last said is kept, for judge_hosts(). */
static void end_member(struct crew_member *member)
{
    struct seen *seen = &member->seen;

    seen->status = member->process.status;
    process_last_words(&member->process, seen->last_words, sizeof seen->last_words);
    talk_end(&member->talk);
}

static void start_member(struct crew *crew, struct crew_member *member)
{
    const char *const words[] = { crew->self, "--check-host", crew->plan->engine,
        NULL };
    struct arguments command = { .items = NULL };

    ssh_run(&crew->yardstick.way, member->seen.name, member->seen.is_here, words,
            &command);
    member->started_ns = clock_ns();
    if (arguments_status(&command) != TUTTI_OK ||
            process_start(&member->process, command.items, crew->plan->environment) !=
                    TUTTI_OK) {
        (void)snprintf(member->seen.last_words, sizeof member->seen.last_words,
                "%.200s", tutti_last_error());
        talk_end(&member->talk);
    }
    arguments_fini(&command);
}

static void ask_clock(struct crew_member *member)
{
    talk_asked(&member->talk, real_ns());
    process_tell(&member->process, "clock\n", strlen("clock\n"));
}

static void note_pair(struct crew *crew, const struct judged_pair *pair)
{
    if (pair->to >= crew->count) {
        return;
    }
    crew->pairs++;
    crew->pairs_well += pair->what == AGENT_PAIR_OK ? 1 : 0;
    judge_pair((const struct seen *const *)crew->seen, pair, &crew->yardstick,
            &crew->general);
}

/* Takes what the agent of a host said. */
static void hear_member(struct crew *crew, size_t i)
{
    struct crew_member *member = &crew->members[i];
    struct judged_pair pair = { .from = i };
    char line[LINE_BYTES];
    bool had_facts = member->seen.has_facts;

    while (member->talk.state != TALK_OVER &&
            process_take_line(&member->process, line, sizeof line)) {
        switch (talk_line(&member->talk, line, real_ns(), &pair)) {
        case TALK_GO_ON:
            break;
        case TALK_ASK_CLOCK:
            ask_clock(member);
            break;
        case TALK_PAIR:
            note_pair(crew, &pair);
            break;
        }
    }
    if (!had_facts && member->seen.has_facts) {
        member->seen.answer_ms = (double)(clock_ns() - member->started_ns) / 1e6;
    }
    if (member->process.has_ended && member->talk.state != TALK_OVER) {
        end_member(member);
    }
}

/* Hears all of them once. */
static void turn(struct crew *crew, int64_t until_ns)
{
    process_poll(crew->processes, crew->count, until_ns);
    for (size_t i = 0; i < crew->count; i++) {
        if (crew->members[i].started_ns != 0) {
            hear_member(crew, i);
        }
    }
}

static bool is_settled(const struct crew_member *member)
{
    return member->talk.state == TALK_READY || member->talk.state == TALK_OVER;
}

/* Starts as many as may be on their way; returns how many are not settled. */
static size_t start_some(struct crew *crew)
{
    size_t unsettled = 0;
    size_t on_their_way = 0;

    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->members[i];

        if (member->started_ns == 0 && on_their_way < AT_ONCE_MAX) {
            start_member(crew, member);
        }
        if (!is_settled(member)) {
            unsettled++;
            on_their_way += member->started_ns != 0 ? 1 : 0;
        }
    }
    return unsettled;
}

static void give_up_late(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->members[i];

        if (member->started_ns != 0 && !is_settled(member) &&
                clock_ns() - member->started_ns > answer_limit_ns) {
            member->seen.is_late = true;
            end_member(member);
        }
    }
}

void crew_gather(struct crew *crew)
{
    while (start_some(crew) > 0) {
        turn(crew, clock_ns() + SECONDS(1));
        give_up_late(crew);
    }
}

void crew_probe(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        struct seen *seen = &crew->members[i].seen;

        crew->processes[i] = &crew->members[i].process;
        if (!seen->has_facts && !seen->is_here && !crew->plan->placement->is_slurm) {
            process_fini(&crew->members[i].process);
        }
    }
    if (!crew->plan->placement->is_slurm) {
        probe_hosts(crew->seen, crew->count, &crew->yardstick, crew->plan->environment);
    }
}

/* The address at which others find a host of which no route is known. */
static void choose_address(struct crew *crew, struct seen *seen)
{
    const struct facts *facts = &seen->facts;
    bool is_near = seen->is_here || strcmp(facts->machine, crew->here.machine) == 0;

    for (size_t i = 0; is_near && i < crew->count && seen->address[0] == '\0'; i++) {
        const struct seen *other = crew->seen[i];

        if (other->has_facts && strcmp(other->facts.machine, facts->machine) != 0 &&
                other->facts.seen_as[0] != '\0') {
            (void)route_source(other->facts.seen_as, seen->address);
        }
    }
    if (seen->address[0] == '\0' && !is_near) {
        (void)snprintf(seen->address, sizeof seen->address, "%s", facts->seen_as);
    }
    if (seen->address[0] == '\0') {
        (void)snprintf(seen->address, sizeof seen->address, "%s",
                facts->address_count > 0 ? facts->addresses[0] : "127.0.0.1");
    }
}

/* By --nic, which says what the ranks will use, or by route. */
static void place_member(struct crew *crew, struct seen *seen)
{
    static const char *const words[] = { "ip", "addr", NULL };

    if (crew->network.cidrs[0] == '\0') {
        choose_address(crew, seen);
    } else if (!route_inside(&seen->facts, crew->network.cidrs, seen->address)) {
        findings_add(&seen->findings, FINDING_ERROR,
                ssh_line(&crew->yardstick.way, seen->name, seen->is_here, words),
                "it has no address inside %s, as --nic asks for", crew->network.cidrs);
    }
}

static void tell_peers(struct crew *crew, size_t from)
{
    struct crew_member *member = &crew->members[from];
    size_t limit =
            crew->count - 1 < AGENT_PEERS_MAX ? crew->count - 1 : AGENT_PEERS_MAX;
    char line[LINE_BYTES];

    for (size_t k = 1; k <= limit; k++) {
        size_t to = (from + k) % crew->count;
        const struct seen *peer = crew->seen[to];
        int len;

        if (peer->has_facts && peer->address[0] != '\0' &&
                crew->members[to].talk.state != TALK_OVER) {
            len = snprintf(line, sizeof line, "to %zu %" PRIu64 " %" PRIu64 " %s\n", to,
                    peer->facts.nonce, peer->facts.port, peer->address);
            process_tell(&member->process, line, (size_t)len);
        }
    }
    talk_go(&member->talk);
    process_tell(&member->process, "go\n", strlen("go\n"));
}

static bool is_pairing(const struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        if (crew->members[i].talk.state == TALK_PAIRS) {
            return true;
        }
    }
    return false;
}

/* Hosts that answered first and then fell silent: of them nothing is known. */
static void note_silent(struct crew *crew)
{
    static const char *const words[] = { "true", NULL };

    for (size_t i = 0; i < crew->count; i++) {
        const struct seen *seen = crew->seen[i];

        if (seen->has_facts && crew->members[i].talk.state != TALK_READY) {
            findings_add(&crew->general, FINDING_ERROR,
                    ssh_line(&crew->yardstick.way, seen->name, seen->is_here, words),
                    "%s did not say how its connections went%s%s", seen->name,
                    seen->last_words[0] == '\0' ? "" : ": ", seen->last_words);
        }
    }
}

void crew_pair(struct crew *crew)
{
    int64_t started = clock_ns();

    for (size_t i = 0; i < crew->count; i++) {
        if (crew->seen[i]->has_facts) {
            place_member(crew, crew->seen[i]);
        }
    }
    if (crew->count < 2) {
        return;
    }
    for (size_t i = 0; i < crew->count; i++) {
        if (crew->members[i].talk.state == TALK_READY) {
            tell_peers(crew, i);
        }
    }
    while (is_pairing(crew) && clock_ns() < started + pairs_limit_ns) {
        turn(crew, started + pairs_limit_ns);
    }
    crew->pairs_ms = (double)(clock_ns() - started) / 1e6;
    note_silent(crew);
}

void crew_fini(struct crew *crew)
{
    int64_t until = clock_ns() + INT64_C(1000000) * END_MS;
    bool is_running = crew->processes != NULL;

    for (size_t i = 0; i < crew->count; i++) {
        process_close_input(&crew->members[i].process);
    }
    while (is_running && clock_ns() < until) {
        process_poll(crew->processes, crew->count, until);
        is_running = false;
        for (size_t i = 0; i < crew->count; i++) {
            const struct process *process = &crew->members[i].process;

            is_running = is_running || (process->pid > 0 && !process->has_ended);
        }
    }
    for (size_t i = 0; i < crew->count; i++) {
        process_fini(&crew->members[i].process);
        findings_fini(&crew->members[i].seen.findings);
    }
    findings_fini(&crew->general);
    mem_free(crew->members);
    mem_free(crew->processes);
    mem_free(crew->seen);
    *crew = (struct crew){ .count = 0 };
}
