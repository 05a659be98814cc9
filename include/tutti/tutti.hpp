/*
 * tutti for C++17: thin RAII over tutti.h, header-only. trainer.hpp is that over trainer.h.
 *
 * Everything is in namespace tuttipp, because C's handle type has the name tutti. The
 * semantics are those of tutti.h: each member names the C function that it calls, whose
 * documentation applies. This header adds:
 *
 *   - Failures are exceptions: if the C function returns an error, the call throws
 *     tuttipp::error with that status and the text of tutti_last_error(). Calls that
 *     return bool return false for TUTTI_AGAIN and TUTTI_ERR_TIMEOUT instead.
 *   - Destructors release and never throw; each class says what happens on failure.
 *   - Element types are deduced, and containers with contiguous elements (std::data and
 *     std::size: vector, array, C arrays, ...) replace pointer and count.
 *
 * Lifetimes: a context outlives its requests, process sets, tensors and arrays, so
 * declare it first. Buffers are lent until their request is finished; a request that
 * goes out of scope waits, so a buffer that is declared before its request is always safe.
 */
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tutti/tutti.h>

namespace tuttipp
{

/* ------------------------------------------------------------------- errors */

/** A tutti call failed. what() is the text of tutti_last_error(). */
class error : public std::runtime_error
{
  public:
    error(tutti_status status, const std::string &text)
        : std::runtime_error(text.empty() ? tutti_status_text(status) : text),
          status_(status)
    {
    }

    /** The status the C function returned. */
    tutti_status status() const noexcept
    {
        return status_;
    }

  private:
    tutti_status status_;
};

/** Throws error unless status is TUTTI_OK. For direct calls of the C interface. */
inline void check(tutti_status status)
{
    if (status != TUTTI_OK) {
        throw error(status, tutti_last_error());
    }
}

/* -------------------------------------------------------------------- types */

namespace detail
{

template <class T> constexpr tutti_dtype deduce_dtype()
{
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, long double>,
            "no tutti_dtype for this type; specialise tuttipp::dtype_of");
    if constexpr (std::is_same_v<T, bool>) {
        static_assert(sizeof(bool) == 1, "a TUTTI_BOOL is one byte");
        return TUTTI_BOOL;
    } else if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 4 ? TUTTI_FLOAT32 : TUTTI_FLOAT64;
    } else if constexpr (sizeof(T) == 1) {
        return std::is_signed_v<T> ? TUTTI_INT8 : TUTTI_UINT8;
    } else if constexpr (sizeof(T) == 2) {
        return std::is_signed_v<T> ? TUTTI_INT16 : TUTTI_UINT16;
    } else if constexpr (sizeof(T) == 4) {
        return std::is_signed_v<T> ? TUTTI_INT32 : TUTTI_UINT32;
    } else {
        return std::is_signed_v<T> ? TUTTI_INT64 : TUTTI_UINT64;
    }
}

} // namespace detail

/**
 * The tutti_dtype of an element type, as `value`. Known: bool, float, double and the
 * integers. Specialise it for your half-precision type:
 *
 *   template <> struct tuttipp::dtype_of<my_half> {
 *       static constexpr tutti_dtype value = TUTTI_FLOAT16;
 *   };
 */
template <class T> struct dtype_of {
    static constexpr tutti_dtype value = detail::deduce_dtype<T>();
};

/** dtype_of<T>::value; T may be const. */
template <class T>
inline constexpr tutti_dtype dtype_of_v = dtype_of<std::remove_cv_t<T>>::value;

namespace detail
{

/* Above INT64_MAX it becomes negative, which the C functions refuse. */
inline std::int64_t to_count(std::size_t count) noexcept
{
    return static_cast<std::int64_t>(count);
}

/** Enables an overload for containers: types with std::data and std::size. */
template <class C> using if_container = decltype(std::data(std::declval<C &>()));

} // namespace detail

/* ------------------------------------------------------------ configuration */

/** Settings for a context; tutti_config. Move-only. */
class config
{
  public:
    /** The defaults and the environment; tutti_config_create(). */
    config()
    {
        check(tutti_config_create(&config_));
    }

    ~config()
    {
        tutti_config_destroy(config_);
    }

    config(config &&other) noexcept : config_(std::exchange(other.config_, nullptr))
    {
    }

    config &operator=(config &&other) noexcept
    {
        std::swap(config_, other.config_);
        return *this;
    }

    config(const config &) = delete;
    config &operator=(const config &) = delete;

    /** Sets a parameter by its name, from text; tutti_config_set(). Returns *this. */
    config &set(const char *name, const char *value)
    {
        check(tutti_config_set(config_, name, value));
        return *this;
    }

    /** Reads a parameter as text; tutti_config_get(). */
    std::string get(const char *name) const
    {
        const char *text = nullptr;

        check(tutti_config_get(config_, name, &text));
        return text;
    }

    /** Sends log lines to a callback that must not throw; tutti_config_set_log(). */
    config &set_log(tutti_log_callback callback, void *user)
    {
        check(tutti_config_set_log(config_, callback, user));
        return *this;
    }

    /** Describes the GPU support, in lines for people; tutti_gpu_describe(). */
    std::string describe_gpus() const
    {
        std::string text(std::size_t{ 16 } << 10, '\0');

        check(tutti_gpu_describe(config_, text.data(), text.size()));
        text.resize(text.find('\0'));
        return text;
    }

    /** The C handle; stays owned. */
    const tutti_config *get() const noexcept
    {
        return config_;
    }

  private:
    tutti_config *config_ = nullptr;
};

/* ------------------------------------------------------------------ options */

class process_set;

/**
 * Options of an operation, built by chaining; tutti_options. A value.
 *
 *   options().prescale(0.5).shape({ rows, columns })
 */
class options
{
  public:
    options() noexcept
    {
        tutti_options_default(&values_);
    }

    /** Ranks that take part; default: all. */
    inline options &set(const process_set &set) noexcept;

    /** Shape, compared across ranks; copied. */
    options &shape(std::vector<std::int64_t> dims)
    {
        dims_ = std::move(dims);
        return *this;
    }

    /** Factor of each input. */
    options &prescale(double factor) noexcept
    {
        values_.prescale = factor;
        return *this;
    }

    /** Factor of the result. */
    options &postscale(double factor) noexcept
    {
        values_.postscale = factor;
        return *this;
    }

    /** Higher is more urgent. */
    options &priority(int level) noexcept
    {
        values_.priority = level;
        return *this;
    }

    /** Which use of the name this is, compared across ranks; tutti_options. */
    options &step(std::int64_t number) noexcept
    {
        values_.step = number;
        return *this;
    }

