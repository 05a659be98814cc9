/*
 * Looks at this machine: files in /proc, /sys and /dev, and its network addresses.
 */
#include "launcher/check/local_facts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "launcher/arguments.h"
#include "launcher/check/route.h"
#include "launcher/environment.h"
#include "launcher/process.h"
#include "topo/machine.h"

enum {
    VENDOR_NVIDIA = 0x10de,
    VENDOR_AMD = 0x1002,
    CLASS_VGA = 0x0300, /* base and sub-class of PCI */
    CLASS_3D = 0x0302,
    CLASS_OTHER_DISPLAY = 0x0380,
    CLASS_ACCELERATOR = 0x1200
};

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

/* A file of sysfs such as "0x10de"; 0 when it is something else. */
static uint64_t read_hex(const char *folder, const char *device, const char *name)
{
    char path[PATH_MAX];
    char text[32];
    uint64_t value = 0;

    (void)snprintf(path, sizeof path, "%s/%s/%s", folder, device, name);
    if (!read_line(path, text, sizeof text) || strncmp(text, "0x", 2) != 0) {
        return 0;
    }
    for (const char *p = text + 2; isxdigit((unsigned char)*p) != 0; p++) {
        value = value * 16 +
                (uint64_t)(*p <= '9' ? *p - '0' : text_lower(*p) - 'a' + 10);
    }
    return value;
}

static bool is_gpu_class(uint64_t kind)
{
    return kind == CLASS_VGA || kind == CLASS_3D || kind == CLASS_OTHER_DISPLAY ||
            kind == CLASS_ACCELERATOR;
}

