/*
 * tutti.hpp does what it says: on ranks that are threads, each test joins a job of its
 * own, and every rank notes what it finds; the main thread asserts.
 */
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" {
#include "test/unit/unit.h"
}

#include <tutti/tutti.hpp>

#include "test/cpp/ranks.hpp"

namespace
{

struct my_half {
    std::uint16_t bits;
};

} // namespace

template <> struct tuttipp::dtype_of<my_half> {
    static constexpr tutti_dtype value = TUTTI_FLOAT16;
};

namespace
{

static_assert(tuttipp::dtype_of_v<bool> == TUTTI_BOOL);
static_assert(tuttipp::dtype_of_v<signed char> == TUTTI_INT8);
static_assert(tuttipp::dtype_of_v<std::uint8_t> == TUTTI_UINT8);
static_assert(tuttipp::dtype_of_v<std::int16_t> == TUTTI_INT16);
static_assert(tuttipp::dtype_of_v<std::uint16_t> == TUTTI_UINT16);
static_assert(tuttipp::dtype_of_v<std::int32_t> == TUTTI_INT32);
static_assert(tuttipp::dtype_of_v<std::uint32_t> == TUTTI_UINT32);
static_assert(tuttipp::dtype_of_v<long long> == TUTTI_INT64);
static_assert(tuttipp::dtype_of_v<unsigned long> == TUTTI_UINT64);
static_assert(tuttipp::dtype_of_v<const float> == TUTTI_FLOAT32);
static_assert(tuttipp::dtype_of_v<double> == TUTTI_FLOAT64);
static_assert(tuttipp::dtype_of_v<my_half> == TUTTI_FLOAT16);

static_assert(!std::is_copy_constructible_v<tuttipp::context>);
static_assert(!std::is_copy_constructible_v<tuttipp::request>);
static_assert(!std::is_copy_constructible_v<tuttipp::rows_request<int>>);
static_assert(!std::is_copy_constructible_v<tuttipp::process_set>);
static_assert(!std::is_copy_constructible_v<tuttipp::tensor>);
static_assert(!std::is_copy_constructible_v<tuttipp::array<float>>);
static_assert(!std::is_copy_constructible_v<tuttipp::config>);
static_assert(std::is_nothrow_move_constructible_v<tuttipp::context>);
static_assert(std::is_nothrow_move_assignable_v<tuttipp::request>);

UNIT_TEST(test_error_carries_status_and_text)
{
    tuttipp::config settings;
    tutti_status status = TUTTI_OK;
    std::string text;

    try {
        settings.set("stall_warnin_s", "3");
    } catch (const tuttipp::error &failure) {
        status = failure.status();
        text = failure.what();
    }

    assert_int_equal(status, TUTTI_ERR_CONFIG);
    assert_non_null(std::strstr(text.c_str(), "stall_warnin_s"));
}

UNIT_TEST(test_config_keeps_what_is_set)
{
    tuttipp::config settings;

    settings.set("stall_warning_s", "3").set("stall_warning_s", "7");
    tuttipp::config moved = std::move(settings);

    assert_string_equal(moved.get("stall_warning_s").c_str(), "7");
}

ON_RANKS(test_allreduce_sums_containers_in_place)
{
    std::vector<double> values = { 1.0 * c.rank(), 10.0, -1.0 * c.rank() };
    std::int32_t numbers[2] = { c.rank(), 7 };

    c.allreduce("values", values, TUTTI_SUM);
    c.allreduce("numbers", numbers, TUTTI_MAX);

    expect(values == std::vector<double>{ 3.0, 30.0, -3.0 }, "wrong sums");
    expect(numbers[0] == ranks_count - 1 && numbers[1] == 7, "wrong maxima");
}

ON_RANKS(test_requests_finish_in_any_order)
{
    std::array<float, 4> first = { 1, 2, 3, 4 };
    std::array<std::int64_t, 1> second = { c.rank() };
    std::vector<tuttipp::request> requests;

    requests.push_back(c.allreduce_async("first", first, TUTTI_AVERAGE));
    requests.push_back(c.allreduce_async("second", second, TUTTI_SUM));
    expect(static_cast<bool>(requests[1]), "a request in flight is empty");
    requests[1].wait();
    expect(!requests[1] && second[0] == 3, "wrong sum");
    tuttipp::wait_all(requests);

    expect(!requests[0] && first[3] == 4.0F, "wrong average");
}

ON_RANKS(test_test_and_wait_for_become_true)
{
    std::vector<float> values(10, 1.0F);
    tuttipp::request tested = c.allreduce_async("tested", values, TUTTI_SUM);

    while (!tested.test()) {
        std::this_thread::yield();
    }
    tuttipp::request timed = c.barrier_async("timed");
    while (!timed.wait_for(std::chrono::milliseconds(1))) {
    }

    expect(values[9] == ranks_count && tested.test(), "wrong sum");
}

UNIT_TEST(test_a_stream_is_named_and_waits)
{
    int somewhere = 0;

    on_ranks(ranks_count, [&](tuttipp::context &c) {
        std::vector<float> values(3, 1.0F);

        /* Host memory: the stream is not looked at. */
        tuttipp::request request = c.allreduce_async(
                "values", values, TUTTI_SUM, tuttipp::options().stream(&somewhere));
        request.wait_stream(&somewhere);
        request.wait_stream(nullptr);

        expect(!request && values[2] == ranks_count, "wrong sum");
    });
    assert_ptr_equal(tuttipp::options().stream(&somewhere).get().stream, &somewhere);
}

ON_RANKS(test_destroyed_request_waits_for_its_buffer)
{
    std::vector<float> values(1000, 2.0F);

    {
        tuttipp::request dropped = c.allreduce_async("values", values, TUTTI_SUM);
    }

    expect(values[999] == 2.0F * ranks_count, "the operation was not finished");
}

ON_RANKS(test_broadcast_and_barrier)
{
    std::vector<std::int16_t> values(5, static_cast<std::int16_t>(c.rank()));
    bool flags[2] = { c.rank() == 1, c.rank() == 0 };
    my_half half = { static_cast<std::uint16_t>(c.rank() + 100) };

    c.broadcast("values", values, 2);
    tuttipp::request flagged = c.broadcast_async("flags", flags, 1);
    c.broadcast("half", &half, 1, 1);
    flagged.wait();
    c.barrier("end");

    expect(values[4] == 2 && flags[0] && !flags[1], "wrong values");
    expect(half.bits == 101, "wrong half");
}

ON_RANKS(test_messages_to_the_next_rank)
{
    const int next = (c.rank() + 1) % ranks_count;
    const int before = (c.rank() + ranks_count - 1) % ranks_count;
    const std::vector<std::int32_t> sent = { c.rank(), 7 };
    std::vector<std::int32_t> received(2);
    const double one = 0.5 + c.rank();
    double other = 0;

    tuttipp::request sends = c.send_async("vector", sent, next);
    c.recv("vector", received, before);
    sends.wait();
    tuttipp::request receives = c.recv_async("value", &other, 1, before);
    c.send("value", &one, 1, next);
    receives.wait();

    expect(received[0] == before && received[1] == 7, "wrong vector");
    expect(other == 0.5 + before, "wrong value");
}

ON_RANKS(test_reduce_gives_the_root_the_result)
{
    std::vector<std::int32_t> values = { c.rank() + 1, 10 };
    const float input[2] = { 1.0F, static_cast<float>(c.rank()) };
    float output[2] = { 0.0F, 0.0F };

    c.reduce("values", values, TUTTI_SUM, 1);
    c.reduce("pointers", input, output, 2, TUTTI_MAX, 2);
    expect(values ==
                    (c.rank() == 1 ? std::vector<std::int32_t>{ 6, 30 }
                                   : std::vector<std::int32_t>{ c.rank() + 1, 10 }),
            "wrong sum");
    expect(output[1] == (c.rank() == 2 ? 2.0F : 0.0F), "wrong maximum");

    c.reduce_async("values", values, TUTTI_SUM, 0).wait();
    expect(values[0] == (c.rank() == 0 ? 10 : c.rank() == 1 ? 6 : 3), "wrong sum");
}

ON_RANKS(test_reducescatter_spreads_parts)
{
    const std::vector<int> input = { 1, 2, 3, 4, c.rank() };
    const tuttipp::slice mine = tuttipp::part(5, c.size(), c.rank());
    std::vector<int> output(static_cast<std::size_t>(mine.rows));
    std::vector<double> rows(8, 1.0 + c.rank());
    const int expected[5] = { 3, 6, 9, 12, 3 };

    c.reducescatter("values", input, output, TUTTI_SUM);
    for (std::size_t i = 0; i < output.size(); i++) {
        expect(output[i] == expected[static_cast<std::size_t>(mine.first) + i],
                "wrong sum");
    }
    /* ranks 0, 1 and 2 get 0, 3 and 1 rows of two, in place */
    double *part = rows.data() + (c.rank() == 2 ? 6 : 0);
    c.reducescatter(
            "rows", rows.data(), part, tuttipp::rows(4, 2).of({ 0, 3, 1 }), TUTTI_SUM);
    expect(rows[0] == (c.rank() == 1 ? 6.0 : 1.0 + c.rank()) &&
                    rows[7] == (c.rank() == 2 ? 6.0 : 1.0 + c.rank()),
            "wrong rows");
}

ON_RANKS(test_allgather_in_its_three_forms)
{
    std::array<int, 2> pair = { c.rank(), -c.rank() };
    std::vector<int> pairs(6);
    std::vector<int> listed(3, c.rank());
    std::vector<int> all(3);
    const std::vector<int> own(static_cast<std::size_t>(c.rank()), c.rank());

    c.allgather("equal", pair, pairs);
    expect(pairs == std::vector<int>{ 0, 0, 1, -1, 2, -2 }, "wrong pairs");

    /* rank r has r rows of one */
    c.allgather("listed", listed.data(), all.data(),
            tuttipp::rows(own.size()).of({ 0, 1, 2 }));
    expect(all == std::vector<int>{ 1, 2, 2 }, "wrong lists");

    tuttipp::rows_request<int> request =
            c.allgather_async("free", own.data(), tuttipp::rows(own.size()));
    request.wait();
    expect(static_cast<bool>(request) && request.test(), "nothing to take");
    tuttipp::received<int> found = request.take();
    expect(!request && found.rows_of == std::vector<std::int64_t>{ 0, 1, 2 },
            "wrong numbers of rows");
    expect(std::vector<int>(found.values.begin(), found.values.end()) ==
                    std::vector<int>{ 1, 2, 2 },
            "wrong rows");
}

ON_RANKS(test_alltoall_exchanges_parts)
{
    const int base = 10 * c.rank();
    std::vector<int> sent = { base, base + 1, base + 2 };
    std::vector<int> came(3);
    std::vector<std::int16_t> rows(6, static_cast<std::int16_t>(c.rank()));

    c.alltoall("equal", sent, came);
    expect(came == std::vector<int>{ c.rank(), 10 + c.rank(), 20 + c.rank() },
            "wrong parts");

    /* rank r gets r rows of each rank */
    const auto mine = static_cast<std::size_t>(c.rank());
    std::vector<int> listed(3 * mine);
    c.alltoall("listed", sent.data(), listed.data(),
            tuttipp::rows(3).of({ 0, 1, 2 }).from({ c.rank(), c.rank(), c.rank() }));
    expect(mine == 0 || listed[mine] == (mine == 1 ? 10 : 11), "wrong rows");

    tuttipp::received<std::int16_t> found =
            c.alltoall_async("free", rows.data(), tuttipp::rows(3, 2).of({ 0, 1, 2 }))
                    .take();
    expect(found.values.size() == 6 * mine &&
                    found.rows_of == std::vector<std::int64_t>(3, c.rank()),
            "wrong numbers of rows");
    expect(mine == 0 || found.values[6 * mine - 1] == 2, "wrong rows");
}

ON_RANKS(test_gather_and_scatter)
{
    std::vector<int> own = { c.rank(), 7 };
    std::vector<int> all(c.rank() == 2 ? 6 : 0);
    std::vector<int> back(2);

    c.gather("gather", own, all, 2);
    expect(c.rank() != 2 || all == std::vector<int>{ 0, 7, 1, 7, 2, 7 }, "wrong rows");
    c.scatter("scatter", all, back, 2);
    expect(back == own, "the way back leads elsewhere");

    /* uneven: rank r has r rows */
    const auto mine = static_cast<std::size_t>(c.rank());
    tuttipp::received<int> found =
            c.gather_async("free", own.data(), tuttipp::rows(mine), 0).take();
    expect(c.rank() == 0 ? found.values.size() == 3 && found.values[2] == 7
                         : found.values.size() == 0 && found.rows_of.empty(),
            "wrong rows at the root");
    tuttipp::received<int> part =
            c.scatter_async("free", all.data(), tuttipp::rows(6).of({ 1, 0, 5 }), 2)
                    .take();
    expect(part.values.size() ==
                    (c.rank() == 0                  ? 1U
                                    : c.rank() == 1 ? 0U
                                                    : 5U),
            "wrong numbers of rows");
    expect(c.rank() != 2 || part.values[4] == 7, "wrong rows");
}

ON_RANKS(test_containers_of_the_wrong_size_are_refused)
{
    std::vector<int> two(2);
    std::vector<int> three(3);

    expect(status_of([&] { c.allgather("x", two, three); }) == TUTTI_ERR_INVALID,
            "a small output was taken");
    expect(status_of([&] { c.reducescatter("x", three, two, TUTTI_SUM); }) ==
                    TUTTI_ERR_INVALID,
            "a large output was taken");
    expect(status_of([&] { c.alltoall("x", three, two); }) == TUTTI_ERR_INVALID,
            "another output was taken");
    expect(c.stats().submitted == 0, "it was submitted");
}

ON_RANKS(test_output_that_nobody_takes_is_dropped)
{
    const std::vector<int> own(5, c.rank());

    {
        tuttipp::rows_request<int> dropped =
                c.allgather_async("free", own.data(), tuttipp::rows(5));
    }
    expect(c.stats().completed == 1, "the operation was not finished");
    tuttipp::rows_request<int> first =
            c.allgather_async("free", own.data(), tuttipp::rows(5));
    first = c.allgather_async("next", own.data(), tuttipp::rows(5));
    tuttipp::rows_request<int> moved = std::move(first);
    expect(moved.take().values[14] == 2, "wrong rows");
    expect(status_of([&] { (void)moved.take(); }) == TUTTI_ERR_INVALID,
            "it was taken twice");
}

ON_RANKS(test_ranks_out_of_data_are_skipped)
{
    std::vector<float> value = { static_cast<float>(c.rank()) };
    int last = -1;

    if (c.rank() != 0) {
        c.allreduce("value", value, TUTTI_AVERAGE);
        expect(value[0] == 1.5F, "wrong average");
    }
    last = c.out_of_data();
    expect(last >= 0 && last < c.size(), "nobody was last");

    tuttipp::request again = c.out_of_data_async(&last);
    again.wait();
    c.allreduce("value", value, TUTTI_SUM);
    expect(value[0] == 3.0F && last >= 0, "the job does not go on");
}

UNIT_TEST(test_split_makes_a_set_for_each_color)
{
    on_ranks(4, [](tuttipp::context &c) {
        const int color = c.rank() == 3 ? TUTTI_UNDEFINED : c.rank() % 2;
        std::optional<tuttipp::process_set> mine =
                tuttipp::process_set::split(c, color, -c.rank());
        std::vector<int> value = { 1 << c.rank() };

        expect(mine.has_value() == (c.rank() != 3), "wrong membership");
        if (mine) {
            c.allreduce("value", value, TUTTI_SUM, tuttipp::options().set(*mine));
            expect(mine->ranks() ==
                            (color == 0 ? std::vector<int>{ 2, 0 }
                                        : std::vector<int>{ 1 }),
                    "wrong members");
            expect(value[0] == (color == 0 ? 5 : 2), "wrong sum");
        }
    });
}

ON_RANKS(test_every_operation_can_be_registered)
{
    const std::vector<int> input = { c.rank(), c.rank() + 10, c.rank() + 20 };
    std::vector<int> output(9, -1);
    auto reduce = tuttipp::tensor::reduce<int>(c, "reduce", 3, TUTTI_SUM, 1);
    auto spread = tuttipp::tensor::reducescatter<int>(
            c, "spread", tuttipp::rows(3), TUTTI_SUM);
    auto all = tuttipp::tensor::allgather<int>(c, "all", tuttipp::rows(1, 3));
    auto swap = tuttipp::tensor::alltoall<int>(
            c, "swap", tuttipp::rows(3).of({ 1, 1, 1 }).from({ 1, 1, 1 }));
    auto gather = tuttipp::tensor::gather<int>(c, "gather", tuttipp::rows(3), 2);
    auto scatter = tuttipp::tensor::scatter<int>(c, "scatter", tuttipp::rows(1), 0);

    reduce.submit(input.data(), output.data()).wait();
    expect(output[2] == (c.rank() == 1 ? 63 : -1), "wrong sum");
    spread.submit(input.data(), output.data()).wait();
    expect(output[0] == 3 + 30 * c.rank(), "wrong part of the sum");
    all.submit(input.data(), output.data()).wait();
    expect(output[8] == 22, "wrong rows");
    swap.submit(input.data(), output.data()).wait();
    expect(output[2] == 2 + 10 * c.rank(), "wrong exchange");
    gather.submit(input.data(), output.data()).wait();
    expect(c.rank() != 2 || output[3] == 1, "wrong gathered rows");
    scatter.submit(input.data(), output.data()).wait();
    expect(output[0] == 10 * c.rank(), "wrong scattered row");
}

ON_RANKS(test_registered_rows_go_into_the_request)
{
    const std::vector<float> own(4, 1.0F + static_cast<float>(c.rank()));
    const tuttipp::rows mine =
            tuttipp::rows(static_cast<std::size_t>(c.rank()), 2).into_request();
    auto all = tuttipp::tensor::allgather<float>(c, "all", mine);
    auto root = tuttipp::tensor::gather<float>(c, "root", mine, 1);

    for (int i = 0; i < 3; i++) {
        tuttipp::received<float> found = all.submit(own.data()).take();
        tuttipp::received<float> gathered = root.submit(own.data()).take();

        expect(found.values.size() == 6 && found.values[1] == 2.0F &&
                        found.values[2] == 3.0F,
                "wrong rows");
        expect(gathered.values.size() == (c.rank() == 1 ? 6U : 0U),
                "wrong rows at the root");
    }
}

void note_status(void *user, tutti_status status, const char *)
{
    static_cast<std::atomic<int> *>(user)->store(status == TUTTI_OK ? 1 : -1);
}

ON_RANKS(test_callback_leaves_an_empty_request)
{
    std::atomic<int> called = { 0 };
    std::vector<float> values(3, 1.0F);
    tuttipp::request request = c.allreduce_async("values", values, TUTTI_SUM,
            tuttipp::options().callback(note_status, &called));

    expect(!request, "a request was returned");
    while (called.load() == 0) {
        std::this_thread::yield();
    }
    expect(called.load() == 1 && values[2] == ranks_count, "wrong sum");
}

ON_RANKS(test_wait_all_finishes_all_and_throws_the_first_failure)
{
    std::vector<float> good(1, 1.0F);
    std::vector<float> bad(c.rank() == 0 ? 2 : 1, 1.0F);
    std::array<tuttipp::request, 2> requests;

    requests[0] = c.allreduce_async("bad", bad, TUTTI_SUM);
    requests[1] = c.allreduce_async("good", good, TUTTI_SUM);

    expect(status_of([&] { tuttipp::wait_all(requests); }) == TUTTI_ERR_MISMATCH,
            "no failure");
    expect(!requests[0] && !requests[1] && good[0] == ranks_count, "not all finished");
}

ON_RANKS(test_shape_is_compared)
{
    std::vector<float> values(6, 1.0F);
    std::int64_t rows = c.rank() == 2 ? 3 : 2;
    tuttipp::options with;

    with.shape({ rows, 6 / rows });
    expect(status_of([&] { c.allreduce("values", values, TUTTI_SUM, with); }) ==
                    TUTTI_ERR_MISMATCH,
            "no mismatch");
}

ON_RANKS(test_steps_are_compared)
{
    std::vector<float> values(4, 1.0F);
    const std::int64_t step = c.rank() == 2 ? 8 : 7;
    tuttipp::tensor sum = tuttipp::tensor::allreduce<float>(c, "sum", 4, TUTTI_SUM);

    expect(status_of([&] {
        c.allreduce("values", values, TUTTI_SUM, tuttipp::options().step(step));
    }) == TUTTI_ERR_MISMATCH,
            "no mismatch");
    expect(status_of([&] { sum.submit(values.data(), values.data(), step).wait(); }) ==
                    TUTTI_ERR_MISMATCH,
            "no mismatch of what is registered");
}

ON_RANKS(test_array_is_zeroed_and_reduced)
{
    tuttipp::array<float> values(c, 100);
    tuttipp::array<float> moved(c, 0);

    expect(values[0] == 0.0F && values.size() == 100, "not zeroed");
    for (float &value : values) {
        value = 1.0F;
    }
    c.allreduce("values", values, TUTTI_SUM);
    moved = std::move(values);

    expect(moved[99] == ranks_count && moved.size() == 100, "wrong sum");
}

ON_RANKS(test_process_set_reduces_among_its_members)
{
    tuttipp::process_set pair(c, { 2, 0 });
    const std::vector<tutti_process_set> sets = { TUTTI_WORLD, pair.get() };
    std::vector<int> value = { c.rank() + 1 };

    expect(c.process_sets() == sets, "wrong list of sets");
    expect(pair.size() == 2 && pair.ranks() == std::vector<int>{ 2, 0 },
            "wrong members");
    expect(pair.is_member() == (c.rank() != 1), "wrong membership");
    expect(c.sums_follow_ranks(pair.get()) == pair.is_member(),
            "another order of sums");
    if (pair.is_member()) {
        c.allreduce("value", value, TUTTI_SUM, tuttipp::options().set(pair));
        expect(pair.rank() == (c.rank() == 2 ? 0 : 1) && value[0] == 4, "wrong sum");
    }
    pair.destroy();
    expect(pair.get() == TUTTI_WORLD, "the handle is still there");
}

ON_RANKS(test_committed_group_is_submitted)
{
    std::vector<float> first(3, 1.0F);
    std::vector<float> second(5, 2.0F);
    std::vector<tuttipp::request> requests;
    tuttipp::group together(c);

    requests.push_back(c.allreduce_async("first", first, TUTTI_SUM));
    requests.push_back(c.allreduce_async("second", second, TUTTI_SUM));
    together.commit();
    tuttipp::wait_all(requests);

    expect(first[2] == ranks_count && second[4] == 2.0F * ranks_count, "wrong sums");
}

ON_RANKS(test_abandoned_group_submits_nothing)
{
    std::vector<float> values(3, 1.0F);

    try {
        tuttipp::group together(c);
        tuttipp::request request = c.allreduce_async("values", values, TUTTI_SUM);

        throw std::runtime_error("leave the scope");
    } catch (const std::runtime_error &) {
    }
    expect(values[0] == 1.0F && c.stats().submitted == 0, "it was submitted");
    /* the name is free and the group is closed */
    c.allreduce("values", values, TUTTI_SUM);
    expect(values[0] == ranks_count, "wrong sum");
}

ON_RANKS(test_registered_tensors_are_submitted)
{
    std::vector<double> values(4, 1.0);
    std::vector<float> copied(2, static_cast<float>(c.rank()));
    auto sum = tuttipp::tensor::allreduce<double>(
            c, "sum", 4, TUTTI_SUM, tuttipp::options().prescale(0.5));
    auto copy = tuttipp::tensor::broadcast<float>(c, "copy", 2, 1);

    for (int i = 0; i < 3; i++) {
        sum.submit(values.data(), values.data()).wait();
    }
    copy.submit<float>(nullptr, copied.data()).wait();

    expect(values[3] == 1.5 * 1.5 * 1.5 && copied[1] == 1.0F, "wrong values");
    expect(status_of([&] { sum.submit(copied.data(), copied.data()).wait(); }) ==
                    TUTTI_ERR_INVALID,
            "another element type was taken");
}

/** Rank 1 throws out of its context's scope; what each rank catches is returned. */
std::string leave_with_exception(tuttipp::context joined)
{
    std::vector<float> values(3, 1.0F);

    try {
        tuttipp::context own = std::move(joined);

        if (own.rank() == 1) {
            throw std::runtime_error("only here");
        }
        own.allreduce("values", values, TUTTI_SUM);
    } catch (const std::runtime_error &failure) {
        return failure.what();
    }
    return "nothing was thrown";
}

ON_RANKS(test_exception_on_one_rank_fails_the_others)
{
    std::string text = leave_with_exception(std::move(c));

    expect(text == "only here" || text.find("on rank 1: an exception") < text.size(),
            text.c_str());
}

UNIT_TEST(test_adopted_context_is_finalized)
{
    tutti *handle = nullptr;

    assert_int_equal(tutti_init_local(1, &handle, nullptr), TUTTI_OK);
    tuttipp::context adopted = tuttipp::context::adopt(handle);
    tuttipp::context moved = std::move(adopted);

    /* NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move) */
    assert_null(adopted.get());
    assert_int_equal(moved.size(), 1);
    assert_int_equal(moved.rank(), 0);
    moved = tuttipp::context();
    assert_null(moved.get());
}

} // namespace