    /** For device memory: the CUDA stream that writes the input; tutti_options. */
    options &stream(tutti_stream stream) noexcept
    {
        values_.stream = stream;
        return *this;
    }

    /**
     * Called at completion, on the engine's thread; it must not throw and must not wait.
     * The request that the call returns is then an empty one.
     */
    options &callback(tutti_callback function, void *user) noexcept
    {
        values_.callback = function;
        values_.user = user;
        return *this;
    }

    /** The C struct; its shape is borrowed from this object. */
    tutti_options get() const noexcept
    {
        tutti_options values = values_;

        values.ndim = static_cast<int>(dims_.size());
        values.dims = dims_.data();
        return values;
    }

  private:
    tutti_options values_;
    std::vector<std::int64_t> dims_;
};

/* --------------------------------------------------------------------- rows */

/**
 * Rows of a tensor, built by chaining; the arguments rows, row_count and rows_of of C.
 *
 *   rows(3, columns)                      three rows
 *   rows(3, columns).of({ 3, 0, 5 })      and the number of rows of each rank of the set
 */
class rows
{
  public:
    /** `count` rows of `row_count` elements; each call says which rows it means. */
    explicit rows(std::size_t count, std::size_t row_count = 1) noexcept
        : count_(detail::to_count(count)), row_count_(detail::to_count(row_count))
    {
    }

    /** One number per rank of the set: rows_of, or send_rows of an alltoall. */
    rows &of(std::vector<std::int64_t> numbers)
    {
        of_ = std::move(numbers);
        return *this;
    }

    /** One number per rank of the set: recv_rows of an alltoall. */
    rows &from(std::vector<std::int64_t> numbers)
    {
        from_ = std::move(numbers);
        return *this;
    }

    /**
     * For a tensor: its output will be taken from the request. Other calls need no such
     * hint, since they have no output argument then.
     */
    rows &into_request() noexcept
    {
        into_request_ = true;
        return *this;
    }

    std::int64_t count() const noexcept
    {
        return count_;
    }

    std::int64_t row_count() const noexcept
    {
        return row_count_;
    }

    /** The numbers given to of(), borrowed; NULL if none. */
    const std::int64_t *of() const noexcept
    {
        return of_.empty() ? nullptr : of_.data();
    }

    /** The numbers given to from(), borrowed; NULL if none. */
    const std::int64_t *from() const noexcept
    {
        return from_.empty() ? nullptr : from_.data();
    }

    bool is_into_request() const noexcept
    {
        return into_request_;
    }

  private:
    std::int64_t count_;
    std::int64_t row_count_;
    bool into_request_ = false;
    std::vector<std::int64_t> of_;
    std::vector<std::int64_t> from_;
};

/** A part of rows: its first row, and its number of rows. */
struct slice {
    std::int64_t first;
    std::int64_t rows;
};

/** Divides rows into parts and returns one of them; tutti_part(). */
inline slice part(std::int64_t rows, int parts, int index) noexcept
{
    slice found = { 0, 0 };

    found.rows = tutti_part(rows, parts, index, &found.first);
    return found;
}

namespace detail
{

/** This rank's place in the set of an operation. */
struct place {
    int size = 0;
    int rank = -1;
};

inline place place_in_set(tutti *t, const tutti_options &with)
{
    place found;

    check(tutti_process_set_info(t, with.process_set, &found.size, &found.rank));
    return found;
}

/** Refuses a container of the wrong size before C is called. */
inline void expect_elements(const char *name, std::size_t have, std::int64_t need)
{
    if (to_count(have) != need) {
        throw error(TUTTI_ERR_INVALID,
                std::string("\"") + name + "\": a container of " +
                        std::to_string(have) + " elements where " +
                        std::to_string(need) + " belong");
    }
}

} // namespace detail

/* ----------------------------------------------------------------- requests */

/**
 * An operation in flight; tutti_request. Move-only; an empty one counts as finished.
 *
 * The destructor, and assigning another request to this one, wait until the operation is
 * finished, so that its buffers stay alive; the status is dropped. Where waiting is refused
 * (in a callback, or inside an open group) they do not wait, and the program must keep the
 * buffers alive. If the other ranks never submit the operation, the wait lasts until the
 * context fails: by tutti_abort(), or the parameter stall_fail_s.
 */
class request
{
  public:
    request() noexcept = default;

    /** Takes over an operation of a context. */
    request(tutti *t, tutti_request id) noexcept : t_(t), id_(id)
    {
    }

    ~request()
    {
        settle();
    }

    request(request &&other) noexcept
        : t_(other.t_), id_(std::exchange(other.id_, TUTTI_REQUEST_NULL))
    {
    }

    request &operator=(request &&other) noexcept
    {
        if (this != &other) {
            settle();
            t_ = other.t_;
            id_ = std::exchange(other.id_, TUTTI_REQUEST_NULL);
        }
        return *this;
    }

    request(const request &) = delete;
    request &operator=(const request &) = delete;

    /** True while there is something to wait for. */
    explicit operator bool() const noexcept
    {
        return id_ != TUTTI_REQUEST_NULL;
    }

    /** Waits until the operation is finished; throws when it failed. tutti_wait(). */
    void wait()
    {
        if (id_ != TUTTI_REQUEST_NULL) {
            check(tutti_wait(t_, &id_, TUTTI_FOREVER));
        }
    }

    /** Like wait(), for a limited time. False: not finished, the operation goes on. */
    bool wait_for(std::chrono::nanoseconds timeout)
    {
        tutti_status status = TUTTI_OK;

        if (id_ != TUTTI_REQUEST_NULL) {
            status = tutti_wait(t_, &id_, timeout.count());
        }
        if (status == TUTTI_ERR_TIMEOUT) {
            return false;
        }
        check(status);
        return true;
    }

    /**
     * Makes a CUDA stream wait; this thread waits only until the operation is issued.
     * Throws if it failed. In a failed context the GPU may still use the buffers after that;
     * wait() and the destructor return when it no longer does. tutti_wait_stream().
     */
    void wait_stream(tutti_stream stream)
    {
        if (id_ != TUTTI_REQUEST_NULL) {
            check(tutti_wait_stream(t_, &id_, stream, TUTTI_FOREVER));
        }
    }

    /** Makes progress; true if finished, throws if it failed. tutti_test(). */
    bool test()
    {
        tutti_status status = TUTTI_OK;

        if (id_ != TUTTI_REQUEST_NULL) {
            status = tutti_test(t_, &id_);
        }
        if (status == TUTTI_AGAIN) {
            return false;
        }
        check(status);
        return true;
    }

    /** Asks for withdrawal; the request must still be waited for. tutti_cancel(). */
    void cancel()
    {
        if (id_ != TUTTI_REQUEST_NULL) {
            check(tutti_cancel(t_, id_));
        }
    }

