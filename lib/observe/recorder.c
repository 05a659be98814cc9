/*
 * The flight recorder of a rank: a mapping that it writes and others read.
 */
#include "observe/recorder.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    PATH_BYTES = 4096,
    LOOKS_MAX = 8, /* at tensors, when all are taken */
    DESCRIPTOR_MAX = 1 << 20, /* no process has more */
    OWNER_ONLY = 0700,
    OWNER_FILE = 0600,
    AGE_UNIT_NS = 256,
    AGE_MANTISSA_BITS = 12,
    AGE_MANTISSA = (1 << AGE_MANTISSA_BITS) - 1,
    AGE_EXPONENT_MAX = 15
};

#define SECOND_NS INT64_C(1000000000)
#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#    define MADV_POPULATE_WRITE 23
#endif

static_assert(sizeof(struct recorder_header) <= RECORDER_HEADER_BYTES, "fits");

static int64_t real_time(void)
{
    struct timespec now = { 0 };

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* A power of two, so that the place of an event is found without a division. */
static size_t ring_size(size_t events)
{
    size_t size = 1;

    while (size < events) {
        size *= 2;
    }
    return size;
}

static size_t bytes_for(const struct recorder_spec *spec)
{
    return sizeof(struct recording) +
            ring_size(spec->events) * sizeof(struct recorder_slot) +
            (size_t)spec->size * sizeof(struct recorder_link);
}

/* False: another context of this process records there, or it is no descriptor of ours. */
static bool is_free(int fd)
{
    struct recorder_header header;
    struct stat about;

    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        return false;
    }
    if (about.st_size == 0) {
        return true;
    }
    return pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
            header.magic == RECORDER_MAGIC && header.is_open == 0;
}

static tutti_status map_recording(
        struct recorder *recorder, int fd, const struct recorder_spec *spec)
{
    const size_t events = ring_size(spec->events);
    const size_t bytes = bytes_for(spec);
    struct recorder_header *header;
    void *shared;

    recorder->owners = mem_calloc(RECORDER_TENSORS, sizeof *recorder->owners);
    if (recorder->owners == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a recording");
    }
    shared = mmap(spec->over, bytes, PROT_READ | PROT_WRITE,
            MAP_SHARED | (spec->over != NULL ? MAP_FIXED : 0) |
                    (fd < 0 ? MAP_ANONYMOUS : 0),
            fd, 0);
    if (shared == MAP_FAILED) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "map the recording of a rank");
    }
    recorder->shared = shared;
    recorder->bytes = bytes;
    recorder->mask = events - 1;
    header = &recorder->shared->header;
    header->event_capacity = (uint32_t)events;
    header->tensor_capacity = RECORDER_TENSORS;
    header->rank = spec->rank;
    header->size = spec->size;
    header->link_mbs = spec->link_mbs;
    header->pid = (int32_t)getpid();
    header->start_ns = clock_ns();
    header->start_real_ns = real_time();
    (void)gethostname(header->host, sizeof header->host - 1);
    atomic_store_explicit(&header->is_open, 1, memory_order_relaxed);
    header->magic = RECORDER_MAGIC;
    return TUTTI_OK;
}

/* The system answers what is longer (ulimit -f) with a signal that ends the process. */
static bool may_be_so_long(off_t bytes)
{
    struct rlimit limit;

    errno = EFBIG;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || (rlim_t)bytes <= limit.rlim_cur;
}

static tutti_status map_descriptor(
        struct recorder *recorder, int fd, const struct recorder_spec *spec)
{
    const off_t bytes = (off_t)bytes_for(spec);

    /* To 0 first: what an earlier context has written goes. */
    if (ftruncate(fd, 0) != 0 || !may_be_so_long(bytes) || ftruncate(fd, bytes) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "size the recording of a rank");
    }
    return map_recording(recorder, fd, spec);
}

/* A file whose room is there: a full disk would kill whoever writes into the mapping. */
static tutti_status open_file(
        struct recorder *recorder, const struct recorder_spec *spec)
{
    const off_t bytes = (off_t)bytes_for(spec);
    char path[PATH_BYTES];
    tutti_status status;
    int fd;

