/*
 * Looks at this machine: files in /proc, /sys and /dev, and its network addresses.
 */
#include "tools/check/local_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/bind/pci.h"
#include "launcher/mpi_launcher/job_network.h"
#include "launcher/process.h"
#include "launcher/program.h"
#include "topo/machine.h"

static const int64_t version_limit_ns = INT64_C(5000000000);

/* The first line of a small file; false when it cannot be read. */
static bool read_line(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fgets(text, (int)capacity, file) != NULL;

    if (file != NULL) {
        (void)fclose(file);
    }
    if (is_read) {
        text[strcspn(text, "\r\n")] = '\0';
    }
    return is_read;
}

tutti_status gather_hash(const char *path, char text[FACTS_TEXT_MAX])
{
    uint64_t hash = UINT64_C(14695981039346656037);
    unsigned char block[65536];
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read %s", path);
    }
    while (got > 0) {
        got = read(fd, block, sizeof block);
        for (ssize_t i = 0; i < got; i++) {
            hash = (hash ^ block[i]) * UINT64_C(1099511628211);
        }
    }
    (void)close(fd);
    if (got < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read %s", path);
    }
    (void)snprintf(text, FACTS_TEXT_MAX, "%016" PRIx64, hash);
    return TUTTI_OK;
}

/* The word after a mark; false when the mark is not there. */
static bool after(const char *output, const char *mark, const char *name, char *text)
{
    const char *found = strstr(output, mark);

    if (found == NULL) {
        return false;
    }
    found += strlen(mark);
    found += strspn(found, " \t");
    (void)snprintf(text, FACTS_TEXT_MAX, "%s %.*s", name,
            (int)strcspn(found, " \t\r\n,"), found);
    return true;
}

void gather_launcher_name(const char *output, char text[FACTS_TEXT_MAX])
{
    const char *start = output + strspn(output, " \t\r\n");

    if (after(output, "(Open MPI) ", "Open MPI", text) ||
            after(output, "(OpenRTE) ", "Open MPI", text) ||
            after(output, "(PRRTE) ", "PRRTE", text) ||
            (strstr(output, "Intel(R) MPI") != NULL &&
                    after(output, "Version ", "Intel MPI", text)) ||
            (strstr(output, "HYDRA") != NULL &&
                    after(output, "Version:", "MPICH", text))) {
        return;
    }
    (void)snprintf(text, FACTS_TEXT_MAX, "%.*s", (int)strcspn(start, "\r\n"), start);
}

static void ask_launcher(
        struct facts *facts, const char *launcher, char *const *environment)
{
    char output[4096] = "";
    struct arguments command = { .items = NULL };
    struct process process;
    tutti_status status;

    if (launcher[0] == '\0') {
        return;
    }
    if (access(launcher, X_OK) != 0) {
        (void)snprintf(facts->launcher_trouble, sizeof facts->launcher_trouble,
                "%.150s: %s", launcher, facts_errno(errno));
        return;
    }
    arguments_add(&command, launcher);
    arguments_add(&command, "--version");
    status = arguments_status(&command);
    if (status == TUTTI_OK) {
        status = process_run(
                &process, command.items, environment, clock_ns() + version_limit_ns);
    }
    arguments_fini(&command);
    if (status != TUTTI_OK) {
        (void)snprintf(facts->launcher_trouble, sizeof facts->launcher_trouble,
                "%.200s", tutti_last_error());
        return;
    }
    if (process.out.len > 0) {
        (void)snprintf(
                output, sizeof output, "%.*s", (int)process.out.len, process.out.text);
    }
    if (process.status == 0) {
        gather_launcher_name(output, facts->launcher);
    }
    if (facts->launcher[0] == '\0') {
        process_last_words(&process, output, sizeof output);
        (void)snprintf(facts->launcher_trouble, sizeof facts->launcher_trouble,
                "%.100s --version ends with status %d: %.100s", launcher,
                process.status, output);
    }
    process_fini(&process);
}

static void look_at_shm(struct facts *facts)
{
    struct statvfs space;

    if (statvfs("/dev/shm", &space) == 0) {
        facts->shm_bytes = (uint64_t)space.f_blocks * space.f_frsize;
        facts->shm_free = (uint64_t)space.f_bavail * space.f_frsize;
    }
}

/* Addresses of interfaces that are up; neither loopback nor of one link only. */
static void list_addresses(struct facts *facts)
{
    struct network_table table;

    if (network_read(&table) != TUTTI_OK) {
        return;
    }
    for (size_t i = 0; i < table.count && facts->address_count < FACTS_ADDRESSES_MAX;
            i++) {
        if (!table.interfaces[i].is_loopback) {
            network_address_format(table.interfaces[i].range.bytes,
                    facts->addresses[facts->address_count++]);
        }
    }
}

/* Our address as the asking host sees it: from sshd, or under Slurm from the route to that host. */
static void find_seen_as(struct facts *facts, char *const *environment)
{
    const char *ssh = environment_get(environment, "SSH_CONNECTION");
    const char *slurm = environment_get(environment, "SLURM_LAUNCH_NODE_IPADDR");
    char server[FACTS_ADDRESS_MAX];

    if (ssh != NULL && sscanf(ssh, "%*s %*s %63s", server) == 1) {
        (void)snprintf(facts->seen_as, sizeof facts->seen_as, "%s", server);
    } else if (slurm != NULL) {
        (void)network_source(slurm, facts->seen_as);
    }
}

/* No control characters: a value is one line. */
static void flatten(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

static void read_ptrace_scope(struct facts *facts)
{
    char text[32];

    facts->ptrace_scope = -1;
    if (read_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text)) {
        (void)text_to_int64(text, &facts->ptrace_scope);
    }
}

void gather_facts(struct facts *facts, const char *launcher, char *const *environment)
{
    struct pci_gpus gpus;
    char self[PATH_MAX] = "";

    *facts = (struct facts){ .ptrace_scope = -1 };
    (void)snprintf(facts->release, sizeof facts->release, "%s", tutti_version());
    if (program_self(self, sizeof self) != TUTTI_OK ||
            gather_hash(self, facts->binary) != TUTTI_OK) {
        facts->binary[0] = '\0';
    }
    facts->cma_errno = gather_cma();
    (void)gethostname(facts->host, sizeof facts->host - 1);
    machine_identity(facts->machine, sizeof facts->machine);
    ask_launcher(facts, launcher, environment);
    pci_count_gpus(&gpus, "");
    facts->gpus = gpus.usable;
    facts->gpus_unusable = gpus.unusable;
    look_at_shm(facts);
    read_ptrace_scope(facts);
    list_addresses(facts);
    find_seen_as(facts, environment);
    flatten(facts->host);
    flatten(facts->machine);
    flatten(facts->launcher);
    flatten(facts->launcher_trouble);
}
