/*
 * Reads a recording.
 */
#include "tools/recordings/recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

enum {
    RANKS_MAX = 1 << 24,
    EVENTS_MAX = 1 << 21,
    LINK_WEIGHT_MIN = 8, /* spells, before a median means anything */
    FILE_MAX = 1 << 28, /* bytes: more is no recording */
    SPACE = 0x20,
    DELETE = 0x7f,
    /* Internal collectives, as lib/agree/meta.h numbers them. */
    SET_CREATE = 64,
    SET_DESTROY = 65,
    FINALIZE = 66,
    JOIN = 67
};

/* A text of the file; what could move a terminal's cursor becomes '?'. */
static void copy_text(char *to, size_t capacity, const char *from, size_t len)
{
    size_t i = 0;

    while (i < len && i + 1 < capacity && from[i] != '\0') {
        const unsigned char letter = (unsigned char)from[i];

        to[i] = (char)(letter < SPACE || letter == DELETE ? '?' : letter);
        i++;
    }
    to[i] = '\0';
}

static tutti_status check_header(const struct recorder_header *header, size_t len)
{
    if (len < sizeof(struct recording)) {
        return error_set(TUTTI_ERR_PROTOCOL, "%zu bytes are no recording", len);
    }
    if (header->magic != RECORDER_MAGIC) {
        return error_set(
                TUTTI_ERR_PROTOCOL, "no recording, or one of another version of tutti");
    }
    if (header->size < 1 || header->size > RANKS_MAX || header->rank < 0 ||
            header->rank >= header->size ||
            header->tensor_capacity != RECORDER_TENSORS ||
            header->tensor_count > RECORDER_TENSORS || header->event_capacity == 0 ||
            header->event_capacity > EVENTS_MAX ||
            (header->event_capacity & (header->event_capacity - 1)) != 0) {
        return error_set(TUTTI_ERR_PROTOCOL, "a damaged recording");
    }
    return TUTTI_OK;
}

/* A time that may be added to others; 0: it is damaged. */
static int64_t checked_ns(int64_t ns)
{
    return ns >= 0 && ns <= INT64_MAX / 4 ? ns : 0;
}

static void take_header(
        struct recording_of *recording, const struct recorder_header *header)
{
    *recording = (struct recording_of){ .rank = header->rank,
        .size = header->size,
        .pid = header->pid,
        .is_finalized = header->is_finalized != 0,
        .is_copy = header->seen_ns != 0,
        .end_ns = checked_ns(header->seen_ns),
        .to_real_ns = checked_ns(header->start_real_ns) - checked_ns(header->start_ns),
        .process_state = (char)(header->process_state & DELETE) };
    copy_text(
            recording->host, sizeof recording->host, header->host, sizeof header->host);
    copy_text(recording->process, sizeof recording->process, header->process,
            sizeof header->process);
    copy_text(recording->stall, sizeof recording->stall, header->stall,
            sizeof header->stall);
    copy_text(recording->error, sizeof recording->error, header->error,
            sizeof header->error);
    copy_text(recording->failure, sizeof recording->failure, header->failure,
            sizeof header->failure);
}

/* Entries that were never submitted are empty, except for those with the members of sets. */
static bool take_tensors(
        struct recording_of *recording, const struct recording *copy, size_t count)
{
    const struct recorder_tensor *from = copy->tensors;
    const struct recorder_mark *marks = copy->marks;

    recording->tensors = mem_calloc(count + 1, sizeof *recording->tensors);
    if (recording->tensors == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct recorded_tensor *tensor = &recording->tensors[i];

        tensor->collective = from[i].collective;
        tensor->set = from[i].set;
        tensor->is_in_flight = recorder_is_in_flight(marks[i].uses, copy->over[i]);
        tensor->uses = marks[i].uses;
        tensor->step = marks[i].step;
        tensor->order = marks[i].order;
        copy_text(tensor->name, sizeof tensor->name, from[i].name, sizeof from[i].name);
        recording->has_joined = recording->has_joined ||
                (tensor->collective == JOIN && tensor->is_in_flight);
    }
    recording->tensor_count = count;
    return true;
}

/* False when it was never written, or was being overwritten. */
static bool take_event(struct recorder_event *event, const struct recorder_slot *slot,
        uint64_t number, size_t tensors)
{
    if (slot->number != number + 1 || slot->kind == RECORDER_NOTHING ||
            slot->kind >= RECORDER_KINDS) {
        return false;
    }
    *event = (struct recorder_event){ .kind = (enum recorder_kind)slot->kind,
        .time_ns = checked_ns(slot->time_ns),
        .place = slot->place,
        .amount = slot->amount,
        .set = slot->set,
        .tensor = slot->tensor <= tensors ? slot->tensor : 0 };
    return true;
}