    (void)mkdir(spec->folder, OWNER_ONLY);
    if (snprintf(path, sizeof path, "%s/rank.%d", spec->folder, spec->rank) >=
            (int)sizeof path) {
        return error_set(TUTTI_ERR_SYSTEM, "the path of the recordings is too long");
    }
    (void)unlink(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, OWNER_FILE);
    if (fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "create %s", path);
    }
    errno = may_be_so_long(bytes) ? posix_fallocate(fd, 0, bytes) : EFBIG;
    status = errno != 0 ? error_set_errno(TUTTI_ERR_SYSTEM, "room for %s", path)
                        : map_recording(recorder, fd, spec);
    (void)close(fd);
    if (status != TUTTI_OK) {
        (void)unlink(path);
        return status;
    }
    /* Where the kernel can: else the first round through the ring takes page faults. */
    (void)madvise(recorder->shared, recorder->bytes, MADV_POPULATE_WRITE);
    recorder->path = mem_strdup(path);
    return TUTTI_OK;
}

tutti_status recorder_open(struct recorder *recorder, const struct recorder_spec *spec)
{
    int64_t number;
    tutti_status status = TUTTI_OK;

    *recorder = (struct recorder){ .shared = NULL };
    if (spec->events == 0) {
        return TUTTI_OK;
    }
    if (spec->descriptor !=
            NULL) { /* of the supervisor, for one context of the process */
        if (text_to_int64(spec->descriptor, &number) && number >= 0 &&
                number <= DESCRIPTOR_MAX && is_free((int)number)) {
            status = map_descriptor(recorder, (int)number, spec);
        }
    } else if (spec->folder[0] != '\0') {
        status = open_file(recorder, spec);
    } else if (spec->is_in_memory) {
        status = map_recording(recorder, -1, spec);
    }
    if (status != TUTTI_OK) {
        recorder_close(recorder, true);
    }
    return status;
}

void recorder_close(struct recorder *recorder, bool well)
{
    if (recorder->shared != NULL) {
        struct recorder_header *header = &recorder->shared->header;

        atomic_store_explicit(&header->is_finalized, well, memory_order_relaxed);
        atomic_store_explicit(&header->is_open, 0, memory_order_relaxed);
        (void)munmap(recorder->shared, recorder->bytes);
    }
    if (recorder->path != NULL && well) {
        (void)unlink(recorder->path);
    }
    mem_free(recorder->path);
    mem_free(recorder->owners);
    *recorder = (struct recorder){ .shared = NULL };
}

void recorder_close_file(struct recorder *recorder)
{
    mem_free(recorder->path);
    recorder->path = NULL;
    recorder_close(recorder, true);
}

struct recorder_link *recorder_links(const struct recorder *recorder)
{
    struct recording *shared = recorder->shared;

    if (shared == NULL) {
        return NULL;
    }
    return (struct recorder_link *)&shared->events[recorder->mask + 1];
}

static bool may_go(const struct recorder *recorder, uint32_t index)
{
    const struct recording *shared = recorder->shared;

    return !recorder->owners[index].is_kept &&
            shared->tensors[index].collective != RECORDER_OF_SET &&
            !recorder_is_in_flight(shared->marks[index].uses, shared->over[index]);
}

/* When all are taken, one that is not in flight; -1 when the next few all are. */
static int64_t find_idle(struct recorder *recorder)
{
    for (int i = 0; i < LOOKS_MAX; i++) {
        const uint32_t index = recorder->next;

        recorder->next = (recorder->next + 1) % RECORDER_TENSORS;
        if (may_go(recorder, index)) {
            return index;
        }
    }
    return -1;
}

/* Where a name has its place. */
static struct recorder_owner *owner_of(
        const struct recorder *recorder, const struct observed_name *place)
{
    return &recorder->owners[place->mark - recorder->shared->marks];
}

/* Those of a recorder from one to another, to its timeline. */
static void copy_names(const struct recorder *recorder, size_t begin, size_t end)
{
    const struct recording *from = recorder->shared;
    struct recording *to = recorder->timeline->shared;

    memcpy(&to->tensors[begin], &from->tensors[begin],
            (end - begin) * sizeof *to->tensors);
    /* Release: who reads the count finds the names. */
    atomic_store_explicit(&to->header.tensor_count,
            atomic_load_explicit(&from->header.tensor_count, memory_order_relaxed),
            memory_order_release);
}

