/*
 * Wrong calls of parameter servers, and ranks that fail: errors that name the thing, and no
 * rank that waits.
 */
#include <stdlib.h>

#include "model.h"
#include "ranks.h"
#include "test/unit/unit.h"

static bool says(const char *word)
{
    return strstr(tutti_last_error(), word) != NULL;
}

static void misuse_client(tutti_server *ps)
{
    CHECK(tutti_server_serve(ps) == TUTTI_ERR_INVALID && says("no parameter server"));
    CHECK(tutti_server_step(ps) == TUTTI_ERR_INVALID && says("before the first push"));
    CHECK(tutti_server_destroy(ps) == TUTTI_ERR_INVALID && says("tutti_server_finish"));
    CHECK(tutti_server_finish(ps) == TUTTI_OK);
    CHECK(tutti_server_finish(ps) == TUTTI_ERR_INVALID && says("is finished"));
    CHECK(tutti_server_pull(ps) == TUTTI_ERR_INVALID && says("is finished"));
}

ON_RANKS(test_calls_out_of_order_are_refused, 2)
{
    struct model model;
    tutti_server *ps;

    model_init(&model, 1.0F);
    if (!CHECK(tutti_server_create(t, model.params, MODEL_PARAMS, NULL, &ps) ==
                TUTTI_OK)) {
        return;
    }
    if (tutti_rank(t) == 0) {
        misuse_client(ps);
    } else {
        CHECK(tutti_server_pull(ps) == TUTTI_ERR_INVALID && says("tutti_server_serve"));
        CHECK(tutti_server_destroy(ps) == TUTTI_ERR_INVALID &&
                says("tutti_server_serve"));
        CHECK(tutti_server_serve(ps) == TUTTI_OK);
        CHECK(tutti_server_serve(ps) == TUTTI_ERR_INVALID && says("already"));
    }
    CHECK(tutti_server_destroy(ps) == TUTTI_OK);
}

/* Creates with what rank 2 of 3 has changed; all must be refused alike, and go on. */
static void refuse(tutti *t, const tutti_param *params,
        const tutti_server_options *options, tutti_status expected, const char *word,
        bool on_all)
{
    tutti_server *ps;

    CHECK(tutti_server_create(t, params, MODEL_PARAMS, options, &ps) == expected);
    CHECK((!on_all && tutti_rank(t) != 2) || says(word));
    CHECK(ps == NULL);
}

ON_RANKS(test_ranks_that_differ_are_refused_together, 3)
{
    bool is_odd = tutti_rank(t) == 2;
    tutti_server_options options;
    struct model model;

    tutti_server_options_default(&options);
    model_init(&model, 1.0F);
    model.params[1].count -= is_odd ? 1 : 0;
    refuse(t, model.params, &options, TUTTI_ERR_MISMATCH, "\"b\"", true);
    model_init(&model, 1.0F);
    model.params[2].name = is_odd ? "a" : "c";
    refuse(t, model.params, &options, TUTTI_ERR_INVALID, "both called \"a\"", false);
    model.params[2].name = "c";
    model.params[0].dtype = is_odd ? TUTTI_FLOAT16 : TUTTI_FLOAT32;
    refuse(t, model.params, &options, TUTTI_ERR_UNSUPPORTED, "\"a\" is float16", false);
    model.params[0].dtype = TUTTI_FLOAT32;
    model.params[0].value = is_odd ? model.a : NULL; /* only a server needs none */
    refuse(t, model.params, &options, TUTTI_ERR_INVALID, "", false);
    model.params[0].value = model.a;
    options.staleness = is_odd ? 1 : 2;
    refuse(t, model.params, &options, TUTTI_ERR_MISMATCH, "staleness", true);
    options.staleness = 0;
    options.servers = 3;
    refuse(t, model.params, &options, TUTTI_ERR_INVALID, "of 3 ranks", true);
    options.role = TUTTI_ROLE_CHIEF;
    refuse(t, model.params, &options, TUTTI_ERR_INVALID, "3 are chief", true);
}

static tutti_server *left; /* by a rank that finalizes: it cannot be destroyed */