    /**
     * Waits and takes the output that the operation owns; free it with tutti_free().
     * Throws if the operation failed. tutti_request_take_output().
     */
    void take_output(void **output, std::int64_t *rows_of)
    {
        check(tutti_request_take_output(t_, &id_, output, rows_of, TUTTI_FOREVER));
    }

    /** Releases the C request to the caller; this one becomes empty. */
    tutti_request release() noexcept
    {
        return std::exchange(id_, TUTTI_REQUEST_NULL);
    }

  private:
    void settle() noexcept
    {
        if (id_ != TUTTI_REQUEST_NULL) {
            (void)!tutti_wait(t_, &id_, TUTTI_FOREVER);
        }
        id_ = TUTTI_REQUEST_NULL;
    }

    tutti *t_ = nullptr;
    tutti_request id_ = TUTTI_REQUEST_NULL;
};

/**
 * Waits for all requests of a range, even if some fail, then throws the first failure in
 * the order of the range.
 */
template <class Iterator> void wait_all(Iterator first, Iterator last)
{
    std::exception_ptr failure;

    for (; first != last; ++first) {
        try {
            first->wait();
        } catch (const error &) {
            failure = failure == nullptr ? std::current_exception() : failure;
        }
    }
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
}

/** As above, for a container of requests. */
template <class Container> void wait_all(Container &requests)
{
    wait_all(std::begin(requests), std::end(requests));
}

template <class T> class array;

/** The output of an operation that was given none. */
template <class T> struct received {
    array<T> values; /* the rows, in order of rank */
    std::vector<std::int64_t> rows_of; /* how many came from each rank of the set */
};

/**
 * An operation in flight that owns its output, because its size was not known. Move-only.
 * The destructor waits like that of request, and frees the output.
 */
template <class T> class rows_request
{
  public:
    /** Takes over an operation of a set of `peers` ranks; `owns`: it has an output here. */
    rows_request(request &&operation, tutti *t, int peers, std::int64_t row_count,
            bool owns) noexcept
        : request_(std::move(operation)), t_(t), peers_(peers), row_count_(row_count),
          owns_(owns)
    {
    }

    ~rows_request()
    {
        settle();
    }

    rows_request(rows_request &&other) noexcept = default;

    rows_request &operator=(rows_request &&other) noexcept
    {
        if (this != &other) {
            settle();
            request_ = std::move(other.request_);
            t_ = other.t_;
            peers_ = other.peers_;
            row_count_ = other.row_count_;
            owns_ = other.owns_;
        }
        return *this;
    }

    rows_request(const rows_request &) = delete;
    rows_request &operator=(const rows_request &) = delete;

    /** True until the output is taken. */
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(request_);
    }

    /** Like those of request; the output can still be taken. */
    void wait()
    {
        request_.wait();
    }

    bool wait_for(std::chrono::nanoseconds timeout)
    {
        return request_.wait_for(timeout);
    }

    bool test()
    {
        return request_.test();
    }

    void cancel()
    {
        request_.cancel();
    }

    /**
     * Waits and takes the output; throws if the operation failed, or if there is nothing to
     * take. On a rank without an output (a gather, except on the root) the result is empty.
     * tutti_request_take_output().
     */
    received<T> take();

  private:
    void settle() noexcept
    {
        tutti_request id = owns_ ? request_.release() : TUTTI_REQUEST_NULL;
        void *output = nullptr;

        if (id != TUTTI_REQUEST_NULL &&
                tutti_request_take_output(t_, &id, &output, nullptr, TUTTI_FOREVER) ==
                        TUTTI_OK) {
            (void)tutti_free(t_, output);
        }
    }

    request request_;
    tutti *t_;
    int peers_;
    std::int64_t row_count_;
    bool owns_;
};

/* ------------------------------------------------------------------ context */

/**
 * A rank's membership of a job. Move-only.
 *
 * The destructor calls tutti_finalize(), which is collective and waits for the other ranks.
 * The status is dropped (the library has logged the cause); call finalize() to see it. If
 * an exception destroys the context, it calls tutti_abort() first, because the other ranks
 * would wait for operations that this one no longer submits.
 */
class context
{
  public:
    /** Empty; it may only be assigned to and destroyed. */
    context() noexcept = default;

    /** Joins the job of the launcher, configured from the environment; tutti_init(). */
    static context join()
    {
        context joined;

        check(tutti_init(&joined.t_, nullptr));
        return joined;
    }

    /** Like join(), with settings. */
    static context join(const config &settings)
    {
        context joined;

        check(tutti_init(&joined.t_, settings.get()));
        return joined;
    }

    /** Takes over a C context, for instance of tutti_init_mpi(). */
    static context adopt(tutti *t) noexcept
    {
        context adopted;

        adopted.t_ = t;
        return adopted;
    }

    /**
     * Creates n ranks for n threads of this process; tutti_init_local(). Move each into its
     * own thread: finalizing is collective, so one thread cannot destroy two of them.
     */
    static std::vector<context> local(int n)
    {
        return make_local(n, nullptr);
    }

    /** Like local(n), with settings. */
    static std::vector<context> local(int n, const config &settings)
    {
        return make_local(n, settings.get());
    }

    ~context()
    {
        leave();
    }

    context(context &&other) noexcept : t_(std::exchange(other.t_, nullptr))
    {
    }

    /** Leaves its present job first, as the destructor does. */
    context &operator=(context &&other) noexcept
    {
        if (this != &other) {
            leave();
            t_ = std::exchange(other.t_, nullptr);
        }
        return *this;
    }

    context(const context &) = delete;
    context &operator=(const context &) = delete;

    /** Leaves the job; throws if the context had failed. It is empty afterwards. */
    void finalize()
    {
        check(tutti_finalize(std::exchange(t_, nullptr)));
    }

    /** Declares the job broken on every rank; tutti_abort(). */
    void abort(const char *text)
    {
        check(tutti_abort(t_, text));
    }

    /** The C handle; stays owned. */
    tutti *get() const noexcept
    {
        return t_;
    }

    int rank() const noexcept
    {
        return tutti_rank(t_);
    }

    int size() const noexcept
    {
        return tutti_size(t_);
    }

    int local_rank() const noexcept
    {
        return tutti_local_rank(t_);
    }

    int local_size() const noexcept
    {
        return tutti_local_size(t_);
    }

    int node() const noexcept
    {
        return tutti_node(t_);
    }

    int node_count() const noexcept
    {
        return tutti_node_count(t_);
    }

    bool has_background() const noexcept
    {
        return tutti_has_background(t_);
    }

