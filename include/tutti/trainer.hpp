/*
 * The trainer's layer for C++17: thin RAII over trainer.h, header-only.
 *
 * It is to trainer.h what tutti.hpp is to tutti.h, and follows its rules: each member names the
 * C function that it calls, failures are exceptions, destructors release and never throw.
 * Programs that include it link libtutti-trainer.
 *
 * Lifetimes: a reducer borrows its context and the parameters' memory, so declare these
 * before it; an optimizer borrows its reducer likewise.
 */
#ifndef TUTTI_TRAINER_HPP
#define TUTTI_TRAINER_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <tutti/trainer.h>
#include <tutti/tutti.hpp>

namespace tuttipp
{

/* --------------------------------------------------------------- parameters */

/**
 * A tensor that is trained; tutti_param.
 *
 *   param("layer0.weights", weights).shape({ rows, columns })
 */
class param
{
  public:
    /** `count` elements of T; value may be NULL if nothing is to update or store them. */
    template <class T>
    param(std::string name, T *value, std::size_t count) : name_(std::move(name))
    {
        values_.value = value;
        values_.count = detail::to_count(count);
        values_.dtype = dtype_of_v<T>;
    }

    /** A container; it is borrowed and must not change its size. */
    template <class C, class = detail::if_container<C>>
    param(std::string name, C &data)
        : param(std::move(name), std::data(data), std::size(data))
    {
    }

    /** Shape, compared across ranks; copied. */
    param &shape(std::vector<std::int64_t> dims)
    {
        dims_ = std::move(dims);
        return *this;
    }

    /** Memory for the gradient, borrowed. Without it the reducer allocates the gradient. */
    template <class T> param &gradient(T *memory)
    {
        if (dtype_of_v<T> != values_.dtype) {
            throw error(TUTTI_ERR_INVALID,
                    "parameter \"" + name_ + "\" is of type " +
                            tutti_dtype_name(values_.dtype) +
                            ", its gradient of type " +
                            tutti_dtype_name(dtype_of_v<T>));
        }
        values_.gradient = memory;
        return *this;
    }

    /** How its gradient is reduced; borrowed until the reducer is destroyed. */
    param &compressor(const tutti_compressor &how) noexcept
    {
        values_.compressor = &how;
        return *this;
    }

    /** The C struct; its name and shape are borrowed from this object. */
    tutti_param get() const noexcept
    {
        tutti_param values = values_;

        values.name = name_.c_str();
        values.ndim = static_cast<int>(dims_.size());
        values.dims = dims_.data();
        return values;
    }

  private:
    std::string name_;
    std::vector<std::int64_t> dims_;
    tutti_param values_ = {};
};

/** The fields of tutti_reducer_options, with their defaults. */
struct reducer_options : tutti_reducer_options {
    reducer_options() noexcept
    {
        tutti_reducer_options_default(this);
    }
};

/* ------------------------------------------------------------------ reducer */

namespace detail
{

/** Ends a step that is left, and the job with it: others would wait for the rest of the step. */
inline void break_off(tutti *t, tutti_reducer *reducer) noexcept
{
    double none = 0;

    (void)tutti_abort(t, "a reducer or an optimizer was destroyed in a step");
    (void)!tutti_reducer_average(reducer, "destroyed", &none); /* fails the step */
    (void)!tutti_reducer_wait(reducer, nullptr);
}

} // namespace detail

/**
 * Averages the gradients of a model; tutti_reducer. Move-only.
 *
 * The destructor is a local call. If gradients are marked and not waited for, for instance after
 * an exception, it calls tutti_abort(), because other ranks wait for the step. Only where steps end
 * with a callback, and one is under way, is nothing freed.
 */
class reducer
{
  public:
    /** Collective: registers parameters, in the order of the forward pass; tutti_reducer_create(). */
    reducer(const context &owner, const std::vector<param> &params,
            const tutti_reducer_options &with = reducer_options())
        : t_(owner.get())
    {
        std::vector<tutti_param> c;

        c.reserve(params.size());
        for (const param &one : params) {
            c.push_back(one.get());
            counts_.push_back(static_cast<std::size_t>(c.back().count));
            dtypes_.push_back(c.back().dtype);
        }
        check(tutti_reducer_create(owner.get(), c.data(), c.size(), &with, &reducer_));
    }

