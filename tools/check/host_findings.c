/*
 * Finds what is wrong with hosts. A finding does not name its host, since it is printed below the
 * host's line.
 */
#include "tools/check/host_findings.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "tools/check/check_connect.h"

enum {
    EXIT_SSH = 255, /* ssh itself failed                         */
    EXIT_CANNOT_RUN = 126, /* as shells have it                         */
    EXIT_NOT_FOUND = 127
};

static const double clock_limit_s = 1.0;

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

void findings_fini(struct findings *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->items[i].command);
    }
    mem_free(list->items);
    *list = (struct findings){ .items = NULL };
}

void findings_add(struct findings *list, enum finding_level level, char *command,
        const char *format, ...)
{
    struct finding *finding;
    va_list values;

    list->errors += level == FINDING_ERROR ? 1 : 0;
    if (command == NULL ||
            !mem_grow(&list->items, &list->capacity, list->count + 1,
                    sizeof *list->items)) {
        mem_free(command);
        list->failed = true;
        return;
    }
    finding = &list->items[list->count++];
    *finding = (struct finding){ .level = level, .command = command };
    va_start(values, format);
    (void)vsnprintf(finding->text, sizeof finding->text, format, values);
    va_end(values);
}

/* The command that runs words on the host. */
static char *there(const struct seen *seen, const struct findings_yardstick *yardstick,
        const char *const *words)
{
    return ssh_line(&yardstick->way, seen->name, seen->is_here, words);
}

/* The command that runs words here. */
static char *here(const struct findings_yardstick *yardstick, const char *const *words)
{
    return ssh_line(&yardstick->way, "", true, words);
}

char *host_findings_bytes(uint64_t bytes, char *text, size_t capacity)
{
    double value = (double)bytes;
    const char *unit = text_byte_unit(&value);

    (void)snprintf(text, capacity, value < 10 && unit[0] != 'B' ? "%.1f %s" : "%.0f %s",
            value, unit);
    return text;
}

/* ssh ended with its own status: which of its steps was it? */
static void find_ssh(struct seen *seen, const struct findings_yardstick *yardstick)
{
    const char *words = seen->last_words[0] != '\0' ? seen->last_words
                                                    : "ssh says nothing about it";

    if (seen->probe_status == CONNECT_EXIT_UNRESOLVED) {
        findings_add(&seen->findings, FINDING_ERROR,
                here(yardstick, WORDS("getent", "hosts", seen->probe_host)), "%s",
                seen->probe);
    } else if (seen->probe_status == CONNECT_EXIT_UNREACHED) {
        findings_add(&seen->findings, FINDING_ERROR,
                here(yardstick,
                        WORDS(yardstick->self, "--check-connect", seen->probe_host,
                                seen->probe_port)),
                "its sshd is not reached: %s", seen->probe);
    } else if (strstr(words, "Host key verification failed") != NULL) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("true")),
                "its host key is not known here, or has changed; connect once by hand "
                "and accept it, or add it to known_hosts: %s",
                words);
    } else if (seen->probe_status == CONNECT_EXIT_OK) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("true")),
                "its sshd is reached, but does not let us in without a question: %s",
                words);
    } else {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("true")), "ssh fails: %s", words);
    }
}

/* A host without an answer. */
static void find_silence(struct seen *seen, const struct findings_yardstick *yardstick)
{
    const char *colon = seen->last_words[0] == '\0' ? "" : ": ";
    const char *way = seen->is_here   ? "this machine"
            : yardstick->way.is_slurm ? "srun"
                                      : "ssh";

    if (seen->is_late) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("true")), "%s gave no answer in time%s%s",
                way, colon, seen->last_words);
    } else if (seen->status == EXIT_SSH && !seen->is_here && !yardstick->way.is_slurm) {
        find_ssh(seen, yardstick);
    } else if (seen->status == EXIT_NOT_FOUND || seen->status == EXIT_CANNOT_RUN) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("ls", "-l", yardstick->self)),
                "%s is %s there; it must be on all hosts%s%s", yardstick->self,
                seen->status == EXIT_NOT_FOUND ? "not" : "no program that can be run",
                colon, seen->last_words);
    } else {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS(yardstick->self, "--version")),
                "tuttirun --check-host ended there with status %d%s%s; is it another "
                "version?",
                seen->status, colon, seen->last_words);
    }
}