    /** Whether sums follow one tree of the ranks; tutti_sums_follow_ranks(). */
    bool sums_follow_ranks(tutti_process_set set = TUTTI_WORLD) const noexcept
    {
        return tutti_sums_follow_ranks(t_, set);
    }

    /** The sets that exist, in ascending order; tutti_process_set_list(). */
    std::vector<tutti_process_set> process_sets() const
    {
        std::vector<tutti_process_set> sets;
        int count = 0;

        check(tutti_process_set_list(t_, nullptr, 0, &count));
        while (static_cast<std::size_t>(count) > sets.size()) {
            sets.resize(static_cast<std::size_t>(count));
            check(tutti_process_set_list(t_, sets.data(), count, &count));
        }
        sets.resize(static_cast<std::size_t>(count));
        return sets;
    }

    /** Makes memory of the program like that of array; tutti_share(). */
    void share(void *memory, std::size_t bytes)
    {
        check(tutti_share(t_, memory, bytes));
    }

    /** Makes it the program's own again; tutti_unshare(). */
    void unshare(void *memory)
    {
        check(tutti_unshare(t_, memory));
    }

    /** Begins a timeline of this rank; tutti_timeline_start(). */
    void timeline_start(const char *folder = nullptr)
    {
        check(tutti_timeline_start(t_, folder));
    }

    void timeline_stop()
    {
        check(tutti_timeline_stop(t_));
    }

    /** The counters; tutti_stats_get(). */
    tutti_stats stats() const
    {
        tutti_stats stats = {};

        stats.size = sizeof stats;
        check(tutti_stats_get(t_, &stats));
        return stats;
    }

