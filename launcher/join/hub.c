/*
 * The hub: a process beside tuttirun that holds the connections of hosts that joined, and
 * hands on what agents ask for. It outlives neither: when tuttirun, or the MPI launcher that
 * tuttirun became, ends, it says so to all hosts.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/exec/guardian.h"
#include "launcher/join/join_gather.h"
#include "launcher/join/join_message.h"
#include "launcher/program.h"
#include "launcher/session/sockets.h"

enum {
    AGENTS_MAX = 4096, /* commands at once       */
    AGENT_LOST = 255 /* status when the host is lost, as ssh has it */
};

/* An MPI launcher's agent. */
struct agent {
    struct session session; /* none: the place is free                     */
    struct hub *hub;
    uint32_t channel; /* its place in the list, and how often that was taken before,
                         times AGENTS_MAX: late frames find nobody     */
    size_t member; /* whose command it waits for                  */
    bool runs; /* RUN was handed on                           */
};

struct hub {
    struct members members;
    struct link {
        struct hub *hub;
        size_t number;
    } * links; /* [members.count], owned: which member a call is about */
    struct loop loop;
    struct loop_watch watch; /* of the owner */
    struct listener listener;
    int owner; /* pidfd of tuttirun; -1: it has ended */
    struct agent agents[AGENTS_MAX];
    size_t agent_count; /* places in use so far */
};

static void send_to_agent(
        struct agent *agent, enum join_type type, uint32_t value, const char *text)
{
    const struct join_message frame = {
        .type = type,
        .value = value,
        .bytes = text,
        .len = text == NULL ? 0 : strlen(text),
    };

    (void)join_send(&agent->session, &frame);
}

/* Its command cannot be run, or not any more: says why, as ssh would. */
static void fail_agent(struct agent *agent, const char *why)
{
    send_to_agent(agent, JOIN_OUTPUT, 2, why);
    send_to_agent(agent, JOIN_ENDED, AGENT_LOST, NULL);
    session_fini(&agent->session);
    agent->runs = false;
}

static void lose_member(struct hub *hub, size_t number)
{
    struct member *member = &hub->members.list[number];
    char why[HOST_NAME_LIMIT + 64];

    session_fini(&member->session);
    (void)snprintf(why, sizeof why,
            "tuttirun: the connection to host %s, which had joined, is lost\n",
            member->name);
    for (size_t i = 0; i < hub->agent_count; i++) {
        if (hub->agents[i].runs && hub->agents[i].member == number) {
            fail_agent(&hub->agents[i], why);
        }
    }
}

/* The next of the words that end in zeros each; NULL behind the last. */
static const char *next_word(const struct join_message *frame, const char *word)
{
    const char *next = word == NULL ? frame->bytes : word + strlen(word) + 1;

    return next < frame->bytes + frame->len ? next : NULL;
}

static size_t member_of(const struct hub *hub, const char *name)
{
    size_t number = 0;

    while (number < hub->members.count &&
            strcmp(hub->members.list[number].name, name) != 0) {
        number++;
    }
    return number;
}

/* The words from the one behind the host on, with spaces between, as ssh sends them. */
static void hand_on_command(struct hub *hub, struct agent *agent,
        const struct join_message *frame, const char *host)
{
    size_t start = (size_t)(host - frame->bytes) + strlen(host) + 1;
    size_t len = frame->len - start;
    char *text = mem_alloc(len + 1);
    const struct join_message run = { .type = JOIN_RUN,
        .channel = agent->channel,
        .bytes = text,
        .len = len > 0 ? len - 1 : 0 };

    if (text == NULL) {
        fail_agent(agent, "tuttirun: out of memory\n");
        return;
    }
    memcpy(text, frame->bytes + start, len);
    for (size_t i = 0; i < run.len; i++) {
        if (text[i] == '\0') {
            text[i] = ' ';
        }
    }
    if (agent->member == hub->members.own) {
        (void)join_send(&agent->session, &run);
        session_fini(&agent->session);
    } else {
        agent->runs = true;
        send_to_agent(agent, JOIN_RUN, 0, NULL);
        if (!join_send(&hub->members.list[agent->member].session, &run)) {
            lose_member(hub, agent->member);
        }
    }
    mem_free(text);
}