static void find_programs(struct seen *seen, const struct findings_yardstick *yardstick)
{
    const struct facts *facts = &seen->facts;

    if (strcmp(facts->release, yardstick->here->release) != 0) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS(yardstick->self, "--version")),
                "its %s has version %s, ours %s", yardstick->self, facts->release,
                yardstick->here->release);
    } else if (strcmp(facts->binary, yardstick->here->binary) != 0) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("sha256sum", yardstick->self)),
                "its %s is not the same file as ours: another build", yardstick->self);
    }
    if (yardstick->launcher[0] != '\0' && facts->launcher[0] == '\0') {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS(yardstick->launcher, "--version")),
                "no MPI there: %s", facts->launcher_trouble);
    } else if (strcmp(facts->launcher, yardstick->here->launcher) != 0) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS(yardstick->launcher, "--version")),
                "its MPI is %s, ours %s", facts->launcher, yardstick->here->launcher);
    }
}

static void find_shm(struct seen *seen, const struct findings_yardstick *yardstick)
{
    uint64_t wanted = SHM_PER_RANK * (uint64_t)seen->slots;
    char size[32];
    char unused[32];
    char need[32];

    if (seen->facts.shm_bytes == 0) {
        findings_add(&seen->findings, FINDING_ERROR,
                there(seen, yardstick, WORDS("df", "-h", "/dev/shm")),
                "it has no /dev/shm, through which the ranks of a host share memory");
    } else if (seen->facts.shm_free < wanted) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("df", "-h", "/dev/shm")),
                "/dev/shm is small: %s free of %s, and %d rank%s may want %s; in a "
                "container, give it more (docker run --shm-size)",
                host_findings_bytes(seen->facts.shm_free, unused, sizeof unused),
                host_findings_bytes(seen->facts.shm_bytes, size, sizeof size),
                seen->slots, seen->slots == 1 ? "" : "s",
                host_findings_bytes(wanted, need, sizeof need));
    }
}

static void find_cma(struct seen *seen, const struct findings_yardstick *yardstick)
{
    static const char scope_file[] = "/proc/sys/kernel/yama/ptrace_scope";

    if (seen->facts.cma_errno == 0) {
        return;
    }
    if (seen->facts.ptrace_scope > 0) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("cat", scope_file)),
                "processes may not read each other's memory (ptrace_scope is %lld), so "
                "MPI copies large messages within the host twice",
                (long long)seen->facts.ptrace_scope);
    } else {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("grep", "Cap", "/proc/self/status")),
                "processes may not read each other's memory (%s), so MPI copies large "
                "messages within the host twice; a container needs SYS_PTRACE (docker "
                "run --cap-add SYS_PTRACE)",
                facts_errno((int)seen->facts.cma_errno));
    }
}

static void find_clock(struct seen *seen, const struct findings_yardstick *yardstick)
{
    if (seen->has_clock && fabs(seen->offset_s) > clock_limit_s + seen->round_trip_s) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("date", "+%s.%N")),
                "its clock is %.1f s %s ours; times in its logs are off",
                fabs(seen->offset_s), seen->offset_s > 0 ? "ahead of" : "behind");
    }
}

static void find_gpus(struct seen *seen, const struct seen *first,
        const struct findings_yardstick *yardstick)
{
    const struct facts *facts = &seen->facts;

    if (facts->gpus == 0 && facts->gpus_unusable > 0) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("sh", "-c", "ls /dev/nvidia*")),
                "%llu NVIDIA GPUs are in it, but programs cannot use them: no driver, "
                "or "
                "a container without them (docker run --gpus all)",
                (unsigned long long)facts->gpus_unusable);
    } else if (first != seen && facts->gpus != first->facts.gpus) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("sh", "-c", "ls /dev/nvidia*")),
                "it has %llu GPUs, %s %llu", (unsigned long long)facts->gpus,
                first->name, (unsigned long long)first->facts.gpus);
    }
}

static void find_noise(struct seen *seen, const struct findings_yardstick *yardstick)
{
    if (seen->noise_lines > 0) {
        findings_add(&seen->findings, FINDING_WARNING,
                there(seen, yardstick, WORDS("true")),
                "its shell prints by itself (%zu line%s, first: %.100s), which breaks "
                "scp and gets into the output of jobs; let .bashrc print only where "
                "there is a terminal",
                seen->noise_lines, seen->noise_lines == 1 ? "" : "s", seen->noise);
    }
}