void recorder_set_timeline(struct recorder *recorder, struct recorder *timeline)
{
    recorder->timeline = timeline;
    copy_names(recorder, 0,
            atomic_load_explicit(
                    &recorder->shared->header.tensor_count, memory_order_relaxed));
}

void recorder_add_name(struct recorder *recorder, struct observed_name *place,
        const struct recorder_name *name)
{
    struct recording *shared = recorder->shared;
    struct recorder_owner *owner;
    uint32_t count;
    int64_t index;

    if (shared == NULL) {
        return;
    }
    count = atomic_load_explicit(&shared->header.tensor_count, memory_order_relaxed);
    index = count < RECORDER_TENSORS ? count : find_idle(recorder);
    if (index < 0) {
        return;
    }
    owner = &recorder->owners[index];
    if (owner->place != NULL) {
        *owner->place = (struct observed_name){ .mark = NULL };
    }
    *owner = (struct recorder_owner){ .place = place };
    *place = (struct observed_name){ .mark = &shared->marks[index],
        .over = &shared->over[index] };
    *place->mark = (struct recorder_mark){ .uses = 0 };
    *place->over = 0;
    shared->tensors[index] = (struct recorder_tensor){ .set = name->set,
        .collective = (uint32_t)name->collective };
    (void)snprintf(shared->tensors[index].name, sizeof shared->tensors[index].name,
            "%s", name->name);
    if (count < RECORDER_TENSORS) {
        /* Release: who reads the count finds the name. */
        atomic_store_explicit(
                &shared->header.tensor_count, count + 1, memory_order_release);
    }
    if (recorder->timeline != NULL) {
        copy_names(recorder, (size_t)index, (size_t)index + 1);
    }
}

void recorder_release(struct recorder *recorder, struct observed_name *place)
{
    if (place->mark != NULL) {
        *owner_of(recorder, place) = (struct recorder_owner){ .place = NULL };
        *place = (struct observed_name){ .mark = NULL };
    }
}

void recorder_keep(
        struct recorder *recorder, const struct observed_name *place, bool keep)
{
    if (place->mark != NULL) {
        owner_of(recorder, place)->is_kept = keep;
    }
}

void recorder_add_timed(
        const struct recorder *recorder, const struct recorder_event *event)
{
    if (recorder_is_timed(recorder)) {
        recorder_put(recorder->timeline, event);
    }
}

void recorder_repeat(const struct recorder *recorder, struct recorder_event event)
{
    recorder_add_timed(recorder, &event);
}

uint16_t recorder_age(int64_t ns)
{
    uint64_t units = ns > 0 ? (uint64_t)ns / AGE_UNIT_NS : 0;
    unsigned exponent = 0;

    while (units > AGE_MANTISSA && exponent < AGE_EXPONENT_MAX) {
        units >>= 1;
        exponent++;
    }
    if (units > AGE_MANTISSA) {
        units = AGE_MANTISSA;
    }
    return (uint16_t)(exponent << AGE_MANTISSA_BITS | units);
}

int64_t recorder_age_ns(uint16_t age)
{
    return (int64_t)(age & AGE_MANTISSA) * AGE_UNIT_NS << (age >> AGE_MANTISSA_BITS);
}

/* A sentence of the header. */
static void tell(
        const struct recorder *recorder, enum recorder_kind kind, const char *text)
{
    struct recorder_header *header = &recorder->shared->header;
    char *to = kind == RECORDER_STALL ? header->stall
            : kind == RECORDER_ERROR  ? header->error
                                      : header->failure;

    (void)snprintf(to, RECORDER_TEXT_BYTES, "%s", text);
}

void recorder_tell(const struct recorder *recorder, enum recorder_kind kind,
        int64_t time_ns, const char *text)
{
    if (recorder->shared == NULL) {
        return;
    }
    tell(recorder, kind, text);
    if (recorder_is_timed(recorder)) {
        tell(recorder->timeline, kind, text);
    }
    recorder_add(
            recorder, &(struct recorder_event){ .kind = kind, .time_ns = time_ns });
    if (kind == RECORDER_STALL) {
        /* Release: who sees the count reads the sentence. */
        (void)atomic_fetch_add_explicit(
                &recorder->shared->header.stalls, 1, memory_order_release);
    }
}