    /** Submits an allreduce of count elements; tutti_allreduce_async(). */
    template <class T>
    [[nodiscard]] request allreduce_async(const char *name, const T *input, T *output,
            std::size_t count, tutti_reduce_op op, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_allreduce_async(t_, name, input, output, detail::to_count(count),
                dtype_of_v<T>, op, &c, &id));
        return request(t_, id);
    }

    /** As above, in place on a container; it is lent and must not change its size. */
    template <class C, class = detail::if_container<C>>
    [[nodiscard]] request allreduce_async(const char *name, C &data, tutti_reduce_op op,
            const options &with = options())
    {
        return allreduce_async(
                name, std::data(data), std::data(data), std::size(data), op, with);
    }

    /** Reduces count elements; tutti_allreduce(). */
    template <class T>
    void allreduce(const char *name, const T *input, T *output, std::size_t count,
            tutti_reduce_op op, const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_allreduce(t_, name, input, output, detail::to_count(count),
                dtype_of_v<T>, op, &c));
    }

    /** As above, in place on a container. */
    template <class C, class = detail::if_container<C>>
    void allreduce(const char *name, C &data, tutti_reduce_op op,
            const options &with = options())
    {
        allreduce(name, std::data(data), std::data(data), std::size(data), op, with);
    }

    /** Submits a broadcast of count elements; tutti_broadcast_async(). */
    template <class T>
    [[nodiscard]] request broadcast_async(const char *name, T *buffer,
            std::size_t count, int root, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_broadcast_async(t_, name, buffer, detail::to_count(count),
                dtype_of_v<T>, root, &c, &id));
        return request(t_, id);
    }

    /** As above, of a container, which has its size on every rank already. */
    template <class C, class = detail::if_container<C>>
    [[nodiscard]] request broadcast_async(
            const char *name, C &data, int root, const options &with = options())
    {
        return broadcast_async(name, std::data(data), std::size(data), root, with);
    }

    /** Copies count elements of the root; tutti_broadcast(). */
    template <class T>
    void broadcast(const char *name, T *buffer, std::size_t count, int root,
            const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_broadcast(
                t_, name, buffer, detail::to_count(count), dtype_of_v<T>, root, &c));
    }

    /** As above, of a container, which has its size on every rank already. */
    template <class C, class = detail::if_container<C>>
    void broadcast(const char *name, C &data, int root, const options &with = options())
    {
        broadcast(name, std::data(data), std::size(data), root, with);
    }

    /** Submits a message of count elements to peer; tutti_send_async(). */
    template <class T>
    [[nodiscard]] request send_async(const char *name, const T *buffer,
            std::size_t count, int peer, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_send_async(t_, name, buffer, detail::to_count(count), dtype_of_v<T>,
                peer, &c, &id));
        return request(t_, id);
    }

    /** As above, of a container. */
    template <class C, class = detail::if_container<C>>
    [[nodiscard]] request send_async(
            const char *name, const C &data, int peer, const options &with = options())
    {
        return send_async(name, std::data(data), std::size(data), peer, with);
    }

    /** Sends count elements to peer; tutti_send(). */
    template <class T>
    void send(const char *name, const T *buffer, std::size_t count, int peer,
            const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_send(
                t_, name, buffer, detail::to_count(count), dtype_of_v<T>, peer, &c));
    }

    /** As above, of a container. */
    template <class C, class = detail::if_container<C>>
    void send(
            const char *name, const C &data, int peer, const options &with = options())
    {
        send(name, std::data(data), std::size(data), peer, with);
    }

    /** Submits a message of count elements from peer; tutti_recv_async(). */
    template <class T>
    [[nodiscard]] request recv_async(const char *name, T *buffer, std::size_t count,
            int peer, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_recv_async(t_, name, buffer, detail::to_count(count), dtype_of_v<T>,
                peer, &c, &id));
        return request(t_, id);
    }

    /** As above, of a container, which has the size of the message already. */
    template <class C, class = detail::if_container<C>>
    [[nodiscard]] request recv_async(
            const char *name, C &data, int peer, const options &with = options())
    {
        return recv_async(name, std::data(data), std::size(data), peer, with);
    }

    /** Receives count elements from peer; tutti_recv(). */
    template <class T>
    void recv(const char *name, T *buffer, std::size_t count, int peer,
            const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_recv(
                t_, name, buffer, detail::to_count(count), dtype_of_v<T>, peer, &c));
    }

    /** As above, of a container, which has the size of the message already. */
    template <class C, class = detail::if_container<C>>
    void recv(const char *name, C &data, int peer, const options &with = options())
    {
        recv(name, std::data(data), std::size(data), peer, with);
    }

    /** Submits a reduce of count elements to the root; tutti_reduce_async(). */
    template <class T>
    [[nodiscard]] request reduce_async(const char *name, const T *input, T *output,
            std::size_t count, tutti_reduce_op op, int root,
            const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_reduce_async(t_, name, input, output, detail::to_count(count),
                dtype_of_v<T>, op, root, &c, &id));
        return request(t_, id);
    }

    /** Reduces count elements to the root; tutti_reduce(). */
    template <class T>
    void reduce(const char *name, const T *input, T *output, std::size_t count,
            tutti_reduce_op op, int root, const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_reduce(t_, name, input, output, detail::to_count(count),
                dtype_of_v<T>, op, root, &c));
    }

    /** As above, in place on a container: on other ranks it is only read. */
    template <class C, class = detail::if_container<C>>
    [[nodiscard]] request reduce_async(const char *name, C &data, tutti_reduce_op op,
            int root, const options &with = options())
    {
        return reduce_async(name, std::data(data), std::data(data), std::size(data), op,
                root, with);
    }

    /** As above, waiting. */
    template <class C, class = detail::if_container<C>>
    void reduce(const char *name, C &data, tutti_reduce_op op, int root,
            const options &with = options())
    {
        reduce(name, std::data(data), std::data(data), std::size(data), op, root, with);
    }

    /** Submits a reducescatter of rows; tutti_reducescatter_async(). */
    template <class T>
    [[nodiscard]] request reducescatter_async(const char *name, const T *input,
            T *output, const rows &parts, tutti_reduce_op op,
            const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_reducescatter_async(t_, name, input, output, parts.count(),
                parts.row_count(), parts.of(), dtype_of_v<T>, op, &c, &id));
        return request(t_, id);
    }

    /** Reduces rows and gives each rank its part; tutti_reducescatter(). */
    template <class T>
    void reducescatter(const char *name, const T *input, T *output, const rows &parts,
            tutti_reduce_op op, const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_reducescatter(t_, name, input, output, parts.count(),
                parts.row_count(), parts.of(), dtype_of_v<T>, op, &c));
    }

    /** As above, on containers, whose elements are the rows; divided as by part(). */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    [[nodiscard]] request reducescatter_async(const char *name, In &input, Out &output,
            tutti_reduce_op op, const options &with = options())
    {
        expect_reducescatter(name, std::size(input), std::size(output), with);
        return reducescatter_async(name, std::data(input), std::data(output),
                rows(std::size(input)), op, with);
    }

    /** As above, waiting. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    void reducescatter(const char *name, In &input, Out &output, tutti_reduce_op op,
            const options &with = options())
    {
        expect_reducescatter(name, std::size(input), std::size(output), with);
        reducescatter(name, std::data(input), std::data(output), rows(std::size(input)),
                op, with);
    }

    /** Submits an allgather of rows; tutti_allgather_async(). */
    template <class T>
    [[nodiscard]] request allgather_async(const char *name, const T *input, T *output,
            const rows &mine, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_allgather_async(t_, name, input, output, mine.count(),
                mine.row_count(), mine.of(), dtype_of_v<T>, &c, &id));
        return request(t_, id);
    }

    /** Gathers the rows of all ranks on all; tutti_allgather(). */
    template <class T>
    void allgather(const char *name, const T *input, T *output, const rows &mine,
            const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_allgather(t_, name, input, output, mine.count(), mine.row_count(),
                mine.of(), dtype_of_v<T>, &c));
    }

    /** As above, on containers, of equal sizes on all ranks. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    [[nodiscard]] request allgather_async(
            const char *name, In &input, Out &output, const options &with = options())
    {
        expect_allgather(name, std::size(input), std::size(output), with);
        return allgather_async(name, std::data(input), std::data(output),
                rows(std::size(input)), with);
    }

    /** As above, waiting. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    void allgather(
            const char *name, In &input, Out &output, const options &with = options())
    {
        expect_allgather(name, std::size(input), std::size(output), with);
        allgather(name, std::data(input), std::data(output), rows(std::size(input)),
                with);
    }

    /** As above, without an output: any number of rows per rank, taken from the request. */
    template <class T>
    [[nodiscard]] rows_request<T> allgather_async(const char *name, const T *input,
            const rows &mine, const options &with = options())
    {
        tutti_options c = with.get();
        const detail::place here = detail::place_in_set(t_, c);
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_allgather_async(t_, name, input, nullptr, mine.count(),
                mine.row_count(), mine.of(), dtype_of_v<T>, &c, &id));
        return rows_request<T>(request(t_, id), t_, here.size, mine.row_count(), true);
    }

    /** Submits an alltoall of rows; tutti_alltoall_async(). */
    template <class T>
    [[nodiscard]] request alltoall_async(const char *name, const T *input, T *output,
            const rows &sent, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_alltoall_async(t_, name, input, output, sent.count(),
                sent.row_count(), sent.of(), sent.from(), dtype_of_v<T>, &c, &id));
        return request(t_, id);
    }

    /** Sends rows to every rank and receives rows from every rank; tutti_alltoall(). */
    template <class T>
    void alltoall(const char *name, const T *input, T *output, const rows &sent,
            const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_alltoall(t_, name, input, output, sent.count(), sent.row_count(),
                sent.of(), sent.from(), dtype_of_v<T>, &c));
    }

    /** As above, on containers, with an equal part for each rank. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    [[nodiscard]] request alltoall_async(
            const char *name, In &input, Out &output, const options &with = options())
    {
        expect_alltoall(name, std::size(input), std::size(output), with);
        return alltoall_async(name, std::data(input), std::data(output),
                rows(std::size(input)), with);
    }

    /** As above, waiting. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    void alltoall(
            const char *name, In &input, Out &output, const options &with = options())
    {
        expect_alltoall(name, std::size(input), std::size(output), with);
        alltoall(name, std::data(input), std::data(output), rows(std::size(input)),
                with);
    }

    /** As above, without an output: taken from the request. */
    template <class T>
    [[nodiscard]] rows_request<T> alltoall_async(const char *name, const T *input,
            const rows &mine, const options &with = options())
    {
        tutti_options c = with.get();
        const detail::place here = detail::place_in_set(t_, c);
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_alltoall_async(t_, name, input, nullptr, mine.count(),
                mine.row_count(), mine.of(), nullptr, dtype_of_v<T>, &c, &id));
        return rows_request<T>(request(t_, id), t_, here.size, mine.row_count(), true);
    }

    /** Submits a gather of rows to the root; tutti_gather_async(). */
    template <class T>
    [[nodiscard]] request gather_async(const char *name, const T *input, T *output,
            const rows &mine, int root, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_gather_async(t_, name, input, output, mine.count(),
                mine.row_count(), mine.of(), dtype_of_v<T>, root, &c, &id));
        return request(t_, id);
    }

    /** Gathers the rows of all ranks on the root; tutti_gather(). */
    template <class T>
    void gather(const char *name, const T *input, T *output, const rows &mine, int root,
            const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_gather(t_, name, input, output, mine.count(), mine.row_count(),
                mine.of(), dtype_of_v<T>, root, &c));
    }

    /** As above, on containers, of equal sizes on all ranks; the output counts on the root. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    [[nodiscard]] request gather_async(const char *name, In &input, Out &output,
            int root, const options &with = options())
    {
        expect_gather(name, std::size(input), std::size(output), root, with);
        return gather_async(name, std::data(input), std::data(output),
                rows(std::size(input)), root, with);
    }

    /** As above, waiting. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    void gather(const char *name, In &input, Out &output, int root,
            const options &with = options())
    {
        expect_gather(name, std::size(input), std::size(output), root, with);
        gather(name, std::data(input), std::data(output), rows(std::size(input)), root,
                with);
    }

    /** As above, without an output: with any number of rows per rank; taken on the root. */
    template <class T>
    [[nodiscard]] rows_request<T> gather_async(const char *name, const T *input,
            const rows &mine, int root, const options &with = options())
    {
        tutti_options c = with.get();
        const detail::place here = detail::place_in_set(t_, c);
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_gather_async(t_, name, input, nullptr, mine.count(),
                mine.row_count(), mine.of(), dtype_of_v<T>, root, &c, &id));
        return rows_request<T>(
                request(t_, id), t_, here.size, mine.row_count(), here.rank == root);
    }

    /** Submits a scatter of rows of the root; tutti_scatter_async(). */
    template <class T>
    [[nodiscard]] request scatter_async(const char *name, const T *input, T *output,
            const rows &mine, int root, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_scatter_async(t_, name, input, output, mine.count(),
                mine.row_count(), mine.of(), dtype_of_v<T>, root, &c, &id));
        return request(t_, id);
    }

    /** Distributes rows of the root; tutti_scatter(). */
    template <class T>
    void scatter(const char *name, const T *input, T *output, const rows &mine,
            int root, const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_scatter(t_, name, input, output, mine.count(), mine.row_count(),
                mine.of(), dtype_of_v<T>, root, &c));
    }

    /** As above, on containers, with an equal part for each rank; the input counts on the root. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    [[nodiscard]] request scatter_async(const char *name, In &input, Out &output,
            int root, const options &with = options())
    {
        expect_scatter(name, std::size(input), std::size(output), root, with);
        return scatter_async(name, std::data(input), std::data(output),
                rows(std::size(output)), root, with);
    }

    /** As above, waiting. */
    template <class In, class Out, class = detail::if_container<In>,
            class = detail::if_container<Out>>
    void scatter(const char *name, In &input, Out &output, int root,
            const options &with = options())
    {
        expect_scatter(name, std::size(input), std::size(output), root, with);
        scatter(name, std::data(input), std::data(output), rows(std::size(output)),
                root, with);
    }

    /** As above, without an output: taken from the request. */
    template <class T>
    [[nodiscard]] rows_request<T> scatter_async(const char *name, const T *input,
            const rows &mine, int root, const options &with = options())
    {
        tutti_options c = with.get();
        const detail::place here = detail::place_in_set(t_, c);
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_scatter_async(t_, name, input, nullptr, mine.count(),
                mine.row_count(), mine.of(), dtype_of_v<T>, root, &c, &id));
        return rows_request<T>(request(t_, id), t_, here.size, mine.row_count(), true);
    }

    /** Submits a barrier; tutti_barrier_async(). */
    [[nodiscard]] request barrier_async(
            const char *name, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_barrier_async(t_, name, &c, &id));
        return request(t_, id);
    }

    /** Waits for every rank; tutti_barrier(). */
    void barrier(const char *name, const options &with = options())
    {
        tutti_options c = with.get();

        check(tutti_barrier(t_, name, &c));
    }

    /**
     * Declares that this rank has no more data for now; tutti_join_async(). (join() is
     * taken: it joins the job.)
     * @param last  NULL, or lent until the request is finished
     */
    [[nodiscard]] request out_of_data_async(
            int *last = nullptr, const options &with = options())
    {
        tutti_options c = with.get();
        tutti_request id = TUTTI_REQUEST_NULL;

        check(tutti_join_async(t_, &c, last, &id));
        return request(t_, id);
    }

    /** As above, waiting; returns the rank that joined last. tutti_join(). */
    int out_of_data(const options &with = options())
    {
        tutti_options c = with.get();
        int last = -1;

        check(tutti_join(t_, &c, &last));
        return last;
    }

  private:
    /* The sizes of containers whose elements are rows must fit each other. */

    detail::place place_of(const options &with) const
    {
        return detail::place_in_set(t_, with.get());
    }

    void expect_reducescatter(const char *name, std::size_t input, std::size_t output,
            const options &with) const
    {
        const detail::place here = place_of(with);

        detail::expect_elements(
                name, output, part(detail::to_count(input), here.size, here.rank).rows);
    }

    void expect_allgather(const char *name, std::size_t input, std::size_t output,
            const options &with) const
    {
        detail::expect_elements(
                name, output, place_of(with).size * detail::to_count(input));
    }

    void expect_alltoall(const char *name, std::size_t input, std::size_t output,
            const options &) const
    {
        detail::expect_elements(name, output, detail::to_count(input));
    }

    void expect_gather(const char *name, std::size_t input, std::size_t output,
            int root, const options &with) const
    {
        if (place_of(with).rank == root) {
            expect_allgather(name, input, output, with);
        }
    }

    void expect_scatter(const char *name, std::size_t input, std::size_t output,
            int root, const options &with) const
    {
        if (place_of(with).rank == root) {
            expect_allgather(name, output, input, with);
        }
    }

    static std::vector<context> make_local(int n, const tutti_config *settings)
    {
        std::vector<tutti *> handles(n > 0 ? static_cast<std::size_t>(n) : 1);
        std::vector<context> contexts(n > 0 ? static_cast<std::size_t>(n) : 0);

        check(tutti_init_local(n, handles.data(), settings));
        for (std::size_t i = 0; i < contexts.size(); i++) {
            contexts[i].t_ = handles[i];
        }
        return contexts;
    }

    void leave() noexcept
    {
        if (t_ != nullptr && std::uncaught_exceptions() > exceptions_) {
            (void)tutti_abort(t_, "an exception left the scope of the context");
        }
        (void)tutti_finalize(std::exchange(t_, nullptr));
    }

    tutti *t_ = nullptr;
    int exceptions_ = std::uncaught_exceptions(); /* in flight at construction */
};

