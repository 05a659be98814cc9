/*
 * Ranks that are threads of one process, for tests of the C++ layers.
 */
#ifndef TUTTI_TEST_CPP_RANKS_HPP
#define TUTTI_TEST_CPP_RANKS_HPP

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" {
#include "test/unit/unit.h"
}

#include <tutti/tutti.hpp>

inline constexpr int ranks_count = 3;

using rank_body = std::function<void(tuttipp::context &)>;

/** What one rank thread came to: "" or what went wrong. */
inline std::string run_rank(tuttipp::context mine, const rank_body &body)
{
    try {
        body(mine);
        mine.finalize();
    } catch (const std::exception &failure) {
        (void)tutti_abort(mine.get(), failure.what());
        return failure.what();
    }
    return "";
}

/** Runs the body on `ranks` ranks, a thread each, and asserts that none complained. */
inline void on_ranks(int ranks, const rank_body &body)
{
    std::vector<tuttipp::context> contexts = tuttipp::context::local(ranks);
    std::vector<std::string> complaints(contexts.size());
    std::vector<std::thread> threads;

    for (std::size_t i = 0; i < contexts.size(); i++) {
        threads.emplace_back(
                [&, i] { complaints[i] = run_rank(std::move(contexts[i]), body); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const std::string &complaint : complaints) {
        assert_string_equal(complaint.c_str(), "");
    }
}

/** For use on ranks: cmocka's assertions belong to the main thread. */
inline void expect(bool truth, const char *what)
{
    if (!truth) {
        throw std::runtime_error(what);
    }
}

/** The status a call fails with; TUTTI_OK when it does not. */
template <class Call> tutti_status status_of(Call &&call)
{
    try {
        call();
    } catch (const tuttipp::error &failure) {
        return failure.status();
    }
    return TUTTI_OK;
}

/** A test whose body runs on each of a job's ranks, with its context `c`. */
#define ON_RANKS(name) \
    void name##_on_rank(tuttipp::context &c); \
    UNIT_TEST(name) \
    { \
        on_ranks(ranks_count, name##_on_rank); \
    } \
    void name##_on_rank(tuttipp::context &c)

#endif
