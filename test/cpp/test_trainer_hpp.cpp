/*
 * trainer.hpp does what it says, on ranks that are threads.
 */
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tutti/trainer.hpp>

#include "test/cpp/ranks.hpp"

namespace
{

static_assert(!std::is_copy_constructible_v<tuttipp::reducer>);
static_assert(std::is_nothrow_move_constructible_v<tuttipp::reducer>);
static_assert(std::is_nothrow_move_assignable_v<tuttipp::reducer>);

ON_RANKS(test_gradients_of_two_types_are_averaged)
{
    std::vector<float> weights(6, 1.0F);
    std::vector<double> own(2, 10.0 * c.rank());
    tuttipp::reducer reducer(c,
            { tuttipp::param("weights", weights).shape({ 2, 3 }),
                    tuttipp::param("bias", static_cast<double *>(nullptr), own.size())
                            .gradient(own.data()) });

    expect(reducer.size() == 2 && reducer.count(0) == 6 && reducer.find("bias") == 1,
            "the parameters are others");
    expect(reducer.gradient<double>(1) == own.data(), "the gradient lies elsewhere");
    for (int step = 0; step < 3; step++) {
        double loss = c.rank();

        expect(reducer.step() == step, "the steps are not counted");
        reducer.average("loss", loss);
        for (std::size_t i = 0; i < reducer.count(0); i++) {
            reducer.gradient<float>(0)[i] =
                    static_cast<float>(c.rank() * (static_cast<int>(i) + step));
        }
        own = { 10.0 * c.rank(), 3.0 };
        reducer.ready(1);
        reducer.ready(0);
        const tutti_step_report report = reducer.wait();

        expect(report.step == step && report.gradient_bytes == 40, "wrong report");
        expect(reducer.report().step == step, "another step's report");
        expect(reducer.gradient<float>(0)[5] == static_cast<float>(5 + step),
                "wrong average of floats");
        expect(own[0] == 10.0 && own[1] == 3.0 && loss == 1.0, "wrong averages");
    }
}

ON_RANKS(test_options_and_a_move_are_kept)
{
    std::vector<float> weights(1);
    tuttipp::reducer_options settings;

    settings.op = TUTTI_SUM;
    settings.loss_scale = 8;
    settings.first_step = 7;
    tuttipp::reducer first(c, { tuttipp::param("weights", weights) }, settings);
    tuttipp::reducer reducer = std::move(first);

    *reducer.gradient<float>(0) = 16.0F; /* is divided by the loss scale */
    reducer.ready(0);
    expect(reducer.wait().step == 7 && *reducer.gradient<float>(0) == 6.0F,
            "wrong sum or step");
    expect(reducer.loss_scale() == 8 && reducer.size() == 1, "the settings are lost");
}

ON_RANKS(test_a_rank_without_data_is_left_out)
{
    std::vector<float> weights(1);
    tuttipp::reducer_options settings;

    settings.uneven = true;
    tuttipp::reducer reducer(c, { tuttipp::param("weights", weights) }, settings);
    for (int step = 0; step <= c.rank(); step++) {
        *reducer.gradient<float>(0) = static_cast<float>(c.rank());
        reducer.ready(0);
        (void)reducer.wait();
    }
    expect(reducer.out_of_data() == c.size() - 1, "another rank was the last");
    expect(*reducer.gradient<float>(0) ==
                    (c.rank() == 0                  ? 1.0F
                                    : c.rank() == 1 ? 1.5F
                                                    : 2.0F),
            "wrong averages");
}

ON_RANKS(test_an_optimizer_updates_with_the_average)
{
    std::vector<float> weights(4, 1.0F);
    tuttipp::reducer reducer(c, { tuttipp::param("weights", weights) });
    tuttipp::optimizer_options settings;

    settings.kind = TUTTI_OPTIMIZER_SGD;
    settings.learning_rate = 8;
    settings.momentum = 0.5;
    settings.sharded = true;
    tuttipp::optimizer made(reducer, settings);
    tuttipp::optimizer optimizer = std::move(made);

    expect(optimizer.learning_rate() == 8, "the rate is lost");
    optimizer.set_learning_rate(0.25);
    std::fill_n(reducer.gradient<float>(0), 4, static_cast<float>(2 * c.rank()));
    reducer.ready(0);
    expect(optimizer.step().step == 0 && weights == std::vector<float>(4, 0.5F),
            "wrong update");
    expect(optimizer.state().size() == 2, "wrong state");
}

ON_RANKS(test_failures_are_exceptions)
{
    std::vector<float> weights(1);
    std::string text;

    expect(status_of([&] {
        (void)tuttipp::param("weights", weights)
                .gradient(static_cast<double *>(nullptr));
    }) == TUTTI_ERR_INVALID,
            "a gradient of another type was taken");
    expect(status_of([&] {
        tuttipp::reducer twins(c,
                { tuttipp::param("same", weights), tuttipp::param("same", weights) });
    }) == TUTTI_ERR_INVALID,
            "two parameters of one name were taken");
    tuttipp::reducer reducer(c, { tuttipp::param("weights", weights) });
    expect(status_of([&] { (void)reducer.gradient<double>(0); }) == TUTTI_ERR_INVALID &&
                    status_of([&] { (void)reducer.gradient<float>(1); }) ==
                            TUTTI_ERR_INVALID,
            "a gradient that is not there was given");
    try {
        (void)reducer.wait();
    } catch (const tuttipp::error &failure) {
        text = failure.what();
    }
    expect(std::strstr(text.c_str(), "weights") != nullptr,
            "the missing gradient is not named");
    reducer.ready(0);
    (void)reducer.wait();
}

/* With a leak checker this sees that all is freed. */
UNIT_TEST(test_a_step_that_an_exception_breaks_off_ends_the_job)
{
    std::vector<tuttipp::context> contexts = tuttipp::context::local(2);
    std::vector<std::string> texts(contexts.size());
    std::vector<std::thread> threads;

    for (std::size_t rank = 0; rank < contexts.size(); rank++) {
        threads.emplace_back([&, rank] {
            tuttipp::context c = std::move(contexts[rank]);

            try {
                std::vector<float> weights(4, 1.0F);
                std::vector<float> bias(4, 1.0F);
                tuttipp::reducer reducer(c,
                        { tuttipp::param("weights", weights),
                                tuttipp::param("bias", bias) });
                tuttipp::optimizer optimizer(reducer);
                double loss = 0;

                reducer.average("loss", loss);
                reducer.ready(0);
                if (rank == 1) {
                    throw std::runtime_error("the trainer's own");
                }
                reducer.ready(1);
                (void)optimizer.step(); /* for which rank 1 never comes */
            } catch (const std::exception &failure) {
                texts[rank] = failure.what();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    assert_non_null(std::strstr(texts[0].c_str(), "destroyed in a step"));
    assert_string_equal(texts[1].c_str(), "the trainer's own");
}

} // namespace
