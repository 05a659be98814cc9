/*
 * Messages between negotiators (agree/protocol.h). The input is a script of a scene: ranks
 * submit, messages arrive, and some are damaged or made up on the way.
 */
#include "agree/negotiator.h"

#include "fuzz.h"
#include "test/unit/agree/scene.h"

enum {
    RANKS = 4,
    REQUESTS = 8,
    ACTS_MAX = 400,
    MESSAGE_MAX = 64
};

/* What an act of the script is: the low bits of its first byte. */
enum act {
    ACT_SUBMIT, /* by a rank; the next byte: which request */
    ACT_SUBMIT_AND_RUN,
    ACT_DELIVER, /* the oldest message */
    ACT_RUN, /* until all have arrived */
    ACT_DAMAGE, /* a byte of the oldest message, or a word that the rank shows */
    ACT_CUT, /* the oldest message */
    ACT_MAKE_UP, /* a message */
    ACT_TICK
};

/* What a scene is like: the first byte of the script. */
enum way {
    WAY_MESSAGES,
    WAY_BOARD,
    WAY_OPERANDS, /* messages, with operands; all are children of the coordinator */
    WAYS
};

struct play {
    struct scene scene;
    bool is_pending[RANKS][REQUESTS];
    bool has_left[RANKS]; /* it has joined or finalized, or wants to */
    int seen; /* ends */
};

static struct request make_request(int which)
{
    static const char *const names[] = { "p", "q", "r", "longer name" };
    static const int64_t dims[] = { 5, 1 };
    struct request request = scene_request(names[which % 4], 5);

    switch (which) {
    case 4:
        request = scene_collective(TUTTI_BROADCAST, "b", 3);
        request.meta.ndim = 2;
        request.meta.dims = dims;
        break;
    case 5:
        request = scene_request("grouped", 5);
        request.meta.group = 9;
        request.meta.group_size = 1;
        break;
    case 6:
        return scene_leave(META_JOIN);
    case 7:
        return scene_leave(META_FINALIZE);
    default:
        break;
    }
    return request;
}

static size_t operand_of(void *user, const struct request *request, const void **bytes)
{
    (void)user;
    *bytes = request->name;
    return request->meta.group == 0 && request->collective == TUTTI_ALLREDUCE ? 1 : 0;
}

/* A rank may submit again what has ended. */
static void note_ends(struct play *play)
{
    const struct scene *scene = &play->scene;

    for (; play->seen < scene->end_count; play->seen++) {
        const struct scene_end *end = &scene->ends[play->seen % SCENE_ENDS_MAX];

        for (int i = 0; i < REQUESTS; i++) {
            if (end->name == make_request(i).name) {
                play->is_pending[end->rank][i] = false;
                play->has_left[end->rank] = play->has_left[end->rank] && i < 6;
            }
        }
    }
}

static tutti_status submit(struct play *play, int rank, int which)
{
    const struct request request = make_request(which);

    if (play->is_pending[rank][which] || play->has_left[rank]) {
        return TUTTI_OK;
    }
    play->is_pending[rank][which] = true;
    play->has_left[rank] = which >= 6;
    return scene_try_say(&play->scene, rank, &request);
}

static tutti_status make_up(struct scene *scene, int to, struct fuzz_input *input)
{
    const int from = (to + 1 + fuzz_byte(input) % (scene->size - 1)) % scene->size;
    size_t len;
    uint8_t *bytes = fuzz_bytes(input, fuzz_byte(input) % MESSAGE_MAX, &len);
    tutti_status status =
            negotiator_receive(&scene->ranks[to], from, len == 0 ? NULL : bytes, len);

    free(bytes);
    if (status == TUTTI_OK) {
        REQUIRE(negotiator_is_valid(&scene->ranks[to]));
        status = scene_try_flush(scene, to);
    }
    return status;
}

static tutti_status tick(struct scene *scene, int rank)
{
    tutti_status status;

    scene->ranks[rank].now_ns += 1500;
    status = negotiator_tick(&scene->ranks[rank]);
    return status == TUTTI_OK ? scene_try_flush(scene, rank) : status;
}

static tutti_status act(struct play *play, struct fuzz_input *input)
{
    struct scene *scene = &play->scene;
    const uint8_t what = fuzz_byte(input);
    const int rank = (what >> 3 & 3) % scene->size;
    struct scene_message *oldest = scene->first;
    tutti_status status;
    uint8_t at;

    switch ((enum act)(what & 7)) {
    case ACT_SUBMIT:
        return submit(play, rank, fuzz_byte(input) % REQUESTS);
    case ACT_SUBMIT_AND_RUN:
        status = submit(play, rank, fuzz_byte(input) % REQUESTS);
        return status == TUTTI_OK ? scene_try_run(scene) : status;
    case ACT_DELIVER:
        return oldest == NULL ? TUTTI_OK : scene_try_deliver(scene);
    case ACT_RUN:
        return scene_try_run(scene);
    case ACT_DAMAGE:
        at = fuzz_byte(input);
        if ((what & 32) != 0 && scene->ranks[rank].config.board) {
            scene->boards[rank][0] ^= UINT64_C(1) << at % 64;
        } else if (oldest != NULL && oldest->len > 0) {
            oldest->bytes[at % oldest->len] ^= fuzz_byte(input);
        }
        return TUTTI_OK;
    case ACT_CUT:
        if (oldest != NULL && oldest->len > 0) {
            oldest->len = fuzz_byte(input) % oldest->len;
        }
        return TUTTI_OK;
    case ACT_MAKE_UP:
        return make_up(scene, rank, input);
    case ACT_TICK:
        return tick(scene, rank);
    }
    return TUTTI_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play;
    struct fuzz_input input = { data, size };
    const int way = fuzz_byte(&input) % WAYS;
    const int ranks = way == WAY_OPERANDS ? RANKS - 1 : RANKS;
    tutti_status status = TUTTI_OK;

    play = (struct play){ .seen = 0 };
    REQUIRE(scene_init(
            &play.scene, way == WAY_BOARD ? SCENE_BOARD : SCENE_MESSAGES, ranks, 2));
    for (int r = 0; r < ranks && way == WAY_OPERANDS; r++) {
        play.scene.ranks[r].config.operand = operand_of;
    }
    for (int i = 0; i < ACTS_MAX && input.size > 0 && status == TUTTI_OK; i++) {
        status = act(&play, &input);
        note_ends(&play);
    }
    REQUIRE(status == TUTTI_OK || status == TUTTI_ERR_PROTOCOL);
    scene_fini(&play.scene);
    return 0;
}