/* Rank 1 leaves in the middle of the training; *user: it dies, rather than finalizes. */
static void run_leaver(tutti *t, void *user)
{
    const bool *dies = user;
    struct model model;
    tutti_server *ps;
    tutti_status status;

    model_init(&model, 1.0F);
    if (!CHECK(tutti_server_create(t, model.params, MODEL_PARAMS, NULL, &ps) ==
                TUTTI_OK)) {
        return;
    }
    status = tutti_barrier(t, "created", NULL);
    if (tutti_server_role(ps) == TUTTI_ROLE_SERVER) {
        status = tutti_server_serve(ps);
        CHECK(status == (*dies ? TUTTI_ERR_CONTEXT_FAILED : TUTTI_ERR_FINALIZED));
        CHECK(says(*dies ? "the worker dies" : "serving rank 1"));
        CHECK(tutti_server_destroy(ps) == TUTTI_OK);
        return;
    }
    if (status == TUTTI_OK) {
        status = tutti_server_pull(ps);
    }
    if (tutti_rank(t) == 1) {
        CHECK(status == TUTTI_OK);
        left = ps;
        if (*dies) {
            CHECK(tutti_abort(t, "the worker dies") == TUTTI_OK);
            CHECK(tutti_server_destroy(ps) == TUTTI_OK);
        }
        return;
    }
    /* Or the end comes while this rank is still in the barrier or the pull. */
    if (status == TUTTI_OK) {
        status = tutti_server_step(ps);
    }
    CHECK(status == TUTTI_ERR_CONTEXT_FAILED);
    CHECK(tutti_server_destroy(ps) == TUTTI_OK);
}

UNIT_TEST(test_a_worker_that_dies_ends_the_job)
{
    bool dies = true;

    assert_int_equal(ranks_run(3, run_leaver, &dies), 0);
}

UNIT_TEST(test_a_worker_that_finalizes_too_early_ends_the_job)
{
    bool dies = false;

    assert_int_equal(ranks_run(3, run_leaver, &dies), 0);
    assert_non_null(left);
}

struct role_case {
    const char *roles, *config; /* NULL: not set            */
    const char *expected[2]; /* of rank 0 and 1: the role, or a word of the error */
    tutti_status status;
    int index; /* of rank 1 */
};

static void run_role(tutti *t, void *user)
{
    const struct role_case *is = user;
    tutti_role role = TUTTI_ROLE_BY_RANK;
    int index = -1;
    tutti_status status = tutti_role_from_environment(t, &role, &index);
    const char *expected = is->expected[tutti_rank(t)];

    CHECK(status == is->status);
    if (status == TUTTI_OK) {
        CHECK(strcmp(tutti_role_name(role), expected) == 0);
        CHECK(tutti_rank(t) == 0 || index == is->index);
    } else {
        CHECK(says(expected));
    }
}

UNIT_TEST(test_roles_come_from_the_environment)
{
    static struct role_case cases[] = {
        { .expected = { "chief", "worker" }, .index = 0 },
        { .roles = "ps,ps", .config = "{", .expected = { "ps", "ps" }, .index = 1 },
        { .roles = "evaluator,chief", .expected = { "evaluator", "chief" } },
        { .roles = "boss",
                .expected = { "'boss'", "rank 0 has no role" },
                .status = TUTTI_ERR_CONFIG },
        { .config = "{\"cluster\":{},\"task\":{\"type\":\"ps\",\"index\":3}}",
                .expected = { "ps", "ps" },
                .index = 3 },
        { .config = "{\"task\":{\"type\":\"ps\"}}",
                .expected = { "a number as its index", "a number as its index" },
                .status = TUTTI_ERR_CONFIG },
        { .config = "{\"cluster\":",
                .expected = { "no JSON", "no JSON" },
                .status = TUTTI_ERR_CONFIG },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)unsetenv("TUTTI_ROLES");
        (void)unsetenv("TF_CONFIG");
        if (cases[i].roles != NULL) {
            (void)setenv("TUTTI_ROLES", cases[i].roles, 1);
        }
        if (cases[i].config != NULL) {
            (void)setenv("TF_CONFIG", cases[i].config, 1);
        }
        assert_int_equal(ranks_run(2, run_role, &cases[i]), 0);
    }
}
