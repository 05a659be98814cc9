/*
 * The parts of the training loop that decide, average, and show.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loop/trainer.h"
#include "ranks.h"
#include "test/unit/unit.h"

UNIT_TEST(a_value_is_best_if_it_is_better_by_the_delta_and_no_nan)
{
    static const double values[] = { NAN, 3, 2.75, 2.5, NAN, 2.25, INFINITY };
    static const bool best[] = { false, true, false, true, false, false, false };
    tutti_trainer down = { .measures.best = NAN, .position.best_step = -1 };
    tutti_trainer up = down;

    down.options.monitor = (tutti_monitor){ .min_delta = 0.25, .patience = 3 };
    up.options.monitor = (tutti_monitor){ .min_delta = 0.25, .maximize = true };
    for (int i = 0; i < 7; i++) {
        down.position.steps = i;
        assert_false(monitor_exhausted(&down));
        assert_int_equal(monitor_update(&down, values[i]), best[i]);
        assert_int_equal(monitor_update(&up, -values[i]), best[i]);
    }
    assert_true(monitor_exhausted(&down)); /* three in a row */
    assert_int_equal(down.position.best_step, 3);
    assert_true(down.measures.best == 2.5 && up.measures.best == -2.5);
    assert_false(monitor_exhausted(&up)); /* no patience is endless patience */
}

static tutti_status add(
        tutti_trainer *trainer, const char *name, double value, double weight)
{
    return tutti_trainer_metric_weighted(trainer, name, value, weight);
}

/** Rank r has seen r values of "b", and one of "a", first on odd ranks. */
static void average(tutti *t, void *user)
{
    tutti_trainer trainer = { .metric_count = 0 };
    int rank = tutti_rank(t);

    (void)user;
    CHECK(group_init(&trainer.group, t, TUTTI_WORLD) == TUTTI_OK);
    for (int i = 0; i < rank; i++) {
        CHECK(add(&trainer, "b", rank, 1) == TUTTI_OK);
    }
    CHECK(add(&trainer, "a", 4 * rank, rank + 1) == TUTTI_OK);
    CHECK(add(&trainer, "b", 1e9, 0) == TUTTI_OK);
    trainer.evaluating = true;
    CHECK(add(&trainer, "c", NAN, 0) == TUTTI_OK);
    trainer.evaluating = false;
    CHECK(metrics_average(&trainer) == TUTTI_OK);
    CHECK(metrics_find(&trainer, "a")->value == (2 * 4 + 3 * 8) / 6.0);
    CHECK(metrics_find(&trainer, "b")->value == (1 * 1 + 2 * 2) / 3.0);
    CHECK(!metrics_find(&trainer, "val_c")->fresh && trainer.metric_count == 3);

    CHECK(add(&trainer, "b", 1 + rank, 1) == TUTTI_OK);
    CHECK(metrics_average(&trainer) == TUTTI_OK);
    CHECK(tutti_trainer_value(&trainer, "b") == 2 &&
            metrics_find(&trainer, "b")->fresh);
    CHECK(!metrics_find(&trainer, "a")->fresh);

    /* The same number of metrics, but another one: no rank waits, all are told. */
    CHECK(add(&trainer, rank == 1 ? "d" : "e", 1, 1) == TUTTI_OK);
    CHECK(metrics_average(&trainer) == TUTTI_ERR_MISMATCH);
    CHECK(strstr(tutti_last_error(), rank == 1 ? "a, b, d, val_c" : "a, b, e, val_c"));
}

UNIT_TEST(metrics_are_means_over_all_values_of_all_ranks)
{
    assert_int_equal(ranks_run(3, average, NULL), 0);
}

UNIT_TEST(names_of_metrics_are_checked)
{
    tutti_trainer trainer = { .metric_count = 0 };
    char name[METRIC_NAME_MAX + 2];

    memset(name, 'x', sizeof name);
    name[METRIC_NAME_MAX + 1] = '\0';
    assert_int_equal(add(&trainer, name, 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(&trainer, NULL, 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(NULL, "a", 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(&trainer, "", 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(&trainer, "a\nb", 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(&trainer, "\xc3(", 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(&trainer, "größe", 0, -1), TUTTI_ERR_INVALID);
    assert_int_equal(
            add(&trainer, "step", 0, 1), TUTTI_ERR_INVALID); /* the log has one */
    assert_int_equal(add(&trainer, "samples_per_s", 0, 1), TUTTI_ERR_INVALID);
    for (int i = 0; i < METRICS_MAX; i++) {
        (void)snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(add(&trainer, name, i, 1), TUTTI_OK);
    }
    assert_int_equal(add(&trainer, "one more", 0, 1), TUTTI_ERR_INVALID);
    assert_int_equal(add(&trainer, "m63", 0, 1), TUTTI_OK);
}

static char shown[1000];

static void collect(void *user, const char *text)
{
    (void)user;
    (void)snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s", text);
}

UNIT_TEST(a_bar_is_replaced_by_the_next_line)
{
    tutti_trainer trainer = { .options = { .output = collect } };

    progress_draw(&trainer, 0.5, "half");
    progress_draw(&trainer, 2, "0123456789012345678901234567890123456789012345 (cut) ");
    progress_line(&trainer, "a line");
    progress_line(&trainer, "another");
    assert_string_equal(shown,
            "\r 50 % [==========>         ] half\x1b[K"
            "\r100 % [====================] "
            "0123456789012345678901234567890123456789012345 "
            "(cu\x1b[K"
            "\r\x1b[Ka line\nanother\n");
}

static void progress(tutti *t, void *user)
{
    const tutti_progress_mode *mode = user;
    tutti_trainer trainer = {
        .options = { .output = collect, .progress = *mode, .steps = 4 },
        .position = { .steps = 1, .epoch_steps = 1 },
    };

    CHECK(group_init(&trainer.group, t, TUTTI_WORLD) == TUTTI_OK);
    report_begin(&trainer);
    trainer.run.steps = 0;
    report_progress(&trainer);
    report_progress(&trainer); /* too early for another bar */
    progress_line(&trainer, "a line");
}

UNIT_TEST(only_rank_0_shows_progress_and_a_bar_where_it_can_be_drawn)
{
    tutti_progress_mode mode = TUTTI_PROGRESS_BAR;
    const char *bar;

    shown[0] = '\0';
    assert_int_equal(ranks_run(2, progress, &mode), 0);
    bar = strstr(shown, "\r 25 % [=====>              ] step 1/4, ");
    assert_non_null(bar);
    assert_null(strstr(bar + 2, " 25 % "));
    assert_non_null(strstr(bar, "\r\x1b[Ka line\n"));

    shown[0] = '\0';
    mode = TUTTI_PROGRESS_AUTO; /* a callback is no terminal */
    assert_int_equal(ranks_run(2, progress, &mode), 0);
    assert_string_equal(shown, "a line\n");

    shown[0] = '\0';
    mode = TUTTI_PROGRESS_NONE;
    assert_int_equal(ranks_run(2, progress, &mode), 0);
    assert_string_equal(shown, "");
}