/* `slots`: how many the file contains. */
static bool take_events(struct recording_of *recording,
        const struct recorder_header *header, const struct recorder_slot *from,
        size_t slots)
{
    const uint64_t capacity = header->event_capacity;
    const uint64_t count = header->event_count;
    uint64_t number = count > capacity ? count - capacity : 0;

    recording->events = mem_calloc(capacity + 1, sizeof *recording->events);
    if (recording->events == NULL) {
        return false;
    }
    for (; number < count; number++) {
        const size_t at = (size_t)(number & (capacity - 1));

        if (at < slots &&
                take_event(&recording->events[recording->event_count], &from[at],
                        number, header->tensor_count)) {
            recording->event_count++;
        }
    }
    return true;
}

/* Behind the ring; a file that is cut short has none. */
static bool take_links(
        struct recording_of *recording, const struct recording *copy, size_t len)
{
    const struct recorder_header *header = &copy->header;
    const struct recorder_slot *end = &copy->events[header->event_capacity];
    const struct recorder_link *from = (const struct recorder_link *)end;
    const size_t size = (size_t)header->size;

    recording->link_mbs = header->link_mbs;
    if (header->link_mbs == 0 ||
            len < (size_t)((const char *)end - (const char *)copy) +
                            size * sizeof *from) {
        return true;
    }
    recording->links = mem_calloc(size, sizeof *recording->links);
    for (size_t r = 0; r < size && recording->links != NULL; r++) {
        recording->links[r] = (struct recorded_link){
            .slowness = from[r].weight >= LINK_WEIGHT_MIN
                    ? (double)from[r].slowness / RECORDER_LINK_UNIT
                    : 0,
            .mbs = (double)from[r].kbs / 1e3,
        };
    }
    return recording->links != NULL;
}

/* Orders are known modulo 2^32, and near to what the engine has taken in. */
static void widen_orders(struct recording_of *recording)
{
    for (size_t i = 0; i < recording->event_count; i++) {
        if (recording->events[i].kind == RECORDER_TAKEN) {
            recording->taken = recording->events[i].place;
        }
    }
    for (size_t i = 0; i < recording->tensor_count; i++) {
        const uint32_t order = (uint32_t)recording->tensors[i].order;

        recording->tensors[i].order = recording->taken +
                (uint64_t)(int64_t)(int32_t)(order - (uint32_t)recording->taken);
    }
}

static void find_end(struct recording_of *recording)
{
    for (size_t i = 0; i < recording->event_count && !recording->is_copy; i++) {
        if (recording->events[i].time_ns > recording->end_ns) {
            recording->end_ns = recording->events[i].time_ns;
        }
    }
}

tutti_status recording_decode(
        struct recording_of *recording, const void *bytes, size_t len)
{
    const size_t padded =
            len < sizeof(struct recording) ? sizeof(struct recording) : len;
    struct recording *copy = mem_alloc_aligned(padded);
    const struct recorder_header *header;
    tutti_status status;

    if (copy == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a recording");
    }
    memcpy(copy, bytes, len);
    header = &copy->header;
    status = check_header(header, len);
    if (status == TUTTI_OK) {
        const size_t slots = (len - sizeof *copy) / sizeof(struct recorder_slot);

        take_header(recording, header);
        if (!take_tensors(recording, copy, header->tensor_count) ||
                !take_events(recording, header, copy->events, slots) ||
                !take_links(recording, copy, len)) {
            recording_fini(recording);
            status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a recording");
        } else {
            widen_orders(recording);
            find_end(recording);
        }
    }
    mem_free(copy);
    return status;
}

static tutti_status read_file(int fd, const char *path, char **bytes, size_t *len)
{
    struct stat about;
    ssize_t got = 0;

    if (fstat(fd, &about) != 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read %s", path);
    }
    if (!S_ISREG(about.st_mode) || about.st_size > FILE_MAX) {
        return error_set(TUTTI_ERR_PROTOCOL, "%s: no recording", path);
    }
    *bytes = mem_alloc((size_t)about.st_size + 1);
    if (*bytes == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %s", path);
    }
    for (*len = 0; *len < (size_t)about.st_size; *len += (size_t)got) {
        got = pread(fd, *bytes + *len, (size_t)about.st_size - *len, (off_t)*len);
        if (got <= 0) {
            break;
        }
    }
    return TUTTI_OK;
}