/* ------------------------------------------------------------------- memory */

/**
 * count elements that tutti reduces with the fewest copies, zeroed; tutti_alloc().
 * Move-only; a container for the calls above. Elements of device memory (TUTTI_DEVICE) are
 * for kernels and for tutti; the host must not touch them. The destructor frees the memory,
 * which no operation may use any more; this cannot fail.
 */
template <class T> class array
{
    static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");

  public:
    array(const context &owner, std::size_t count, tutti_memory_kind kind = TUTTI_HOST)
        : t_(owner.get()), count_(count)
    {
        void *memory = nullptr;

        if (count > SIZE_MAX / sizeof(T)) {
            throw error(TUTTI_ERR_NO_MEMORY, "more elements than memory can address");
        }
        check(tutti_alloc(t_, count * sizeof(T), kind, &memory));
        data_ = static_cast<T *>(memory);
    }

    ~array()
    {
        if (data_ != nullptr) {
            (void)tutti_free(t_, data_);
        }
    }

    /** Takes over count elements of memory of tutti_alloc(); NULL is allowed. */
    static array adopt(tutti *t, void *memory, std::size_t count) noexcept
    {
        return array(t, static_cast<T *>(memory), count);
    }

    array(array &&other) noexcept
        : t_(other.t_), data_(std::exchange(other.data_, nullptr)),
          count_(std::exchange(other.count_, 0))
    {
    }

    array &operator=(array &&other) noexcept
    {
        std::swap(t_, other.t_);
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
        return *this;
    }

    array(const array &) = delete;
    array &operator=(const array &) = delete;

    T *data() noexcept
    {
        return data_;
    }

    const T *data() const noexcept
    {
        return data_;
    }

    std::size_t size() const noexcept
    {
        return count_;
    }

    T &operator[](std::size_t i) noexcept
    {
        return data_[i];
    }

    const T &operator[](std::size_t i) const noexcept
    {
        return data_[i];
    }

    T *begin() noexcept
    {
        return data_;
    }

    T *end() noexcept
    {
        return data_ + count_;
    }

    const T *begin() const noexcept
    {
        return data_;
    }

    const T *end() const noexcept
    {
        return data_ + count_;
    }

  private:
    array(tutti *t, T *data, std::size_t count) noexcept
        : t_(t), data_(data), count_(count)
    {
    }

    tutti *t_ = nullptr;
    T *data_ = nullptr;
    std::size_t count_ = 0;
};