    ~reducer()
    {
        if (tutti_reducer_destroy(reducer_) != TUTTI_OK) {
            detail::break_off(t_, reducer_);
            (void)tutti_reducer_destroy(reducer_);
        }
    }

    reducer(reducer &&other) noexcept
        : t_(other.t_), reducer_(std::exchange(other.reducer_, nullptr)),
          counts_(std::move(other.counts_)), dtypes_(std::move(other.dtypes_))
    {
    }

    reducer &operator=(reducer &&other) noexcept
    {
        std::swap(t_, other.t_);
        std::swap(reducer_, other.reducer_);
        std::swap(counts_, other.counts_);
        std::swap(dtypes_, other.dtypes_);
        return *this;
    }

    reducer(const reducer &) = delete;
    reducer &operator=(const reducer &) = delete;

    /** Parameters. */
    std::size_t size() const noexcept
    {
        return counts_.size();
    }

    /** Elements of parameter i. */
    std::size_t count(std::size_t i) const
    {
        return counts_.at(i);
    }

    /** The index of a parameter; size() if there is none. tutti_reducer_find(). */
    std::size_t find(const char *name) const noexcept
    {
        return tutti_reducer_find(reducer_, name);
    }

    /**
     * The count(i) elements of the gradient of parameter i; throws if there is none or it is of
     * another type. tutti_reducer_gradient().
     */
    template <class T> T *gradient(std::size_t i) const
    {
        if (i >= dtypes_.size() || dtypes_[i] != dtype_of_v<T>) {
            throw error(TUTTI_ERR_INVALID,
                    i >= dtypes_.size()
                            ? "gradient " + std::to_string(i) + " of a reducer with " +
                                    std::to_string(dtypes_.size()) + " parameters"
                            : "gradient " + std::to_string(i) + " is of type " +
                                    tutti_dtype_name(dtypes_[i]) + ", not " +
                                    tutti_dtype_name(dtype_of_v<T>));
        }
        return static_cast<T *>(tutti_reducer_gradient(reducer_, i));
    }

    /** Marks a gradient as complete, from any thread; tutti_reducer_ready(). */
    void ready(std::size_t i)
    {
        check(tutti_reducer_ready(reducer_, i));
    }

    /** As above, of a gradient that work on `stream` writes; tutti_reducer_ready_on(). */
    void ready_on(std::size_t i, tutti_stream stream)
    {
        check(tutti_reducer_ready_on(reducer_, i, stream));
    }

    /** Averages a number with the step; lent until its end. tutti_reducer_average(). */
    void average(const char *name, double &value)
    {
        check(tutti_reducer_average(reducer_, name, &value));
    }

    /** Ends the step; tutti_reducer_wait(). */
    tutti_step_report wait()
    {
        tutti_step_report report = {};

        report.size = sizeof report;
        check(tutti_reducer_wait(reducer_, &report));
        return report;
    }

    /** Ends the step for work on `stream`; tutti_reducer_wait_stream(). */
    tutti_step_report wait_stream(tutti_stream stream)
    {
        tutti_step_report report = {};

        report.size = sizeof report;
        check(tutti_reducer_wait_stream(reducer_, stream, &report));
        return report;
    }

    /**
     * Ends every following step by a callback on the engine's thread, which must not throw;
     * NULL: by wait() again. tutti_reducer_set_callback().
     */
    void set_callback(tutti_callback function, void *user)
    {
        check(tutti_reducer_set_callback(reducer_, function, user));
    }

    /** What the last step came to, for callbacks; tutti_reducer_report(). */
    tutti_step_report report() const
    {
        tutti_step_report report = {};

        report.size = sizeof report;
        check(tutti_reducer_report(reducer_, &report));
        return report;
    }

    /**
     * Declares that this rank has no more data, with `uneven`; returns the rank that joined
     * last. tutti_reducer_join(), named like that of context.
     */
    int out_of_data()
    {
        int last = -1;

        check(tutti_reducer_join(reducer_, &last));
        return last;
    }

