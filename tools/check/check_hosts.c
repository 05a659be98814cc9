/*
 * The agents on all hosts: one loop over the processes that lead to them.
 */
#include "tools/check/check_hosts.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/program.h"
#include "tools/check/local_facts.h"
#include "tools/check/probe.h"

enum {
    AT_ONCE_MAX = 64, /* hosts that are being connected to; sshd and DNS have limits */
    LINE_BYTES = 1024,
    OTHER_DESCRIPTORS = 64, /* beside four of each host */
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

static void init_member(
        struct check_host *member, const struct host *host, bool is_here)
{
    member->seen = (struct seen){
        .name = host->name,
        .slots = host->slots,
        .is_here = is_here,
        .probe_status = -1,
    };
    member->talk = (struct talk){ .seen = &member->seen };
}

static bool asks_for_network(const struct options *options)
{
    return options->nic != NULL && strcmp(options->nic, "mpi") != 0;
}

tutti_status check_hosts_init(
        struct check_hosts *checked, const struct check_plan *plan)
{
    static struct host this_machine = { .name = "localhost", .slots = 1 };
    const struct host_list *hosts = &plan->placement->hosts;
    tutti_status status;

    *checked = (struct check_hosts){ .plan = plan, .loop.epoll = -1 };
    checked->count = hosts->count == 0 ? 1 : hosts->count;
    checked->members = mem_calloc(checked->count, sizeof *checked->members);
    checked->seen = mem_calloc(checked->count, sizeof(struct seen *));
    if (checked->members == NULL || checked->seen == NULL) {
        checked->count = checked->members == NULL ? 0 : checked->count;
        return error_set(
                TUTTI_ERR_NO_MEMORY, "out of memory for %zu hosts", checked->count);
    }
    for (size_t i = 0; i < checked->count; i++) {
        struct host *host = hosts->count == 0 ? &this_machine : &hosts->hosts[i];
        const struct host_list one = { .hosts = host, .count = 1 };

        init_member(&checked->members[i], host, network_is_here(&one));
        checked->seen[i] = &checked->members[i].seen;
    }
    if (hosts->count == 0 && plan->options->np > 0) {
        checked->members[0].seen.slots = plan->options->np;
    }
    (void)loop_raise_limit(4 * (uint64_t)checked->count + OTHER_DESCRIPTORS);
    status = loop_init(&checked->loop);
    if (status == TUTTI_OK) {
        status = program_self(checked->self, sizeof checked->self);
    }
    if (status == TUTTI_OK && asks_for_network(plan->options)) {
        status = network_choose(hosts, plan->options->nic, &checked->network);
    }
    gather_facts(&checked->here, plan->launcher, plan->environment);
    checked->yardstick = (struct findings_yardstick){
        .way = { .options = plan->options,
                .is_slurm = plan->placement->is_slurm,
                .agent = ssh_agent(plan->options, plan->environment) },
        .self = checked->self,
        .launcher = plan->launcher,
        .here = &checked->here,
    };
    return status;
}

/* Nothing more will come: its last words are kept for host_findings_hosts(). */
static void end_member(struct check_host *member)
{
    struct seen *seen = &member->seen;

    seen->status = member->process.status;
    process_last_words(&member->process, seen->last_words, sizeof seen->last_words);
    member->talk.state = TALK_OVER;
}

static void start_member(struct check_hosts *checked, struct check_host *member)
{
    const char *const words[] = { checked->self, "--check-host",
        checked->plan->launcher, NULL };
    struct arguments command = { .items = NULL };

    ssh_run(&checked->yardstick.way, member->seen.name, member->seen.is_here, words,
            &command);
    member->started_ns = clock_ns();
    if (arguments_status(&command) != TUTTI_OK ||
            process_start(&member->process, command.items,
                    checked->plan->environment) != TUTTI_OK) {
        (void)snprintf(member->seen.last_words, sizeof member->seen.last_words,
                "%.200s", tutti_last_error());
        member->talk.state = TALK_OVER;
    } else {
        process_watch(&member->process, &checked->loop);
    }
    arguments_fini(&command);
}

static void ask_clock(struct check_host *member)
{
    member->talk.asked_real_ns = real_ns();
    process_write(&member->process, "clock\n", strlen("clock\n"));
}

static void note_pair(struct check_hosts *checked, const struct tried_pair *pair)
{
    if (pair->to >= checked->count) {
        return;
    }
    checked->pairs++;
    checked->pairs_well += pair->what == AGENT_PAIR_OK ? 1 : 0;
    host_findings_pair((const struct seen *const *)checked->seen, pair,
            &checked->yardstick, &checked->general);
}

/* Reads what the agent of a host has written. */
static void read_member(struct check_hosts *checked, size_t i)
{
    struct check_host *member = &checked->members[i];
    struct tried_pair pair = { .from = i };
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
            note_pair(checked, &pair);
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

/* Reads from all of them once. */
static void turn(struct check_hosts *checked, int64_t until_ns)
{
    (void)loop_turn(&checked->loop, until_ns);
    for (size_t i = 0; i < checked->count; i++) {
        if (checked->members[i].started_ns != 0) {
            read_member(checked, i);
        }
    }
}

static bool is_settled(const struct check_host *member)
{
    return member->talk.state == TALK_READY || member->talk.state == TALK_OVER;
}

/* Starts as many as may be on their way; returns how many are not settled. */
static size_t start_some(struct check_hosts *checked)
{
    size_t unsettled = 0;
    size_t on_their_way = 0;

    for (size_t i = 0; i < checked->count; i++) {
        struct check_host *member = &checked->members[i];

        if (member->started_ns == 0 && on_their_way < AT_ONCE_MAX) {
            start_member(checked, member);
        }
        if (!is_settled(member)) {
            unsettled++;
            on_their_way += member->started_ns != 0 ? 1 : 0;
        }
    }
    return unsettled;
}

static void give_up_late(struct check_hosts *checked)
{
    for (size_t i = 0; i < checked->count; i++) {
        struct check_host *member = &checked->members[i];

        if (member->started_ns != 0 && !is_settled(member) &&
                clock_ns() - member->started_ns > answer_limit_ns) {
            member->seen.is_late = true;
            end_member(member);
        }
    }
}

void check_hosts_gather(struct check_hosts *checked)
{
    while (start_some(checked) > 0) {
        turn(checked, clock_ns() + SECONDS(1));
        give_up_late(checked);
    }
}

void check_hosts_probe(struct check_hosts *checked)
{
    for (size_t i = 0; i < checked->count; i++) {
        struct seen *seen = &checked->members[i].seen;

        if (!seen->has_facts && !seen->is_here && !checked->plan->placement->is_slurm) {
            process_fini(&checked->members[i].process);
        }
    }
    if (!checked->plan->placement->is_slurm) {
        probe_hosts(checked->seen, checked->count, &checked->yardstick,
                checked->plan->environment);
    }
}

/* The address at which others find a host of which no route is known. */
static void choose_address(struct check_hosts *checked, struct seen *seen)
{
    const struct facts *facts = &seen->facts;
    bool is_near = seen->is_here || strcmp(facts->machine, checked->here.machine) == 0;

    for (size_t i = 0; is_near && i < checked->count && seen->address[0] == '\0'; i++) {
        const struct seen *other = checked->seen[i];

        if (other->has_facts && strcmp(other->facts.machine, facts->machine) != 0 &&
                other->facts.seen_as[0] != '\0') {
            (void)network_source(other->facts.seen_as, seen->address);
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

/* By --nic, the network of the ranks, or by route. */
static void place_member(struct check_hosts *checked, struct seen *seen)
{
    static const char *const words[] = { "ip", "addr", NULL };
    const struct facts *facts = &seen->facts;
    const char *inside;

    if (checked->network.cidrs[0] == '\0') {
        choose_address(checked, seen);
        return;
    }
    inside = network_first_inside(
            checked->network.cidrs, facts->addresses, facts->address_count);
    if (inside != NULL) {
        (void)snprintf(seen->address, sizeof seen->address, "%s", inside);
    } else {
        findings_add(&seen->findings, FINDING_ERROR,
                ssh_line(&checked->yardstick.way, seen->name, seen->is_here, words),
                "it has no address inside %s, as --nic asks for",
                checked->network.cidrs);
    }
}

static void send_peers(struct check_hosts *checked, size_t from)
{
    struct check_host *member = &checked->members[from];
    size_t limit =
            checked->count - 1 < AGENT_PEERS_MAX ? checked->count - 1 : AGENT_PEERS_MAX;
    char line[LINE_BYTES];

    for (size_t k = 1; k <= limit; k++) {
        size_t to = (from + k) % checked->count;
        const struct seen *peer = checked->seen[to];
        int len;

        if (peer->has_facts && peer->address[0] != '\0' &&
                checked->members[to].talk.state != TALK_OVER) {
            len = snprintf(line, sizeof line, "to %zu %" PRIu64 " %" PRIu64 " %s\n", to,
                    peer->facts.nonce, peer->facts.port, peer->address);
            process_write(&member->process, line, (size_t)len);
        }
    }
    member->talk.state = TALK_PAIRS;
    process_write(&member->process, "go\n", strlen("go\n"));
}

static bool is_pairing(const struct check_hosts *checked)
{
    for (size_t i = 0; i < checked->count; i++) {
        if (checked->members[i].talk.state == TALK_PAIRS) {
            return true;
        }
    }
    return false;
}

/* Hosts that answered first and then sent no results. */
static void report_silent(struct check_hosts *checked)
{
    static const char *const words[] = { "true", NULL };

    for (size_t i = 0; i < checked->count; i++) {
        const struct seen *seen = checked->seen[i];

        if (seen->has_facts && checked->members[i].talk.state != TALK_READY) {
            findings_add(&checked->general, FINDING_ERROR,
                    ssh_line(&checked->yardstick.way, seen->name, seen->is_here, words),
                    "%s did not say how its connections went%s%s", seen->name,
                    seen->last_words[0] == '\0' ? "" : ": ", seen->last_words);
        }
    }
}

void check_hosts_pair(struct check_hosts *checked)
{
    int64_t started = clock_ns();

    for (size_t i = 0; i < checked->count; i++) {
        if (checked->seen[i]->has_facts) {
            place_member(checked, checked->seen[i]);
        }
    }
    if (checked->count < 2) {
        return;
    }
    for (size_t i = 0; i < checked->count; i++) {
        if (checked->members[i].talk.state == TALK_READY) {
            send_peers(checked, i);
        }
    }
    while (is_pairing(checked) && clock_ns() < started + pairs_limit_ns) {
        turn(checked, started + pairs_limit_ns);
    }
    checked->pairs_ms = (double)(clock_ns() - started) / 1e6;
    report_silent(checked);
}

void check_hosts_fini(struct check_hosts *checked)
{
    int64_t until = clock_ns() + INT64_C(1000000) * END_MS;

    for (size_t i = 0; i < checked->count; i++) {
        process_close_input(&checked->members[i].process);
    }
    loop_fini(&checked->loop);
    for (size_t i = 0; i < checked->count; i++) {
        struct process *process = &checked->members[i].process;

        if (process->pid > 0) {
            (void)process_finish(process, until);
        }
        process_fini(process);
        findings_fini(&checked->members[i].seen.findings);
    }
    findings_fini(&checked->general);
    mem_free(checked->members);
    mem_free(checked->seen);
    *checked = (struct check_hosts){ .loop.epoll = -1 };
}