template <class T> received<T> rows_request<T>::take()
{
    std::vector<std::int64_t> rows_of(owns_ ? static_cast<std::size_t>(peers_) : 0);
    void *output = nullptr;
    std::int64_t sum = 0;

    if (!owns_) {
        request_.wait();
        return { array<T>::adopt(t_, nullptr, 0), std::move(rows_of) };
    }
    request_.take_output(&output, rows_of.data());
    for (std::int64_t number : rows_of) {
        sum += number;
    }
    return { array<T>::adopt(t_, output, static_cast<std::size_t>(sum * row_count_)),
        std::move(rows_of) };
}

/* ------------------------------------------------------------- process sets */

/**
 * A subset of the ranks, for collectives among them; tutti_process_set. Move-only.
 *
 * Removing a set is collective over the world, so the destructor does not do it: call
 * destroy() on all ranks, or leave the set to finalize().
 */
class process_set
{
  public:
    /** Collective: every rank of the world, member or not, passes the same list. */
    process_set(const context &world, const std::vector<int> &ranks) : t_(world.get())
    {
        check(tutti_process_set_create(
                t_, ranks.data(), static_cast<int>(ranks.size()), &set_));
    }

    /**
     * Collective: the ranks of one color form a set, in order of key; empty for
     * TUTTI_UNDEFINED. tutti_process_set_split().
     */
    static std::optional<process_set> split(
            const context &world, int color, int key = 0)
    {
        tutti_process_set set = TUTTI_WORLD;

        check(tutti_process_set_split(world.get(), color, key, &set));
        if (color == TUTTI_UNDEFINED) {
            return std::nullopt;
        }
        return process_set(world.get(), set);
    }

    process_set(process_set &&other) noexcept
        : t_(other.t_), set_(std::exchange(other.set_, TUTTI_WORLD))
    {
    }

    process_set &operator=(process_set &&other) noexcept
    {
        std::swap(t_, other.t_);
        std::swap(set_, other.set_);
        return *this;
    }

    process_set(const process_set &) = delete;
    process_set &operator=(const process_set &) = delete;
    ~process_set() = default;

    /** Collective removal; tutti_process_set_destroy(). */
    void destroy()
    {
        check(tutti_process_set_destroy(t_, set_));
        set_ = TUTTI_WORLD;
    }

    /** Number of ranks in the set. */
    int size() const
    {
        int size = 0;

        check(tutti_process_set_info(t_, set_, &size, nullptr));
        return size;
    }

    /** This rank's index in the set; -1: not a member. */
    int rank() const
    {
        int rank = -1;

        check(tutti_process_set_info(t_, set_, nullptr, &rank));
        return rank;
    }

    /** True when this rank is in the set. */
    bool is_member() const
    {
        return rank() >= 0;
    }

    /** The world ranks of the set, in its order. */
    std::vector<int> ranks() const
    {
        std::vector<int> ranks(static_cast<std::size_t>(size()));

        check(tutti_process_set_ranks(
                t_, set_, ranks.data(), static_cast<int>(ranks.size())));
        return ranks;
    }

    /** The C handle; TUTTI_WORLD after destroy(). */
    tutti_process_set get() const noexcept
    {
        return set_;
    }

  private:
    process_set(tutti *t, tutti_process_set set) noexcept : t_(t), set_(set)
    {
    }

    tutti *t_;
    tutti_process_set set_ = TUTTI_WORLD;
};

inline options &options::set(const process_set &set) noexcept
{
    values_.process_set = set.get();
    return *this;
}

/* ------------------------------------------------------------------- groups */

/**
 * Submissions of this thread, all of them or none; tutti_group_begin().
 *
 *   group together(context);
 *   requests.push_back(context.allreduce_async(...));
 *   together.commit();
 *
 * Requests made inside a group must live until commit(). Without commit(), for example
 * after an exception, the destructor closes the group and nothing is submitted.
 */
class group
{
  public:
    explicit group(const context &owner) : t_(owner.get())
    {
        check(tutti_group_begin(t_));
    }

    ~group()
    {
        if (t_ != nullptr) {
            /* a refused member makes tutti_group_end() submit nothing */
            (void)!tutti_barrier_async(t_, nullptr, nullptr, nullptr);
            (void)!tutti_group_end(t_);
        }
    }

    group(const group &) = delete;
    group &operator=(const group &) = delete;

    /** Submits the group; throws the first error of a member. tutti_group_end(). */
    void commit()
    {
        check(tutti_group_end(std::exchange(t_, nullptr)));
    }

  private:
    tutti *t_;
};

/* --------------------------------------------------------- registered names */

/**
 * A name with its metadata, registered once; tutti_tensor. Move-only.
 *
 * The destructor unregisters it, a local call. If an operation of it is in flight, that is
 * refused, and the registration stays until the context is finalized.
 */