    /** The number of the current step; tutti_reducer_step(). */
    std::int64_t step() const noexcept
    {
        return tutti_reducer_step(reducer_);
    }

    /** By what to multiply the loss of this step; tutti_reducer_loss_scale(). */
    double loss_scale() const noexcept
    {
        return tutti_reducer_loss_scale(reducer_);
    }

    /** The virtual shards of this rank, with `shards`; tutti_reducer_shards(). */
    slice shards() const noexcept
    {
        int first = 0;
        int count = 0;

        tutti_reducer_shards(reducer_, &first, &count);
        return { first, count };
    }

    /** The C handle; stays owned. */
    tutti_reducer *get() const noexcept
    {
        return reducer_;
    }

  private:
    friend class optimizer;

    tutti *t_ = nullptr;
    tutti_reducer *reducer_ = nullptr;
    std::vector<std::size_t> counts_;
    std::vector<tutti_dtype> dtypes_;
};

/* ---------------------------------------------------------------- optimizer */

/** The fields of tutti_optimizer_options, with their defaults. */
struct optimizer_options : tutti_optimizer_options {
    optimizer_options() noexcept
    {
        tutti_optimizer_options_default(this);
    }
};

/**
 * Updates the parameters of a reducer; tutti_optimizer. Move-only. Its steps end with step()
 * instead of reducer::wait().
 *
 * The destructor is a local call; the reducer must still be there. In a step it calls tutti_abort(),
 * as that of the reducer does.
 */
class optimizer
{
  public:
    /** Collective: takes the gradients of a reducer; tutti_optimizer_create(). */
    explicit optimizer(
            reducer &of, const tutti_optimizer_options &with = optimizer_options())
        : t_(of.t_), reducer_(of.get())
    {
        check(tutti_optimizer_create(of.get(), &with, &optimizer_));
    }

    ~optimizer()
    {
        if (tutti_optimizer_destroy(optimizer_) != TUTTI_OK) {
            detail::break_off(t_, reducer_);
            (void)tutti_optimizer_destroy(optimizer_);
        }
    }

    optimizer(optimizer &&other) noexcept
        : t_(other.t_), reducer_(other.reducer_),
          optimizer_(std::exchange(other.optimizer_, nullptr))
    {
    }

    optimizer &operator=(optimizer &&other) noexcept
    {
        std::swap(t_, other.t_);
        std::swap(reducer_, other.reducer_);
        std::swap(optimizer_, other.optimizer_);
        return *this;
    }

    optimizer(const optimizer &) = delete;
    optimizer &operator=(const optimizer &) = delete;

    /** Ends the step and updates; tutti_optimizer_step(). */
    tutti_step_report step()
    {
        tutti_step_report report = {};

        report.size = sizeof report;
        check(tutti_optimizer_step(optimizer_, &report));
        return report;
    }

    /** For the following steps, the same on all ranks; tutti_optimizer_set_learning_rate(). */
    void set_learning_rate(double rate)
    {
        check(tutti_optimizer_set_learning_rate(optimizer_, rate));
    }

    /** That of the next step; tutti_optimizer_learning_rate(). */
    double learning_rate() const noexcept
    {
        return tutti_optimizer_learning_rate(optimizer_);
    }

    /** The state, to be saved, loaded and broadcast; lent. tutti_optimizer_state(). */
    std::vector<tutti_state_tensor> state() const
    {
        std::size_t count = 0;

        check(tutti_optimizer_state(optimizer_, nullptr, 0, &count));
        std::vector<tutti_state_tensor> tensors(count);
        check(tutti_optimizer_state(optimizer_, tensors.data(), count, &count));
        return tensors;
    }

    /** The C handle; stays owned. */
    tutti_optimizer *get() const noexcept
    {
        return optimizer_;
    }

  private:
    tutti *t_;
    tutti_reducer *reducer_; /* of the reducer, borrowed */
    tutti_optimizer *optimizer_ = nullptr;
};

} // namespace tuttipp

#endif