/* Flags come before the host; it is the first word that is one of those that joined. */
static void start_command(
        struct hub *hub, struct agent *agent, const struct join_message *frame)
{
    const char *word = NULL;
    char why[HOST_NAME_LIMIT + 64];

    if (frame->len == 0 || frame->bytes[frame->len - 1] != '\0') {
        session_fini(&agent->session);
        return;
    }
    for (word = next_word(frame, NULL); word != NULL; word = next_word(frame, word)) {
        agent->member = member_of(hub, word);
        if (agent->member < hub->members.count) {
            break;
        }
    }
    if (word == NULL ||
            (session_is_lost(&hub->members.list[agent->member].session) &&
                    agent->member != hub->members.own)) {
        (void)snprintf(why, sizeof why,
                "tuttirun: host %s has not joined, or is lost\n",
                word == NULL ? "that is asked for" : word);
        fail_agent(agent, why);
        return;
    }
    hand_on_command(hub, agent, frame, word);
}

static void take_agent_frame(
        struct hub *hub, struct agent *agent, struct join_message *frame)
{
    if (frame->type == JOIN_RUN && !agent->runs) {
        start_command(hub, agent, frame);
    } else if (frame->type == JOIN_INPUT && agent->runs) {
        frame->channel = agent->channel;
        if (!join_send(&hub->members.list[agent->member].session, frame)) {
            lose_member(hub, agent->member);
        }
    }
}

/* The agent is gone: nobody waits for its command any more. */
static void lose_agent(struct hub *hub, struct agent *agent)
{
    const struct join_message cancel = { .type = JOIN_CANCEL,
        .channel = agent->channel };

    session_fini(&agent->session);
    if (agent->runs) {
        agent->runs = false;
        (void)join_send(&hub->members.list[agent->member].session, &cancel);
    }
}

static void read_agent(void *context, unsigned ready)
{
    struct agent *agent = context;
    struct join_message message;
    int got = session_receive(&agent->session) ? 1 : -1;

    (void)ready;
    while (got > 0 && !session_is_lost(&agent->session)) {
        got = join_next(&agent->session, &message);
        if (got > 0) {
            take_agent_frame(agent->hub, agent, &message);
        }
    }
    if (got < 0) {
        lose_agent(agent->hub, agent);
    }
}

static void take_member_frame(
        struct hub *hub, size_t number, const struct join_message *frame)
{
    struct agent *agent = &hub->agents[frame->channel % AGENTS_MAX];

    if (agent->channel != frame->channel || !agent->runs || agent->member != number ||
            (frame->type != JOIN_INPUT && frame->type != JOIN_OUTPUT &&
                    frame->type != JOIN_ENDED)) {
        return;
    }
    if (!join_send(&agent->session, frame)) {
        lose_agent(hub, agent);
    } else if (frame->type == JOIN_ENDED) {
        agent->runs = false;
        session_fini(&agent->session);
    }
}

static void read_member(void *context, unsigned ready)
{
    const struct link *link = context;
    struct session *session = &link->hub->members.list[link->number].session;
    struct join_message message;
    int got = session_receive(session) ? 1 : -1;

    (void)ready;
    while (got > 0) {
        got = join_next(session, &message);
        if (got > 0) {
            take_member_frame(link->hub, link->number, &message);
        }
    }
    if (got < 0) {
        lose_member(link->hub, link->number);
    }
}

static void take_agent(void *owner, int fd)
{
    struct hub *hub = owner;
    size_t number = 0;
    struct agent *agent;

    while (number < hub->agent_count &&
            !session_is_lost(&hub->agents[number].session)) {
        number++;
    }
    if (number == AGENTS_MAX) {
        (void)close(fd);
        return;
    }
    hub->agent_count = size_max(hub->agent_count, number + 1);
    agent = &hub->agents[number];
    *agent = (struct agent){
        .session = session_of(fd, NULL, 0),
        .hub = hub,
        .channel = agent->channel + AGENTS_MAX,
    };
    if (!session_attach(&agent->session, &hub->loop, read_agent, agent)) {
        session_fini(&agent->session);
    }
}

/* tuttirun has ended. */
static void end_hub(void *context, unsigned ready)
{
    struct hub *hub = context;

    (void)ready;
    loop_close(&hub->loop, &hub->watch, &hub->owner);
}

