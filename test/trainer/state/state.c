/*
 * State on all ranks: broadcasts, and finding the rank that differs.
 */
#include <stdlib.h>
#include <string.h>

#include <tutti/trainer/state.h>

#include "ranks.h"
#include "state/crc32c.h"
#include "test/unit/unit.h"

/** A state of three tensors, other bits on each rank. */
struct model {
    float weights[6];
    double scale;
    uint8_t mask[5];
    tutti_state_tensor tensors[3];
};

static const int64_t weights_shape[2] = { 2, 3 };
static const int64_t mask_shape[1] = { 5 };

static void model_init(struct model *model, int rank)
{
    for (int i = 0; i < 6; i++) {
        model->weights[i] = (float)(100 * rank + i);
    }
    model->scale = 0.5 + rank;
    memset(model->mask, rank, sizeof model->mask);
    model->tensors[0] = (tutti_state_tensor){ "weights", model->weights, TUTTI_FLOAT32,
        2, weights_shape, 0, 6 };
    model->tensors[1] = (tutti_state_tensor){ "scale", &model->scale, TUTTI_FLOAT64, 0,
        NULL, 0, 1 };
    model->tensors[2] = (tutti_state_tensor){ "mask", model->mask, TUTTI_UINT8, 1,
        mask_shape, 0, 5 };
}

static void broadcast(tutti *t, void *user)
{
    int root = tutti_size(t) - 1;
    struct model expected;
    struct model model;

    (void)user;
    model_init(&expected, root);
    model_init(&model, tutti_rank(t));
    (void)CHECK(
            tutti_broadcast_state(t, TUTTI_WORLD, model.tensors, 3, root) == TUTTI_OK);
    (void)CHECK(memcmp(model.weights, expected.weights, sizeof model.weights) == 0);
    (void)CHECK(model.scale == expected.scale);
    (void)CHECK(memcmp(model.mask, expected.mask, sizeof model.mask) == 0);
    (void)CHECK(tutti_check_state(t, TUTTI_WORLD, model.tensors, 3) == TUTTI_OK);
}

static void refuse(tutti *t, void *user)
{
    bool odd = tutti_rank(t) == 1;
    struct model model;

    (void)user;
    model_init(&model, tutti_rank(t));
    model.tensors[1].dtype = odd ? TUTTI_INT64 : TUTTI_FLOAT64;
    (void)CHECK(tutti_broadcast_state(t, TUTTI_WORLD, model.tensors, 3, 0) ==
            TUTTI_ERR_MISMATCH);
    (void)CHECK(strstr(
            tutti_last_error(), odd ? "\"scale\", int64" : "\"scale\", float64"));
    (void)CHECK(tutti_broadcast_state(t, TUTTI_WORLD, model.tensors, odd ? 1 : 2, 0) ==
            TUTTI_ERR_MISMATCH);
    model_init(&model, tutti_rank(t));
    model.tensors[0].count = odd ? 5 : 6;
    (void)CHECK(tutti_broadcast_state(t, TUTTI_WORLD, model.tensors, 3, 0) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(
            tutti_last_error(), "rank 1: tensor \"weights\": this rank has a part"));
    model.tensors[2].name = odd ? "weights" : "mask";
    (void)CHECK(tutti_broadcast_state(t, TUTTI_WORLD, model.tensors, 3, 0) ==
            TUTTI_ERR_INVALID);
    (void)CHECK(strstr(tutti_last_error(), "twice"));
    (void)CHECK(model.scale == 0.5 + tutti_rank(t));
}

UNIT_TEST(test_the_state_of_one_rank_is_that_of_all)
{
    for (int n = 1; n <= 4; n += 3) {
        assert_int_equal(ranks_run(n, broadcast, NULL), 0);
    }
    assert_int_equal(ranks_run(3, refuse, NULL), 0);
}

ON_RANKS(test_objects_of_any_size_reach_all_ranks, 3)
{
    static const size_t sizes[] = { 0, 1, 300000 };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int root = (int)i % tutti_size(t);
        size_t count = tutti_rank(t) == root ? sizes[i] : 77;
        void *bytes = NULL;
        char *sent = malloc(sizes[i] + 1);

        for (size_t b = 0; b < sizes[i]; b++) {
            sent[b] = (char)(b * 7 + i);
        }
        bytes = tutti_rank(t) == root ? sent : NULL;
        (void)CHECK(tutti_broadcast_object(t, TUTTI_WORLD, &bytes, &count, root) ==
                TUTTI_OK);
        (void)CHECK(count == sizes[i] && bytes != NULL);
        (void)CHECK(memcmp(bytes, sent, count) == 0);
        if (tutti_rank(t) != root) {
            (void)CHECK(tutti_free(t, bytes) == TUTTI_OK);
        }
        free(sent);
    }
}

/* A planted bug: rank 2 averages by another number of ranks, and one bit comes out otherwise. */
ON_RANKS(test_the_rank_with_other_bits_is_named, 4)
{
    struct model model;
    uint32_t bits;

    model_init(&model, 0);
    if (tutti_rank(t) == 2) {
        memcpy(&bits, &model.weights[4], sizeof bits);
        bits ^= 1;
        memcpy(&model.weights[4], &bits, sizeof bits);
        model.mask[1] = 9;
    }
    (void)CHECK(
            tutti_check_state(t, TUTTI_WORLD, model.tensors, 3) == TUTTI_ERR_MISMATCH);
    (void)CHECK(strstr(tutti_last_error(), "\"weights\"") != NULL);
    (void)CHECK(strstr(tutti_last_error(), "rank 2 differs from rank 0") != NULL);
    model.tensors[0].count = tutti_rank(t) == 1 ? 2 : 6; /* a part: left out */
    (void)CHECK(tutti_check_state(t, TUTTI_WORLD, model.tensors, 2) == TUTTI_OK);
}

/* RFC 3720, appendix B.4. */
UNIT_TEST(test_crc32c_is_that_of_the_standard)
{
    uint8_t bytes[4096];

    memset(bytes, 0, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * i >> 3);
    }
    for (size_t n = 0; n < 70; n++) {
        assert_int_equal(crc32c(crc32c(5, bytes + 1, n), bytes + 1 + n, 100),
                crc32c_portable(5, bytes + 1, n + 100));
    }
}
