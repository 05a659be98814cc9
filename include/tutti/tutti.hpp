/*
 * tutti for C++17: thin RAII over tutti.h, header-only.
 *
 * Everything is in namespace tuttipp, because C's handle type has the name tutti. The
 * semantics are those of tutti.h: each member names the C function it stands for, and
 * that function's documentation holds. What is added:
 *
 *   - Failures are exceptions: a call that C would answer with an error throws
 *     tuttipp::error with that status and the text of tutti_last_error(). TUTTI_AGAIN
 *     and TUTTI_ERR_TIMEOUT are answers, not failures, where a bool can say them.
 *   - Destructors release, never throw, and say below what they do on failure.
 *   - Element types are deduced, and containers with contiguous elements (std::data and
 *     std::size: vector, array, C arrays, ...) stand for pointer and count.
 *
 * Lifetimes: a context outlives its requests, process sets, tensors and arrays, so
 * declare it first. Buffers are lent until their request is finished; a request that
 * goes out of scope waits, so a buffer declared before its request is always safe.
 */
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
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

/** Throws error unless status is TUTTI_OK. For C calls made beside this header. */
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
 * integers. Specialise it for a half-precision type of yours:
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

/** Calls of containers only: something with std::data and std::size. */
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

    /** Each input is multiplied by it. */
    options &prescale(double factor) noexcept
    {
        values_.prescale = factor;
        return *this;
    }

    /** The result is multiplied by it. */
    options &postscale(double factor) noexcept
    {
        values_.postscale = factor;
        return *this;
    }

    /** More is more urgent. */
    options &priority(int level) noexcept
    {
        values_.priority = level;
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

/* ----------------------------------------------------------------- requests */

/**
 * An operation in flight; tutti_request. Move-only; an empty one counts as finished.
 *
 * The destructor, and assigning another request to this one, wait until the operation is
 * finished, so that its buffers stay alive; its status is dropped. Where waiting is
 * refused (in a callback, or inside an open group) they do not wait and the buffers must
 * be kept alive by other means. If the other ranks never submit their part, they wait
 * until the context fails: tutti_abort(), or the parameter stall_fail_s.
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

    /** As wait(), for a limited time. False: not finished, the operation goes on. */
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

    /** Makes progress; true when finished, throws when it failed. tutti_test(). */
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

    /** Gives the C request away; this one becomes empty. */
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
 * Waits for all requests of a range, also when some fail; then throws the first failure
 * in the order of the range.
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

/* ------------------------------------------------------------------ context */

/**
 * A rank's membership of a job. Move-only.
 *
 * The destructor calls tutti_finalize(): collective, it waits for the other ranks. Its
 * status is dropped (the library has logged the cause); call finalize() to see it. When
 * an exception destroys it, it calls tutti_abort() first: the other ranks would wait for
 * operations that this one no longer submits, and now fail with that as the cause.
 */
class context
{
  public:
    /** Holds nothing; only assigning to it and destroying it are allowed. */
    context() noexcept = default;

    /** Joins the job of the launcher, configured from the environment; tutti_init(). */
    static context join()
    {
        context joined;

        check(tutti_init(&joined.t_, nullptr));
        return joined;
    }

    /** As join(), with settings. */
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
     * Makes n ranks for n threads of this process; tutti_init_local(). Move each into its
     * thread: finalizing is collective, so one thread cannot destroy two of them.
     */
    static std::vector<context> local(int n)
    {
        return make_local(n, nullptr);
    }

    /** As local(n), with settings. */
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

    /** Leaves the job this one was in, as the destructor does. */
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

    /** Leaves the job; throws when the context had failed, and is empty in any case. */
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

  private:
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
 * Move-only; a container for the calls above. The destructor frees the memory; it must
 * not be in use by an operation. Failure cannot happen then and is ignored.
 */
template <class T> class array
{
    static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");

  public:
    array(const context &owner, std::size_t count) : t_(owner.get()), count_(count)
    {
        void *memory = nullptr;

        if (count > SIZE_MAX / sizeof(T)) {
            throw error(TUTTI_ERR_NO_MEMORY, "more elements than memory can address");
        }
        check(tutti_alloc(t_, count * sizeof(T), TUTTI_HOST, &memory));
        data_ = static_cast<T *>(memory);
    }

    ~array()
    {
        if (data_ != nullptr) {
            (void)tutti_free(t_, data_);
        }
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
    tutti *t_ = nullptr;
    T *data_ = nullptr;
    std::size_t count_ = 0;
};

/* ------------------------------------------------------------- process sets */

/**
 * Ranks that do collectives of their own; tutti_process_set. Move-only.
 *
 * Removing a set is collective over the world, so the destructor does not do it: call
 * destroy() on all ranks, or leave the set to finalize().
 */
class process_set
{
  public:
    /** Collective: every rank of the world, member or not, gives the same list. */
    process_set(const context &world, const std::vector<int> &ranks) : t_(world.get())
    {
        check(tutti_process_set_create(
                t_, ranks.data(), static_cast<int>(ranks.size()), &set_));
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
 * A group of submissions of this thread: all or nothing; tutti_group_begin().
 *
 *   group together(context);
 *   requests.push_back(context.allreduce_async(...));
 *   together.commit();
 *
 * Requests made inside a group must live until commit(). Without commit() (an exception
 * left the scope) the destructor closes the group so that nothing of it is submitted.
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
 * The destructor unregisters it, a local call. While an operation of it is in flight
 * that is refused: the registration then stays until the context is finalized.
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

    ~tensor()
    {
        if (t_ != nullptr) {
            (void)tutti_tensor_unregister(t_, tensor_);
        }
    }

    tensor(tensor &&other) noexcept
        : t_(std::exchange(other.t_, nullptr)), tensor_(other.tensor_),
          dtype_(other.dtype_)
    {
    }

    tensor &operator=(tensor &&other) noexcept
    {
        std::swap(t_, other.t_);
        std::swap(tensor_, other.tensor_);
        std::swap(dtype_, other.dtype_);
        return *this;
    }

    tensor(const tensor &) = delete;
    tensor &operator=(const tensor &) = delete;

    /**
     * Submits it; tutti_submit(). The buffers hold the registered count of elements; a
     * broadcast uses output only.
     */
    template <class T> [[nodiscard]] request submit(const T *input, T *output)
    {
        tutti_request id = TUTTI_REQUEST_NULL;

        if (dtype_of_v<T> != dtype_) {
            throw error(TUTTI_ERR_INVALID,
                    std::string("registered with ") + tutti_dtype_name(dtype_) +
                            ", submitted with " + tutti_dtype_name(dtype_of_v<T>));
        }
        check(tutti_submit(t_, tensor_, input, output, nullptr, nullptr, &id));
        return request(t_, id);
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

    tensor(const context &owner, const tutti_tensor_desc &desc, const options &with)
        : t_(owner.get()), dtype_(desc.dtype)
    {
        tutti_options c = with.get();
        tutti_tensor_desc complete = desc;

        complete.options = &c;
        check(tutti_tensor_register(t_, &complete, &tensor_));
    }

    tutti *t_;
    tutti_tensor tensor_ = 0;
    tutti_dtype dtype_;
};

} // namespace tuttipp

#endif
