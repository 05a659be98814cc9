/*
 * Recordings of three ranks (observe/recorder.h), and what is concluded, printed, drawn and merged of them.
 * A recording is a megabyte of zeros, mostly. So the input says what is not zero: a rank, an
 * offset of three bytes, a length and so many bytes, again and again.
 */
#include <string.h>

#include "fuzz.h"
#include "tools/autopsy/autopsy.h"
#include "tools/trace/trace.h"

enum {
    RANKS = 3,
    EVENTS = 64,
    EVENTS_SHOWN = 40,
    PATCH_MAX = 255
};

#define BYTES \
    (sizeof(struct recording) + EVENTS * sizeof(struct recorder_slot) + \
            RANKS * sizeof(struct recorder_link))

static void patch(struct fuzz_input *input, uint8_t *recordings[RANKS])
{
    while (input->size > 0) {
        uint8_t *to = recordings[fuzz_byte(input) % RANKS];
        size_t offset = fuzz_byte(input);
        uint8_t *bytes;
        size_t len;

        offset |= (size_t)fuzz_byte(input) << 8;
        offset |= (size_t)fuzz_byte(input) << 16;
        bytes = fuzz_bytes(input, fuzz_byte(input), &len);
        if (offset < BYTES && len <= BYTES - offset) {
            memcpy(to + offset, bytes, len);
        }
        free(bytes);
    }
}

/* As tutti-trace. */
static void follow(FILE *file, const struct recorded_job *job)
{
    static const struct merge_choice all = { .last = UINT64_MAX, .has_tensors = true };
    struct trace trace;
    struct accounts accounts;

    REQUIRE(trace_make(&trace, job) == TUTTI_OK);
    REQUIRE(accounts_make(&accounts, &trace) == TUTTI_OK);
    REQUIRE(trace_merge(file, &trace, &all) == TUTTI_OK);
    trace_summary(file, &trace, &accounts);
    REQUIRE(trace_summary_json(file, &trace, &accounts) == TUTTI_OK);
    (void)trace_diff(file, &accounts, &accounts);
    if (trace.ranks[0].step_count > 0) {
        REQUIRE(trace_draw_step(file, &trace, trace.ranks[0].steps[0].number) ==
                TUTTI_OK);
    }
    accounts_fini(&accounts);
    trace_fini(&trace);
}

static void conclude(const struct recorded_job *job)
{
    char *text = NULL;
    size_t len;
    FILE *file = open_memstream(&text, &len);
    struct analysis analysis;

    REQUIRE(file != NULL);
    REQUIRE(analysis_make(&analysis, job) == TUTTI_OK);
    autopsy_print(file, job, &analysis, EVENTS_SHOWN);
    autopsy_draw(file, job, &analysis);
    follow(file, job);
    analysis_fini(&analysis);
    (void)fclose(file);
    free(text);
}

static void make_whole(uint8_t *bytes, int rank)
{
    struct recorder_header *header = (void *)bytes;

    header->magic = RECORDER_MAGIC;
    header->event_capacity = EVENTS;
    header->tensor_capacity = RECORDER_TENSORS;
    header->size = RANKS;
    header->link_mbs = 100;
    header->rank = rank;
}

/* As load.c: of one job, and each rank once. */
static void load(struct recorded_job *job, const uint8_t *bytes, int rank)
{
    struct recording_of *recording = &job->ranks[job->count];

    if (recording_decode(recording, bytes, BYTES) != TUTTI_OK) {
        return;
    }
    if (recording->rank == rank && recording->size == RANKS) {
        job->count++;
    } else {
        recording_fini(recording);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    struct recording_of ranks[RANKS];
    struct recorded_job job = { .ranks = ranks, .size = RANKS };
    uint8_t *recordings[RANKS];

    for (int r = 0; r < RANKS; r++) {
        recordings[r] = calloc(1, BYTES);
        REQUIRE(recordings[r] != NULL);
        make_whole(recordings[r], r);
    }
    patch(&input, recordings);
    for (int r = 0; r < RANKS; r++) {
        load(&job, recordings[r], r);
        free(recordings[r]);
    }
    if (job.count > 0) {
        REQUIRE(clocks_align(&job) == TUTTI_OK);
        conclude(&job);
    }
    for (size_t r = 0; r < job.count; r++) {
        recording_fini(&ranks[r]);
    }
    return 0;
}
