/*
 * The hub: a process beside tuttirun that holds the connections of hosts that joined, and
 * hands on what agents ask for. It outlives neither: when tuttirun, or the engine that
 * tuttirun became, ends, it says so to all hosts.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "launcher/join/gather.h"

enum {
    AGENTS_MAX = 4096, /* commands at once       */
    AGENT_LOST = 255 /* status when the host is lost, as ssh has it */
};

/* An engine's agent. */
struct agent {
    struct frame_end end; /* fd -1: none                                 */
    uint32_t channel; /* its place in the list, and how often that was taken before,
                         times AGENTS_MAX: late frames find nobody     */
    size_t member; /* whose command it waits for                  */
    bool runs; /* RUN was handed on                           */
};

struct hub {
    struct members members;
    int listener;
    int owner; /* pidfd of tuttirun */
    struct agent agents[AGENTS_MAX];
    size_t agent_count; /* places in use so far */
    struct pollfd *polls;
};

static void tell_agent(
        struct agent *agent, enum frame_type type, uint32_t value, const char *text)
{
    const struct frame frame = {
        .type = type,
        .value = value,
        .bytes = text,
        .len = text == NULL ? 0 : strlen(text),
    };

    (void)frame_send(agent->end.fd, &frame);
}

/* Its command cannot be run, or not any more: says why, as ssh would. */
static void fail_agent(struct agent *agent, const char *why)
{
    tell_agent(agent, FRAME_OUTPUT, 2, why);
    tell_agent(agent, FRAME_ENDED, AGENT_LOST, NULL);
    frame_end_fini(&agent->end);
    agent->runs = false;
}

static void lose_member(struct hub *hub, size_t number)
{
    struct member *member = &hub->members.list[number];
    char why[HOST_NAME_LIMIT + 64];

    frame_end_fini(&member->end);
    (void)snprintf(why, sizeof why,
            "tuttirun: the connection to host %s, which had joined, is "
            "lost\n",
            member->name);
    for (size_t i = 0; i < hub->agent_count; i++) {
        if (hub->agents[i].runs && hub->agents[i].member == number) {
            fail_agent(&hub->agents[i], why);
        }
    }
}

/* The next of the words that end in zeros each; NULL behind the last. */
static const char *next_word(const struct frame *frame, const char *word)
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
        const struct frame *frame, const char *host)
{
    size_t start = (size_t)(host - frame->bytes) + strlen(host) + 1;
    size_t len = frame->len - start;
    char *text = mem_alloc(len + 1);
    const struct frame run = { .type = FRAME_RUN,
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
        (void)frame_send(agent->end.fd, &run);
        frame_end_fini(&agent->end);
    } else {
        agent->runs = true;
        tell_agent(agent, FRAME_RUN, 0, NULL);
        if (!frame_send(hub->members.list[agent->member].end.fd, &run)) {
            lose_member(hub, agent->member);
        }
    }
    mem_free(text);
}

/* Flags come before the host; it is the first word that is one of those that joined. */
static void start_command(
        struct hub *hub, struct agent *agent, const struct frame *frame)
{
    const char *word = NULL;
    char why[HOST_NAME_LIMIT + 64];

    if (frame->len == 0 || frame->bytes[frame->len - 1] != '\0') {
        frame_end_fini(&agent->end);
        return;
    }
    for (word = next_word(frame, NULL); word != NULL; word = next_word(frame, word)) {
        agent->member = member_of(hub, word);
        if (agent->member < hub->members.count) {
            break;
        }
    }
    if (word == NULL ||
            (hub->members.list[agent->member].end.fd < 0 &&
                    agent->member != hub->members.own)) {
        (void)snprintf(why, sizeof why,
                "tuttirun: host %s has not joined, or is lost\n",
                word == NULL ? "that is asked for" : word);
        fail_agent(agent, why);
        return;
    }
    hand_on_command(hub, agent, frame, word);
}

static void take_agent_frame(struct hub *hub, struct agent *agent, struct frame *frame)
{
    if (frame->type == FRAME_RUN && !agent->runs) {
        start_command(hub, agent, frame);
    } else if (frame->type == FRAME_INPUT && agent->runs) {
        frame->channel = agent->channel;
        if (!frame_send(hub->members.list[agent->member].end.fd, frame)) {
            lose_member(hub, agent->member);
        }
    }
}

/* The agent is gone: nobody waits for its command any more. */
static void lose_agent(struct hub *hub, struct agent *agent)
{
    const struct frame cancel = { .type = FRAME_CANCEL, .channel = agent->channel };

    frame_end_fini(&agent->end);
    if (agent->runs) {
        agent->runs = false;
        (void)frame_send(hub->members.list[agent->member].end.fd, &cancel);
    }
}

static void hear_agent(struct hub *hub, size_t number)
{
    struct agent *agent = &hub->agents[number];
    struct frame frame;
    int got = -1;

    if (frame_receive(&agent->end) == TUTTI_OK) {
        got = frame_next(&agent->end, &frame);
    }
    while (got > 0 && agent->end.fd >= 0) {
        take_agent_frame(hub, agent, &frame);
        got = agent->end.fd >= 0 ? frame_next(&agent->end, &frame) : 0;
    }
    if (got < 0) {
        lose_agent(hub, agent);
    }
}

static void take_member_frame(struct hub *hub, size_t number, const struct frame *frame)
{
    struct agent *agent = &hub->agents[frame->channel % AGENTS_MAX];

    if (agent->channel != frame->channel || !agent->runs || agent->member != number ||
            (frame->type != FRAME_INPUT && frame->type != FRAME_OUTPUT &&
                    frame->type != FRAME_ENDED)) {
        return;
    }
    if (!frame_send(agent->end.fd, frame)) {
        lose_agent(hub, agent);
    } else if (frame->type == FRAME_ENDED) {
        agent->runs = false;
        frame_end_fini(&agent->end);
    }
}