/* Names that mean one host: it gets the ranks of both. */
static void find_twins(
        struct seen *const *hosts, size_t i, const struct findings_yardstick *yardstick)
{
    for (size_t k = 0; k < i; k++) {
        if (hosts[k]->has_facts &&
                strcmp(hosts[k]->facts.machine, hosts[i]->facts.machine) == 0) {
            findings_add(&hosts[i]->findings, FINDING_WARNING,
                    there(hosts[i], yardstick, WORDS("hostname")),
                    "it is the same host as %s", hosts[k]->name);
            return;
        }
    }
}

void host_findings_hosts(struct seen *const *hosts, size_t count,
        const struct findings_yardstick *yardstick)
{
    const struct seen *first = NULL; /* that answered */

    for (size_t i = 0; i < count; i++) {
        struct seen *seen = hosts[i];

        if (!seen->has_facts) {
            find_silence(seen, yardstick);
            continue;
        }
        first = first == NULL ? seen : first;
        find_noise(seen, yardstick);
        find_programs(seen, yardstick);
        find_shm(seen, yardstick);
        find_cma(seen, yardstick);
        find_gpus(seen, first, yardstick);
        find_clock(seen, yardstick);
        find_twins(hosts, i, yardstick);
    }
}

/* "ssh b tuttirun --check-listen P & sleep 1; ssh a tuttirun --check-connect ADDR P". */
static char *try_by_hand(const struct seen *from, const struct seen *to,
        const struct findings_yardstick *yardstick)
{
    char port[16];
    char line[FINDING_TEXT_MAX * 4];
    bool is_whole;
    char *listen;
    char *connect;

    (void)snprintf(port, sizeof port, "%llu", (unsigned long long)to->facts.port);
    listen = there(to, yardstick, WORDS(yardstick->self, "--check-listen", port));
    connect = there(from, yardstick,
            WORDS(yardstick->self, "--check-connect", to->address, port));
    is_whole = listen != NULL && connect != NULL;
    if (is_whole) {
        (void)snprintf(line, sizeof line, "%s & sleep 2; %s", listen, connect);
    }
    mem_free(listen);
    mem_free(connect);
    return is_whole ? mem_strdup(line) : NULL;
}

static bool has_address(const struct facts *facts, const char *address)
{
    for (size_t i = 0; i < facts->address_count; i++) {
        if (strcmp(facts->addresses[i], address) == 0) {
            return true;
        }
    }
    return false;
}

static void find_failed_pair(const struct seen *from, const struct seen *to, int error,
        const struct findings_yardstick *yardstick, struct findings *findings)
{
    bool has_no_way = error == EHOSTUNREACH || error == ENETUNREACH;

    if (has_address(&from->facts, to->address)) {
        findings_add(findings, FINDING_ERROR,
                there(from, yardstick, WORDS("ip", "addr")),
                "%s cannot connect to %s at %s, which is an address of %s, too; choose "
                "another network with --nic",
                from->name, to->name, to->address, from->name);
        return;
    }
    findings_add(findings, FINDING_ERROR,
            has_no_way
                    ? there(from, yardstick, WORDS("ip", "route", "get", to->address))
                    : try_by_hand(from, to, yardstick),
            "%s cannot connect to %s (%s port %llu): %s%s", from->name, to->name,
            to->address, (unsigned long long)to->facts.port, facts_errno(error),
            has_no_way ? "" : "; is there a firewall between them?");
}

void host_findings_pair(const struct seen *const *hosts, const struct tried_pair *pair,
        const struct findings_yardstick *yardstick, struct findings *findings)
{
    const struct seen *from = hosts[pair->from];
    const struct seen *to = hosts[pair->to];

    switch (pair->what) {
    case AGENT_PAIR_OK:
        break;
    case AGENT_PAIR_STRANGER:
        findings_add(findings, FINDING_ERROR,
                there(from, yardstick, WORDS("ip", "route", "get", to->address)),
                "%s reaches something else than %s at %s: other hosts have that "
                "address, too; choose another network with --nic",
                from->name, to->name, to->address);
        break;
    case AGENT_PAIR_FAILED:
        find_failed_pair(from, to, (int)pair->number, yardstick, findings);
        break;
    }
}
