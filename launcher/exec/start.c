#include "launcher/exec/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/exec/keeper.h"
#include "launcher/exec/procs.h"
#include "launcher/exec/rank.h"
#include "launcher/exit_status.h"
#include "launcher/hosts/host_list.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/session/loop.h"
#include "launcher/signals.h"

enum {
    LENGTH_DIGITS = 10, /* of the variables, before them       */
    VARIABLES_MAX = 1 << 24, /* bytes of them                       */
    SSH_FAILED = 255
};

struct starter {
    int size; /* ranks of the job                                   */
    int next; /* rank that is started next                          */
    char *const *names; /* of variables for other hosts, behind each -x        */
    char *const *ssh; /* words, up to "--"                                  */
    char *const *command; /* words                                              */
    struct arguments environment;
    int signals; /* that came: a descriptor                            */
    pid_t feeder; /* copies our input to rank 0 on another host; 0: none */
};

static int report(void)
{
    (void)fprintf(stderr, "tuttirun: %s\n", tutti_last_error());
    return EXIT_LAUNCHER;
}

/* Runs a program; returns only where that fails. */
static _Noreturn void become(char *const *words, char *const *environment, int input)
{
    (void)dup2(input, STDIN_FILENO);
    signals_restore();
    (void)execvpe(words[0], words, environment);
    (void)fprintf(
            stderr, "tuttirun: cannot run %s: %s\n", words[0], strerrordesc_np(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static tutti_status run(char *const *words, char *const *environment, int input)
{
    const pid_t pid = fork();

    if (pid == 0) {
        become(words, environment, input);
    }
    return pid > 0 ? TUTTI_OK : error_set_errno(TUTTI_ERR_SYSTEM, "start %s", words[0]);
}

static tutti_status start_here(struct starter *starter, int count)
{
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tutti_status status = TUTTI_OK;
    char place[64];

    for (int i = 0; status == TUTTI_OK && i < count; i++) {
        (void)snprintf(place, sizeof place, "%d %d %d %d", starter->next, starter->size,
                i, count);
        arguments_set(&starter->environment, RANK_VARIABLE, place);
        status = arguments_status(&starter->environment);
        if (status == TUTTI_OK) {
            status = run(starter->command, starter->environment.items,
                    starter->next == 0 ? STDIN_FILENO : null);
        }
        starter->next++;
    }
    (void)close(null);
    return status;
}

/* ------------------------------------------------------------- other hosts */

/* What another host's tuttirun --start reads first; freed with mem_free(). */
static char *make_variables(const struct starter *starter, size_t *len)
{
    struct arguments entries = { .items = NULL };
    char folder[PATH_MAX];
    char *text;

    arguments_add(&entries, getcwd(folder, sizeof folder) == NULL ? "/" : folder);
    for (char *const *at = starter->names; strcmp(*at, "-x") == 0; at += 2) {
        const char *value = environment_get(starter->environment.items, at[1]);

        if (value != NULL) {
            arguments_add_format(&entries, "%s=%s", at[1], value);
        }
    }
    *len = LENGTH_DIGITS;
    for (size_t i = 0; i < entries.count; i++) {
        *len += strlen(entries.items[i]) + 1;
    }
    text = entries.failed ? NULL : mem_alloc(*len + 1);
    if (text != NULL) {
        size_t at = (size_t)snprintf(
                text, *len + 1, "%*zu", LENGTH_DIGITS, *len - LENGTH_DIGITS);

        for (size_t i = 0; i < entries.count; i++) {
            memcpy(text + at, entries.items[i], strlen(entries.items[i]) + 1);
            at += strlen(entries.items[i]) + 1;
        }
    }
    arguments_fini(&entries);
    return text;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    ssize_t done = 1;

    while (len > 0 && done > 0) {
        done = write(fd, bytes, len);
        bytes += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return len == 0;
}

/* A process that gives what is there, and then our input, which is that of rank 0. */
static int feed(struct starter *starter, const char *bytes, size_t len)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    starter->feeder = fork();
    if (starter->feeder == 0) {
        char buffer[4096];
        bool goes_on = write_all(ends[1], bytes, len);

        while (goes_on) {
            const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);

            goes_on = got > 0 && write_all(ends[1], buffer, (size_t)got);
        }
        _exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    return ends[0];
}

static int keep(const char *bytes, size_t len)
{
    int fd = memfd_create("tutti-variables", MFD_CLOEXEC);

    if (fd >= 0 && (!write_all(fd, bytes, len) || lseek(fd, 0, SEEK_SET) != 0)) {
        fd_close(&fd);
    }
    return fd;
}

/* A line for the shell of that host. */
static char *make_line(const struct starter *starter, int count)
{
    struct arguments words = { .items = NULL };
    char *line;

    arguments_add(&words, starter->command[0]);
    arguments_add(&words, "--start");
    arguments_add_format(&words, "%d", starter->size);
    arguments_add_format(&words, "%d", starter->next);
    arguments_add_format(&words, "-:%d", count);
    arguments_add(&words, "--");
    arguments_add_all(&words, starter->command);
    line = words.failed ? NULL : arguments_quote(&words);
    arguments_fini(&words);
    return line;
}

static tutti_status start_there(struct starter *starter, const char *host, int count)
{
    struct arguments words = { .items = NULL };
    size_t len = 0;
    char *variables = make_variables(starter, &len);
    char *line = make_line(starter, count);
    int input = -1;
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    for (char *const *word = starter->ssh; strcmp(*word, "--") != 0; word++) {
        arguments_add(&words, *word);
    }
    arguments_add(&words, host);
    if (line != NULL && variables != NULL) {
        arguments_add(&words, line);
        input = starter->next == 0 ? feed(starter, variables, len)
                                   : keep(variables, len);
        status = arguments_status(&words);
    }
    if (status == TUTTI_OK) {
        status = input < 0
                ? error_set_errno(TUTTI_ERR_SYSTEM, "input for host %s", host)
                : run(words.items, starter->environment.items, input);
    }
    starter->next += count;
    fd_close(&input);
    mem_free(line);
    mem_free(variables);
    arguments_fini(&words);
    return status;
}

static bool read_all(char *bytes, size_t len)
{
    ssize_t got = 1;

    while (len > 0 && got > 0) {
        got = read(STDIN_FILENO, bytes, len);
        bytes += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    return len == 0;
}

/* The folder and variables that begin our input. A host need not have the folder. */
static tutti_status take_variables(struct starter *starter)
{
    char digits[LENGTH_DIGITS + 1] = "";
    int64_t len = 0;
    char *text = NULL;

    if (read_all(digits, LENGTH_DIGITS) &&
            text_to_int64(digits + strspn(digits, " "), &len) && len > 0 &&
            len <= VARIABLES_MAX) {
        text = mem_calloc((size_t)len + 1, 1);
    }
    if (text == NULL || !read_all(text, (size_t)len)) {
        mem_free(text);
        return error_set(TUTTI_ERR_PROTOCOL,
                "tuttirun --start is for tuttirun, which has ended");
    }
    (void)!chdir(text);
    for (const char *at = text + strlen(text) + 1; at < text + len;
            at += strlen(at) + 1) {
        arguments_put(&starter->environment, at);
    }
    mem_free(text);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------- all */

static bool is_here(const char *name)
{
    struct host host = { .slots = 1 };
    const struct host_list list = { .hosts = &host, .count = 1 };

    (void)snprintf(host.name, sizeof host.name, "%s", name);
    return network_is_here(&list);
}

/* "HOST:COUNT" */
static tutti_status start_host(struct starter *starter, char *text)
{
    char *colon = strrchr(text, ':');
    int64_t count;

    if (colon == NULL || !text_to_int64(colon + 1, &count) || count < 0 ||
            count > starter->size - starter->next) {
        return error_set(TUTTI_ERR_INVALID, "--start: '%s' is no HOST:COUNT", text);
    }
    *colon = '\0';
    if (strcmp(text, "-") == 0) {
        const tutti_status status = take_variables(starter);

        return status == TUTTI_OK ? start_here(starter, (int)count) : status;
    }
    return strcmp(text, ".") == 0 || is_here(text)
            ? start_here(starter, (int)count)
            : start_there(starter, text, (int)count);
}

/* Takes those that have ended. False: none is left, or a host is not reached, or has no tuttirun. */
static bool reap(const struct starter *starter, int *result)
{
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        const int code =
                WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

        if (pid == starter->feeder) {
            continue;
        }
        *result = *result == EXIT_SUCCESS ? code : *result;
        if (code == SSH_FAILED || code == EXIT_NOT_FOUND || code == EXIT_CANNOT_RUN) {
            return false;
        }
    }
    return pid == 0;
}

/* A blocked one comes even so. */
static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Until something may have changed. @return a signal; 0: none */
static int wait_for_news(int signals, struct pollfd *output)
{
    struct pollfd polled[] = { { .fd = signals, .events = POLLIN }, *output };
    struct signalfd_siginfo info;

    (void)poll(polled, 2, -1);
    *output = polled[1];
    return read(signals, &info, sizeof info) == (ssize_t)sizeof info
            ? (int)info.ssi_signo
            : 0;
}

/*
 * Until all have ended. Signals to end are handed on: as the first process of a container this one would not
 * even get them. Where nobody reads our output the ssh that started us has ended, and with it the job:
 * supervisors that somebody has stopped go on, see that, and end.
 */
static int wait_for_all(const struct starter *starter)
{
    struct pollfd output = { .fd = STDOUT_FILENO };
    int result = EXIT_SUCCESS;

    while (reap(starter, &result)) {
        const int number = wait_for_news(starter->signals, &output);

        if (output.revents != 0) {
            output.fd = -1;
            (void)procs_signal_descendants(SIGCONT, KEEPER_NAME, NULL);
        }
        if ((number == SIGTERM || number == SIGINT || number == SIGHUP ||
                    number == SIGQUIT) &&
                !is_ignored(number)) {
            (void)procs_signal_descendants(number, KEEPER_NAME, NULL);
            result = 128 + number;
        }
    }
    return result;
}

/* Finds the command behind the other words. */
static bool read_words(struct starter *starter, char *const *word)
{
    starter->names = word;
    while (*word != NULL && strcmp(*word, "-x") == 0 && word[1] != NULL) {
        word += 2;
    }
    starter->ssh = word;
    while (*word != NULL && strcmp(*word, "--") != 0) {
        word++;
    }
    starter->command = word + 1;
    return *word != NULL && word[1] != NULL;
}

int start_main(char *const *argv, char *const *environment)
{
    struct starter starter = { .size = 0 };
    tutti_status status = TUTTI_OK;
    int64_t numbers[2] = { 0, 0 };
    sigset_t all;
    int result;
    char *rest;

    for (size_t i = 0; i < 3; i++) {
        if (argv[i] == NULL ||
                (i < 2 &&
                        (!text_to_int64(argv[i], &numbers[i]) || numbers[i] < 0 ||
                                numbers[i] > INT_MAX))) {
            status = TUTTI_ERR_INVALID;
        }
    }
    if (status != TUTTI_OK || !read_words(&starter, argv + 3)) {
        (void)error_set(TUTTI_ERR_INVALID, "tuttirun --start is for tuttirun");
        return report();
    }
    starter.size = (int)numbers[0];
    starter.next = (int)numbers[1];
    arguments_add_all(&starter.environment, environment);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    starter.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (starter.signals < 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "hear of signals");
    }
    rest = argv[2];
    while (status == TUTTI_OK && rest != NULL) {
        status = start_host(&starter, strsep(&rest, ","));
    }
    result = status == TUTTI_OK ? wait_for_all(&starter) : report();
    arguments_fini(&starter.environment);
    return result;
}