tutti_status recording_load(struct recording_of *recording, const char *path)
{
    char *bytes = NULL;
    size_t len = 0;
    tutti_status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "open %s", path);
    }
    status = read_file(fd, path, &bytes, &len);
    if (status == TUTTI_OK) {
        status = recording_decode(recording, bytes, len);
    }
    mem_free(bytes);
    (void)close(fd);
    return status;
}

void recording_fini(struct recording_of *recording)
{
    mem_free(recording->tensors);
    mem_free(recording->events);
    mem_free(recording->links);
    *recording = (struct recording_of){ .rank = 0 };
}

/* Threads write, so times are not quite in order. */
void recording_window(
        const struct recording_of *recording, int64_t *begin_ns, int64_t *end_ns)
{
    *begin_ns = recording->event_count > 0 ? recording->events[0].time_ns : 0;
    *end_ns = *begin_ns;
    for (size_t i = 1; i < recording->event_count; i++) {
        const int64_t at = recording->events[i].time_ns;

        *begin_ns = at < *begin_ns ? at : *begin_ns;
        *end_ns = at > *end_ns ? at : *end_ns;
    }
}

static bool is_of_caller(const struct recorder_event *event)
{
    return event->kind == RECORDER_WAIT || event->kind == RECORDER_LEFT;
}

/*
 * When something that the engine has not seen was submitted: at the first wait since the engine's last
 * event, or after all events.
 */
static int64_t unseen_since(const struct recording_of *recording)
{
    const size_t count = recording->event_count;
    size_t first = count;

    while (first > 0 && is_of_caller(&recording->events[first - 1])) {
        first--;
    }
    for (; first < count; first++) {
        if (recording->events[first].kind == RECORDER_WAIT) {
            return recording->events[first].time_ns;
        }
    }
    return count > 0 ? recording->events[count - 1].time_ns : 0;
}

int64_t recorded_end_ns(const struct recording_of *recording, size_t event)
{
    const struct recorder_event *begin = &recording->events[event];
    const bool is_wait = begin->kind == RECORDER_WAIT;
    const enum recorder_kind kind = is_wait ? RECORDER_LEFT : RECORDER_FINISHED;

    for (size_t i = event + 1; i < recording->event_count; i++) {
        const struct recorder_event *end = &recording->events[i];

        if (end->kind == kind &&
                (is_wait || (end->set == begin->set && end->place == begin->place))) {
            return end->time_ns;
        }
    }
    return 0;
}

/* Those of a set are recorded in order of their places. */
const struct recorder_event *recorded_batch(const struct recording_of *recording,
        size_t *from, const struct recorder_event *batch)
{
    for (size_t i = *from; i < recording->event_count; i++) {
        const struct recorder_event *event = &recording->events[i];

        if (event->kind == RECORDER_LAUNCHED && event->set == batch->set &&
                event->place >= batch->place) {
            *from = event->place == batch->place ? i : *from;
            return event->place == batch->place ? event : NULL;
        }
    }
    return NULL;
}

bool recorded_is_unseen(
        const struct recording_of *recording, const struct recorded_tensor *tensor)
{
    return tensor->is_in_flight && tensor->order >= recording->taken;
}

/* The engine saw it with the first lot that goes beyond its place. */
int64_t recording_submitted_at(
        const struct recording_of *recording, const struct recorded_tensor *tensor)
{
    for (size_t i = 0; i < recording->event_count; i++) {
        const struct recorder_event *event = &recording->events[i];

        if (event->kind == RECORDER_TAKEN && event->place > tensor->order) {
            return event->place - event->amount <= tensor->order ? event->time_ns : 0;
        }
    }
    return unseen_since(recording);
}

const char *recorded_collective(const struct recorded_tensor *tensor)
{
    switch (tensor->collective) {
    case SET_CREATE:
        return "creation of a process set";
    case SET_DESTROY:
        return "end of a process set";
    case FINALIZE:
        return "tutti_finalize()";
    case JOIN:
        return "tutti_join()";
    default:
        return tutti_collective_name((tutti_collective)tensor->collective);
    }
}

void recorded_rank_text(
        const struct recording_of *recording, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "rank %d on %s", recording->rank,
            recording->host[0] == '\0' ? "a host" : recording->host);
}

int recorded_compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}
