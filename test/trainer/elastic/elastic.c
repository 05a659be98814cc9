/*
 * Commit and restore among ranks that each have a memory of their own, as ranks on different
 * hosts have. "Started anew" is a new state with the memory of the old one.
 */
#include "elastic/elastic.h"

#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "test/unit/unit.h"

enum {
    VALUES = 3000000 /* 12 MB: several pieces */
};

/** What a rank trains. */
struct model {
    tutti_state *state;
    int64_t step;
    int64_t values[100];
};

static void begin(tutti *t, struct model *model)
{
    CHECK(tutti_state_create(t, &model->state) == TUTTI_OK);
    CHECK(tutti_state_register(
                  model->state, &model->step, sizeof model->step, "step") == TUTTI_OK);
    CHECK(tutti_state_register(model->state, model->values, sizeof model->values,
                  "values") == TUTTI_OK);
}

/* Its memory is all that is left. */
static void start_anew(tutti *t, struct model *model)
{
    const struct region region = model->state->region;

    model->state->region = (struct region){ .fd = -1 };
    tutti_state_destroy(model->state);
    memset(model, 0, sizeof *model);
    begin(t, model);
    region_close(&model->state->region);
    model->state->region = region;
    model->state->region.generation++;
}

static void commit(struct model *model, int64_t step)
{
    model->step = step;
    for (int i = 0; i < 100; i++) {
        model->values[i] = step * i;
    }
    CHECK(tutti_state_commit(model->state) == TUTTI_OK);
}

static bool is_at(const struct model *model, int64_t step)
{
    return model->step == step && model->values[99] == step * 99;
}

/* The mark of the newest commit, or its bytes, as a death or bad memory would have left them. */
static void spoil(const struct model *model, bool unmark, bool flip)
{
    const struct region *region = &model->state->region;
    const int slot = model->state->newest;
    struct region_share share = region_share(region, model->state->total);
    const char wrong = 77;

    share.number = region_look(region, slot).number;
    share.layout = model->state->layout;
    share.is_complete = !unmark;
    if (flip) {
        CHECK(region_write(region, slot, &share, 100, &wrong, 1) == TUTTI_OK);
    } else {
        CHECK(region_write(region, slot, &share, 0, &model->step, 8) == TUTTI_OK);
        CHECK(region_write(region, slot, &share, 8, model->values, 800) == TUTTI_OK);
    }
    CHECK(region_put(region, slot, &share) == TUTTI_OK);
}

ON_RANKS(test_the_newest_commit_is_restored, 3)
{
    struct model model = { .step = 0 };
    uint64_t number = 1;
    uint64_t later = 0;

    begin(t, &model);
    CHECK(tutti_state_restore(model.state, &number) == TUTTI_OK && number == 0);
    commit(&model, 5);
    commit(&model, 6);
    model.step = 99;
    CHECK(tutti_state_restore(model.state, &number) == TUTTI_OK && is_at(&model, 6));
    start_anew(t, &model);
    CHECK(tutti_state_sync(model.state) == TUTTI_OK && is_at(&model, 6));
    commit(&model, 7); /* of another generation */
    CHECK(tutti_state_restore(model.state, &later) == TUTTI_OK && is_at(&model, 7));
    CHECK(later > number && tutti_state_generation(model.state) == 2);
    tutti_state_destroy(model.state);
}

/* `user`: how many ranks, from the last, have marked the commit before they died. */
static void marks(tutti *t, void *user)
{
    const int marked = *(const int *)user;
    struct model model = { .step = 0 };

    begin(t, &model);
    commit(&model, 5);
    commit(&model, 6);
    spoil(&model, tutti_rank(t) < tutti_size(t) - marked, false);
    start_anew(t, &model);
    CHECK(tutti_state_sync(model.state) == TUTTI_OK);
    CHECK(is_at(&model, marked > 0 ? 6 : 5));
    tutti_state_destroy(model.state);
}

UNIT_TEST(test_a_commit_counts_when_one_rank_has_marked_it)
{
    for (int marked = 0; marked <= 3; marked++) {
        assert_int_equal(ranks_run(3, marks, &marked), 0);
    }
}

/* `user`: so many ranks, from the first, have lost the newest commit. */
static void bad_memory(tutti *t, void *user)
{
    const int bad = *(const int *)user;
    struct model model = { .step = 0 };

    begin(t, &model);
    commit(&model, 5);
    commit(&model, 6);
    if (tutti_rank(t) < bad) {
        spoil(&model, false, true);
    }
    start_anew(t, &model);
    CHECK(tutti_state_sync(model.state) == TUTTI_OK);
    CHECK(is_at(&model, bad < 3 ? 6 : 5));
    commit(&model, 8);
    CHECK(tutti_state_restore(model.state, NULL) == TUTTI_OK && is_at(&model, 8));
    tutti_state_destroy(model.state);
}