class tensor
{
  public:
    /** An allreduce of count elements of T; tutti_tensor_register(). */
    template <class T>
    static tensor allreduce(const context &owner, const char *name, std::size_t count,
            tutti_reduce_op op, const options &with = options())
    {
        tutti_tensor_desc desc = describe(name, TUTTI_ALLREDUCE, count, dtype_of_v<T>);

        desc.op = op;
        return tensor(owner, desc, with);
    }

    /** A broadcast of count elements of T from a rank of the set. */
    template <class T>
    static tensor broadcast(const context &owner, const char *name, std::size_t count,
            int root, const options &with = options())
    {
        tutti_tensor_desc desc = describe(name, TUTTI_BROADCAST, count, dtype_of_v<T>);

        desc.root = root;
        return tensor(owner, desc, with);
    }

    /** A reduce of count elements of T to a rank of the set. */
    template <class T>
    static tensor reduce(const context &owner, const char *name, std::size_t count,
            tutti_reduce_op op, int root, const options &with = options())
    {
        tutti_tensor_desc desc = describe(name, TUTTI_REDUCE, count, dtype_of_v<T>);

        desc.op = op;
        desc.root = root;
        return tensor(owner, desc, with);
    }

    /** A reducescatter of rows of T. */
    template <class T>
    static tensor reducescatter(const context &owner, const char *name,
            const rows &parts, tutti_reduce_op op, const options &with = options())
    {
        tutti_tensor_desc desc =
                describe_rows(name, TUTTI_REDUCESCATTER, parts, dtype_of_v<T>);

        desc.op = op;
        return tensor(owner, desc, with);
    }

    /** An allgather of rows of T. */
    template <class T>
    static tensor allgather(const context &owner, const char *name, const rows &mine,
            const options &with = options())
    {
        return tensor(
                owner, describe_rows(name, TUTTI_ALLGATHER, mine, dtype_of_v<T>), with);
    }

    /** An alltoall of rows of T. */
    template <class T>
    static tensor alltoall(const context &owner, const char *name, const rows &sent,
            const options &with = options())
    {
        return tensor(
                owner, describe_rows(name, TUTTI_ALLTOALL, sent, dtype_of_v<T>), with);
    }

    /** A gather of rows of T to a rank of the set. */
    template <class T>
    static tensor gather(const context &owner, const char *name, const rows &mine,
            int root, const options &with = options())
    {
        tutti_tensor_desc desc = describe_rows(name, TUTTI_GATHER, mine, dtype_of_v<T>);

        desc.root = root;
        return tensor(owner, desc, with);
    }

    /** A scatter of rows of T from a rank of the set. */
    template <class T>
    static tensor scatter(const context &owner, const char *name, const rows &mine,
            int root, const options &with = options())
    {
        tutti_tensor_desc desc =
                describe_rows(name, TUTTI_SCATTER, mine, dtype_of_v<T>);

        desc.root = root;
        return tensor(owner, desc, with);
    }

    ~tensor()
    {
        if (t_ != nullptr) {
            (void)tutti_tensor_unregister(t_, tensor_);
        }
    }

    tensor(tensor &&other) noexcept
        : t_(std::exchange(other.t_, nullptr)), tensor_(other.tensor_),
          dtype_(other.dtype_), output_(other.output_)
    {
    }

    tensor &operator=(tensor &&other) noexcept
    {
        std::swap(t_, other.t_);
        std::swap(tensor_, other.tensor_);
        std::swap(dtype_, other.dtype_);
        std::swap(output_, other.output_);
        return *this;
    }

    tensor(const tensor &) = delete;
    tensor &operator=(const tensor &) = delete;

    /**
     * Submits it; tutti_submit(). The buffers hold the registered count of elements; a
     * broadcast uses output only.
     */
    template <class T>
    [[nodiscard]] request submit(
            const T *input, T *output, std::int64_t step = TUTTI_NO_STEP)
    {
        tutti_request id = TUTTI_REQUEST_NULL;

        expect_dtype(dtype_of_v<T>);
        check(tutti_submit(t_, tensor_, input, output, step, nullptr, nullptr, &id));
        return request(t_, id);
    }

    /** Submits a tensor whose rows go into_request(). */
    template <class T>
    [[nodiscard]] rows_request<T> submit(
            const T *input, std::int64_t step = TUTTI_NO_STEP)
    {
        tutti_request id = TUTTI_REQUEST_NULL;

        expect_dtype(dtype_of_v<T>);
        check(tutti_submit(t_, tensor_, input, nullptr, step, nullptr, nullptr, &id));
        return rows_request<T>(
                request(t_, id), t_, output_.peers, output_.row_count, output_.owned);
    }

    /** The C handle; stays owned. */
    tutti_tensor get() const noexcept
    {
        return tensor_;
    }

  private:
    static tutti_tensor_desc describe(const char *name, tutti_collective collective,
            std::size_t count, tutti_dtype dtype) noexcept
    {
        tutti_tensor_desc desc = {};

        desc.size = sizeof desc;
        desc.name = name;
        desc.collective = collective;
        desc.count = detail::to_count(count);
        desc.dtype = dtype;
        return desc;
    }

    static tutti_tensor_desc describe_rows(const char *name,
            tutti_collective collective, const rows &mine, tutti_dtype dtype) noexcept
    {
        tutti_tensor_desc desc = describe(name, collective, 0, dtype);

        desc.count = mine.count();
        desc.row_count = mine.row_count();
        desc.rows_of = mine.of();
        desc.recv_rows = mine.from();
        desc.owns_output = mine.is_into_request();
        return desc;
    }

    void expect_dtype(tutti_dtype dtype) const
    {
        if (dtype != dtype_) {
            throw error(TUTTI_ERR_INVALID,
                    std::string("registered with ") + tutti_dtype_name(dtype_) +
                            ", submitted with " + tutti_dtype_name(dtype));
        }
    }

    tensor(const context &owner, const tutti_tensor_desc &desc, const options &with)
        : t_(owner.get()), dtype_(desc.dtype)
    {
        tutti_options c = with.get();
        tutti_tensor_desc complete = desc;

        complete.options = &c;
        check(tutti_tensor_register(t_, &complete, &tensor_));
        if (desc.owns_output) {
            const detail::place here = detail::place_in_set(t_, c);

            output_ = { here.size, desc.row_count,
                desc.collective != TUTTI_GATHER || here.rank == desc.root };
        }
    }

    /* What a request that owns its rows has to know. */
    struct requested {
        int peers = 0;
        std::int64_t row_count = 0;
        bool owned = false; /* by requests on this rank */
    };

    tutti *t_;
    tutti_tensor tensor_ = 0;
    tutti_dtype dtype_;
    requested output_;
};

} // namespace tuttipp

#endif