/* The next entry of a folder; NULL behind the last. */
static const char *next_name(DIR *folder)
{
    /* One thread reads it. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const struct dirent *entry = readdir(folder);

    return entry == NULL ? NULL : entry->d_name;
}

static bool is_device_file(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(name, prefix, len) == 0 && name[len] != '\0' &&
            name[len + strspn(name + len, "0123456789")] == '\0';
}

/* Files of a folder with names of a prefix and a number. */
static uint64_t count_numbered(const char *folder, const char *prefix)
{
    DIR *entries = opendir(folder);
    const char *name;
    uint64_t count = 0;

    if (entries == NULL) {
        return 0;
    }
    for (name = next_name(entries); name != NULL; name = next_name(entries)) {
        count += is_device_file(name, prefix) ? 1 : 0;
    }
    (void)closedir(entries);
    return count;
}

static uint64_t count_on_bus(const char *folder, uint64_t vendor)
{
    DIR *entries = opendir(folder);
    const char *name;
    uint64_t count = 0;

    if (entries == NULL) {
        return 0;
    }
    for (name = next_name(entries); name != NULL; name = next_name(entries)) {
        if (name[0] != '.' && read_hex(folder, name, "vendor") == vendor &&
                is_gpu_class(read_hex(folder, name, "class") >> 8)) {
            count++;
        }
    }
    (void)closedir(entries);
    return count;
}

/*
 * A container sees all GPUs of its machine on the bus, and the device files only of those
 * it was given; some sandboxes show no bus at all.
 */
void gather_gpus_count(struct gather_gpus *gpus, const char *root)
{
    char path[PATH_MAX];
    uint64_t nvidia;
    uint64_t amd;

    (void)snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root);
    nvidia = count_on_bus(path, VENDOR_NVIDIA);
    amd = count_on_bus(path, VENDOR_AMD);
    (void)snprintf(path, sizeof path, "%s/dev", root);
    *gpus = (struct gather_gpus){ .usable = count_numbered(path, "nvidia") };
    gpus->unusable = nvidia > gpus->usable ? nvidia - gpus->usable : 0;
    (void)snprintf(path, sizeof path, "%s/dev/kfd", root);
    if (access(path, F_OK) == 0) {
        gpus->usable += amd;
    }
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

tutti_status gather_self(char *path, size_t capacity)
{
    ssize_t len = readlink("/proc/self/exe", path, capacity - 1);

    if (len < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read /proc/self/exe");
    }
    path[len] = '\0';
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

void gather_starter_name(const char *output, char text[FACTS_TEXT_MAX])
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

static void ask_starter(
        struct facts *facts, const char *starter, char *const *environment)
{
    char output[4096] = "";
    struct arguments command = { .items = NULL };
    struct process process;
    tutti_status status;

    if (starter[0] == '\0') {
        return;
    }
    if (access(starter, X_OK) != 0) {
        (void)snprintf(facts->starter_trouble, sizeof facts->starter_trouble,
                "%.150s: %s", starter, facts_errno(errno));
        return;
    }
    arguments_add(&command, starter);
    arguments_add(&command, "--version");
    status = arguments_status(&command);
    if (status == TUTTI_OK) {
        status = process_run(
                &process, command.items, environment, clock_ns() + version_limit_ns);
    }
    arguments_fini(&command);
    if (status != TUTTI_OK) {
        (void)snprintf(facts->starter_trouble, sizeof facts->starter_trouble, "%.200s",
                tutti_last_error());
        return;
    }
    if (process.out.len > 0) {
        (void)snprintf(
                output, sizeof output, "%.*s", (int)process.out.len, process.out.text);
    }
    if (process.status == 0) {
        gather_starter_name(output, facts->starter);
    }
    if (facts->starter[0] == '\0') {
        process_last_words(&process, output, sizeof output);
        (void)snprintf(facts->starter_trouble, sizeof facts->starter_trouble,
                "%.100s --version ends with status %d: %.100s", starter, process.status,
                output);
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
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0) {
        return;
    }
    for (const struct ifaddrs *one = all;
            one != NULL && facts->address_count < FACTS_ADDRESSES_MAX;
            one = one->ifa_next) {
        char *text = facts->addresses[facts->address_count];

        if (one->ifa_addr != NULL && (one->ifa_flags & IFF_UP) != 0 &&
                (one->ifa_flags & IFF_LOOPBACK) == 0 &&
                route_text(one->ifa_addr, text)) {
            facts->address_count++;
        }
    }
    freeifaddrs(all);
}

/* Our address on the way to who asks: sshd tells; under Slurm, the route to it does. */
static void find_seen_as(struct facts *facts, char *const *environment)
{
    const char *ssh = environment_get(environment, "SSH_CONNECTION");
    const char *slurm = environment_get(environment, "SLURM_LAUNCH_NODE_IPADDR");
    char server[FACTS_ADDRESS_MAX];

    if (ssh != NULL && sscanf(ssh, "%*s %*s %63s", server) == 1) {
        (void)snprintf(facts->seen_as, sizeof facts->seen_as, "%s", server);
    } else if (slurm != NULL) {
        (void)route_source(slurm, facts->seen_as);
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

void gather_facts(struct facts *facts, const char *starter, char *const *environment)
{
    struct gather_gpus gpus;
    char self[PATH_MAX] = "";

    *facts = (struct facts){ .ptrace_scope = -1 };
    (void)snprintf(facts->release, sizeof facts->release, "%s", tutti_version());
    if (gather_self(self, sizeof self) == TUTTI_OK) {
        if (gather_hash(self, facts->binary) != TUTTI_OK) {
            facts->binary[0] = '\0';
        }
        facts->cma_errno = gather_cma(self, environment);
    }
    (void)gethostname(facts->host, sizeof facts->host - 1);
    machine_identity(facts->machine, sizeof facts->machine);
    ask_starter(facts, starter, environment);
    gather_gpus_count(&gpus, "");
    facts->gpus = gpus.usable;
    facts->gpus_unusable = gpus.unusable;
    look_at_shm(facts);
    read_ptrace_scope(facts);
    list_addresses(facts);
    find_seen_as(facts, environment);
    flatten(facts->host);
    flatten(facts->machine);
    flatten(facts->starter);
    flatten(facts->starter_trouble);
}