UNIT_TEST(test_memory_that_went_bad_is_not_restored)
{
    for (int bad = 1; bad <= 3; bad++) {
        assert_int_equal(ranks_run(3, bad_memory, &bad), 0);
    }
}

ON_RANKS(test_a_new_host_gets_the_state, 3)
{
    struct model model = { .step = 0 };

    begin(t, &model);
    commit(&model, 5);
    if (tutti_rank(t) == 0) { /* a host that is new, with the lowest rank */
        CHECK(ftruncate(model.state->region.fd, ELASTIC_CONTROL_BYTES) == 0);
    }
    start_anew(t, &model);
    CHECK(tutti_state_sync(model.state) == TUTTI_OK && is_at(&model, 5));
    tutti_state_destroy(model.state);
}

/* A tensor of which ranks have parts, which are others after the start. */
static void parts(tutti *t, void *user)
{
    static const int64_t dims[] = { VALUES };
    static float values[4][VALUES];
    float *mine = values[tutti_rank(t)];
    tutti_state_tensor tensor = {
        .name = "moments", .dtype = TUTTI_FLOAT32, .ndim = 1, .dims = dims, .data = mine
    };
    struct model model = { .step = 0 };

    (void)user;
    begin(t, &model);
    tensor.count = tutti_part(VALUES, tutti_size(t), tutti_rank(t), &tensor.first);
    for (int64_t i = 0; i < tensor.count; i++) {
        mine[i] = (float)(tensor.first + i);
    }
    CHECK(tutti_state_register_tensors(model.state, &tensor, 1) == TUTTI_OK);
    commit(&model, 5);
    memset(mine, 0, sizeof values[0]);
    start_anew(t, &model);
    tensor.first = tutti_rank(t) == 0 ? 0 : 17;
    tensor.count = VALUES - tensor.first;
    CHECK(tutti_state_register_tensors(model.state, &tensor, 1) == TUTTI_OK);
    CHECK(tutti_state_sync(model.state) == TUTTI_OK && is_at(&model, 5));
    for (int64_t i = 0; i < tensor.count; i++) {
        if (!CHECK(mine[i] == (float)(tensor.first + i))) {
            break;
        }
    }
    tutti_state_destroy(model.state);
}

UNIT_TEST(test_parts_are_restored_as_other_parts)
{
    assert_int_equal(ranks_run(3, parts, NULL), 0);
}

ON_RANKS(test_what_one_rank_was_told_all_return, 3)
{
    struct model model = { .step = 0 };

    begin(t, &model);
    CHECK(tutti_check_hosts(model.state) == TUTTI_OK);
    if (tutti_rank(t) == 1) {
        atomic_store(&model.state->region.control->notice,
                elastic_notice(2, TUTTI_NOTICE_LEAVE)); /* for another generation */
    }
    CHECK(tutti_state_commit(model.state) == TUTTI_OK);
    if (tutti_rank(t) == 1) {
        atomic_store(&model.state->region.control->notice,
                elastic_notice(1, TUTTI_NOTICE_HOSTS));
    }
    CHECK(tutti_state_commit(model.state) == TUTTI_AGAIN);
    CHECK(tutti_state_notice(model.state) == TUTTI_NOTICE_HOSTS);
    CHECK(tutti_elastic_exit_status(TUTTI_AGAIN) == 75);
    tutti_state_destroy(model.state);
}

ON_RANKS(test_misuse_is_an_error_on_all_ranks, 3)
{
    struct model model = { .step = 0 };
    int64_t other[2] = { 0 };

    begin(t, &model);
    CHECK(tutti_state_register(model.state, other, 8, "step") == TUTTI_ERR_INVALID);
    commit(&model, 5);
    CHECK(tutti_state_register(model.state, other, 8, "late") == TUTTI_ERR_INVALID);
    start_anew(t, &model);
    CHECK(tutti_state_register(model.state, other, 8, "more") == TUTTI_OK);
    CHECK(tutti_state_sync(model.state) == TUTTI_ERR_MISMATCH);
    CHECK(strstr(tutti_last_error(), "808 bytes") != NULL);
    tutti_state_destroy(model.state);

    CHECK(tutti_state_create(t, &model.state) == TUTTI_OK);
    CHECK(tutti_state_register(model.state, other, 8 * (1 + (tutti_rank(t) == 1)),
                  "size") == TUTTI_OK);
    CHECK(tutti_state_commit(model.state) == TUTTI_ERR_MISMATCH);
    tutti_state_destroy(model.state);
}