static void send_goodbye(struct hub *hub)
{
    const struct join_message bye = { .type = JOIN_BYE };

    for (size_t i = 0; i < hub->members.count; i++) {
        if (!session_is_lost(&hub->members.list[i].session)) {
            (void)join_send(&hub->members.list[i].session, &bye);
        }
    }
}

/* In a session of its own, so that Ctrl-C does not reach it; without our streams. */
static void detach(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t set;

    (void)setsid();
    (void)prctl(PR_SET_NAME, "tutti-hub"); /* which no --stacks is for */
    (void)sigfillset(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int fd = 0; null >= 0 && fd < 3; fd++) {
        (void)dup2(null, fd);
    }
}

static bool watch_all(struct hub *hub)
{
    bool watched = loop_init(&hub->loop) == TUTTI_OK;

    hub->watch = (struct loop_watch){ .call = end_hub, .context = hub };
    watched = watched && listener_begin(&hub->listener, &hub->loop, take_agent, hub) &&
            loop_set(&hub->loop, &hub->watch, hub->owner, EPOLLIN);
    for (size_t i = 0; watched && i < hub->members.count; i++) {
        hub->links[i] = (struct link){ .hub = hub, .number = i };
        watched = session_attach(
                &hub->members.list[i].session, &hub->loop, read_member, &hub->links[i]);
    }
    return watched;
}

_Noreturn static void run_hub(struct hub *hub, const struct hub_place *place)
{
    bool goes_on;

    detach();
    for (size_t i = 0; i < AGENTS_MAX; i++) {
        hub->agents[i].session.fd = -1;
        hub->agents[i].channel = (uint32_t)i;
    }
    goes_on = watch_all(hub);
    while (goes_on) {
        (void)loop_turn(&hub->loop, INT64_MAX);
        goes_on = hub->owner >= 0;
    }
    send_goodbye(hub);
    (void)unlink(place->socket);
    (void)unlink(place->agent);
    (void)rmdir(place->folder);
    _exit(EXIT_SUCCESS);
}

tutti_status hub_start(struct members *members, const struct hub_place *place)
{
    struct hub *hub = mem_calloc(1, sizeof *hub);
    tutti_status status;
    int forked;

    if (hub == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    hub->members = *members;
    hub->links = mem_calloc(members->count, sizeof *hub->links);
    hub->owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (hub->links == NULL || hub->owner < 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "watch this process");
        goto err_free;
    }
    hub->listener.fd = listen_path(place->socket);
    if (hub->listener.fd < 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "listen on %s", place->socket);
        goto err_owner;
    }
    forked = fork_apart();
    if (forked == 0) {
        run_hub(hub, place);
    }
    (void)close(hub->listener.fd);
    status = forked > 0 ? TUTTI_OK
                        : error_set_errno(TUTTI_ERR_SYSTEM, "fork a process for hosts");
err_owner:
    (void)close(hub->owner);
err_free:
    mem_free(hub->links);
    mem_free(hub);
    return status;
}

/* The agent: a script, for MPI launchers take the name of one file in place of ssh. */
static tutti_status write_agent(const struct hub_place *place)
{
    char self[4096];
    tutti_status status = program_self(self, sizeof self);
    int fd = open(place->agent, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool wrote = status == TUTTI_OK && fd >= 0 && strchr(self, '\'') == NULL &&
            dprintf(fd, "#!/bin/sh\nexec '%s' --join-agent '%s' \"$@\"\n", self,
                    place->socket) > 0;

    if (fd >= 0 && close(fd) != 0) {
        wrote = false;
    }
    return wrote ? TUTTI_OK
                 : error_set_errno(TUTTI_ERR_SYSTEM, "write %s", place->agent);
}

tutti_status hub_make_place(struct hub_place *place)
{
    (void)snprintf(place->folder, sizeof place->folder, "/tmp/tutti-join-XXXXXX");
    if (mkdtemp(place->folder) == NULL) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "make a folder %s", place->folder);
    }
    (void)snprintf(place->socket, sizeof place->socket, "%s/hub", place->folder);
    (void)snprintf(place->agent, sizeof place->agent, "%s/agent", place->folder);
    return write_agent(place);
}