static void hear_member(struct hub *hub, size_t number)
{
    struct member *member = &hub->members.list[number];
    struct frame frame;
    int got = -1;

    if (frame_receive(&member->end) == TUTTI_OK) {
        got = frame_next(&member->end, &frame);
    }
    while (got > 0) {
        take_member_frame(hub, number, &frame);
        got = frame_next(&member->end, &frame);
    }
    if (got < 0) {
        lose_member(hub, number);
    }
}

static void accept_agent(struct hub *hub)
{
    int fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC);
    size_t number = 0;

    if (fd < 0) {
        return;
    }
    while (number < hub->agent_count && hub->agents[number].end.fd >= 0) {
        number++;
    }
    if (number == AGENTS_MAX) {
        (void)close(fd);
        return;
    }
    hub->agent_count = size_max(hub->agent_count, number + 1);
    hub->agents[number] = (struct agent){
        .end = { .fd = fd },
        .channel = hub->agents[number].channel + AGENTS_MAX,
    };
}

static bool turn(struct hub *hub)
{
    struct pollfd *polls = hub->polls;
    size_t members = hub->members.count;
    size_t agents = hub->agent_count;

    polls[0] = (struct pollfd){ .fd = hub->owner, .events = POLLIN };
    polls[1] = (struct pollfd){ .fd = hub->listener, .events = POLLIN };
    for (size_t i = 0; i < members; i++) {
        polls[2 + i] =
                (struct pollfd){ .fd = hub->members.list[i].end.fd, .events = POLLIN };
    }
    for (size_t i = 0; i < agents; i++) {
        polls[2 + members + i] =
                (struct pollfd){ .fd = hub->agents[i].end.fd, .events = POLLIN };
    }
    if (poll(polls, 2 + members + agents, -1) < 0) {
        return errno == EINTR;
    }
    for (size_t i = 0; i < members; i++) {
        if (polls[2 + i].revents != 0 && hub->members.list[i].end.fd >= 0) {
            hear_member(hub, i);
        }
    }
    for (size_t i = 0; i < agents; i++) {
        if (polls[2 + members + i].revents != 0 && hub->agents[i].end.fd >= 0) {
            hear_agent(hub, i);
        }
    }
    if (polls[1].revents != 0) {
        accept_agent(hub);
    }
    return polls[0].revents == 0;
}

static void say_goodbye(const struct hub *hub)
{
    const struct frame bye = { .type = FRAME_BYE };

    for (size_t i = 0; i < hub->members.count; i++) {
        if (hub->members.list[i].end.fd >= 0) {
            (void)frame_send(hub->members.list[i].end.fd, &bye);
        }
    }
}

/* In a session of its own, so that Ctrl-C does not reach it; without our streams. */
static void detach(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t set;

    (void)setsid();
    (void)sigfillset(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int fd = 0; null >= 0 && fd < 3; fd++) {
        (void)dup2(null, fd);
    }
}

_Noreturn static void run_hub(struct hub *hub, const struct hub_place *place)
{
    detach();
    for (size_t i = 0; i < AGENTS_MAX; i++) {
        hub->agents[i].end.fd = -1;
        hub->agents[i].channel = (uint32_t)i;
    }
    while (turn(hub)) {
    }
    say_goodbye(hub);
    (void)unlink(place->socket);
    (void)unlink(place->agent);
    (void)rmdir(place->folder);
    _exit(EXIT_SUCCESS);
}

static tutti_status listen_for_agents(const char *path, int *listener)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
            listen(fd, SOMAXCONN) != 0) {
        tutti_status status = error_set_errno(TUTTI_ERR_SYSTEM, "listen on %s", path);

        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    *listener = fd;
    return TUTTI_OK;
}

tutti_status hub_start(struct members *members, const struct hub_place *place)
{
    struct hub *hub = mem_calloc(1, sizeof *hub);
    tutti_status status;
    pid_t pid;
    int end = 0;

    if (hub == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    hub->members = *members;
    hub->polls = mem_calloc(2 + members->count + AGENTS_MAX, sizeof *hub->polls);
    hub->owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (hub->polls == NULL || hub->owner < 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "watch this process");
        goto err_free;
    }
    status = listen_for_agents(place->socket, &hub->listener);
    if (status != TUTTI_OK) {
        goto err_owner;
    }
    pid = fork();
    if (pid == 0) {
        /* No child of tuttirun, which ends all that is left of an engine. */
        pid = fork();
        if (pid == 0) {
            run_hub(hub, place);
        }
        _exit(pid > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    if (pid > 0 && (waitpid(pid, &end, 0) != pid || end != 0)) {
        pid = -1;
    }
    (void)close(hub->listener);
    status = pid > 0 ? TUTTI_OK
                     : error_set_errno(TUTTI_ERR_SYSTEM, "fork a process for hosts");
err_owner:
    (void)close(hub->owner);
err_free:
    mem_free(hub->polls);
    mem_free(hub);
    return status;
}

/* The agent: a script, for engines take the name of one file in place of ssh. */
static tutti_status write_agent(const struct hub_place *place)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    int fd = open(place->agent, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool wrote = len > 0 && fd >= 0 && memchr(self, '\'', (size_t)len) == NULL &&
            dprintf(fd, "#!/bin/sh\nexec '%.*s' --join-agent '%s' \"$@\"\n", (int)len,
                    self, place->socket) > 0;

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
