/*
 * The backend "tutti" of torch.distributed, for tensors in host memory.
 *
 * A group is a context of its ranks (tutti_init_ranks()), which groups of the same ranks share. All its
 * ranks issue the same operations in the same order, so a name is made of what an operation is, and of how
 * many were like it: RING of these may be in flight. Names that come again are known to all ranks by number.
 * Those of messages are counted by sender, receiver and tag.
 *
 * An operation holds its tensors until a callback of the context's engine ends it. What remains to be done
 * with the result runs in torch's thread pool, and so do callbacks of C++, which may not wait there. Those of Python
 * run in the thread that gives them, when the operation has finished: what they issue has its place in the order
 * of the program, the same on all ranks, and may be waited for.
 *
 * Compiled by distributed.py for the torch that is installed (1.13 and later).
 */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#    include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#    include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/tutti.h>

namespace
{

#if TORCH_VERSION_MAJOR >= 2
using base = c10d::Backend;
#else
using base = c10d::ProcessGroup;
#endif
using c10::intrusive_ptr;
using c10d::OpType;
using c10d::ReduceOp;
using tensors = std::vector<at::Tensor>;
using milliseconds = std::chrono::milliseconds;

constexpr uint64_t RING = 16;
constexpr uint64_t MESSAGES = 65536; // of one tag in flight to a rank
constexpr size_t KINDS_MAX = 4096; // sizes that are new each time would fill the memory

[[noreturn]] void fail(const std::string &text)
{
#if TORCH_VERSION_MAJOR >= 2
    C10_THROW_ERROR(DistBackendError, text);
#else
    throw std::runtime_error(text);
#endif
}

/** One call of a group: one or several operations of the library, and the tensors that they use. */
class work final : public c10d::Work
{
  public:
    work(int rank, OpType type, const char *title, const tensors &inputs, std::string group, milliseconds timeout)
        : Work(rank, type, title, inputs), keep(inputs), group_(std::move(group)), timeout_(timeout)
    {
    }

    /** The caller will wait at once and asks for no future: it runs the engine itself, without another thread. */
    void wait_in_caller(tutti *context)
    {
        context_ = context;
    }

    ~work() override
    {
        for (auto &request : requests) {
            if (tutti_wait(context_, &request, TUTTI_FOREVER) != TUTTI_OK && request != TUTTI_REQUEST_NULL) {
                (void)new tensors(keep); // refused, in a callback: the operation goes on, and uses them
            }
        }
    }

    bool wait(milliseconds timeout) override
    {
        const milliseconds limit = timeout == kNoTimeout ? timeout_ : timeout;

        for (; !requests.empty(); requests.pop_back()) {
            const tutti_status status = tutti_wait(context_, &requests.back(),
                    limit <= kNoTimeout ? TUTTI_FOREVER : int64_t{ limit.count() } * 1000000);

            if (status != TUTTI_OK && requests.back() != TUTTI_REQUEST_NULL) { // the operation goes on
                requests.clear();
                intrusive_ptr<work>::reclaim_copy(this).release(); // for ever: it uses the tensors
                status == TUTTI_ERR_TIMEOUT ? refuse_to_wait(limit) : fail(std::string("tutti: ") + tutti_last_error());
            }
            end(status);
        }
        std::unique_lock<std::mutex> lock(mutex_);

        if (limit <= kNoTimeout) {
            cv_.wait(lock, [this] { return completed_; });
        } else if (!cv_.wait_for(lock, limit, [this] { return completed_; })) {
            refuse_to_wait(limit);
        }
        if (exception_) {
            std::rethrow_exception(exception_);
        }
        return true;
    }

    tensors result() override
    {
        return results;
    }

    int sourceRank() const override
    {
        return source;
    }

    intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        if (PyGILState_Check() != 0) {
            wait_for_end();
        }
        std::unique_lock<std::mutex> lock(mutex_);

        if (!future_) {
            future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
            if (completed_) {
                lock.unlock();
                mark(future_);
                return future_;
            }
        }
        return future_;
    }

    /** One of the operations is over, on the thread that runs the engine. */
    static void on_end(void *user, tutti_status status, const char *message)
    {
        // The operation's reference.
        auto self = intrusive_ptr<work>::reclaim(static_cast<work *>(user));

        self->end(status, message);
    }

    /** Ends one of `pending`; the last ends the call. */
    void end(tutti_status status, const char *message = tutti_last_error())
    {
        bool has_future;

        {
            const std::lock_guard<std::mutex> lock(mutex_);

            if (status != TUTTI_OK && error_.empty()) {
                error_ = std::string(tutti_status_name(status)) + ": " + message;
            }
            has_future = future_ != nullptr;
        }
        if (--pending > 0) {
            return;
        }
        if (is_in_caller()) {
            complete(true);
        } else if (after || has_future) {
            at::launch([self = intrusive_ptr<work>::reclaim_copy(this)] { self->complete(true); });
        } else {
            complete(false);
        }
    }

    bool is_in_caller() const
    {
        return context_ != nullptr;
    }

    std::vector<tutti_request> requests; // of operations without a callback
    tensors keep; // what operations read and write
    tensors results; // of result() and of the future
    int source = -1; // of a message that is received
    std::function<void()> after; // what is to be done with the outputs; it may submit more
    std::atomic<int> pending{ 1 }; // operations, and the call that submits them

  private:
    [[noreturn]] void refuse_to_wait(milliseconds limit) const
    {
        fail("tutti: " + c10d::opTypeToString(opType_) + " of group " + group_ + " has not finished within the timeout of " +
                std::to_string(limit.count()) + " ms on rank " + std::to_string(rank_) +
                ": not all ranks have issued it (TUTTI_STALL_WARNING_S makes tutti name them). The operation goes "
                "on; its tensors may not be used");
    }

    /** Returns also if it has failed, which the future tells; throws if it has not finished in time. */
    void wait_for_end()
    {
        const pybind11::gil_scoped_release released;

        try {
            wait(kNoTimeout);
        } catch (...) {
            if (!isCompleted()) {
                throw;
            }
        }
    }

    void complete(bool in_pool)
    {
        std::exception_ptr exception;
        intrusive_ptr<c10::ivalue::Future> future;

        try {
            if (!error_.empty()) {
                fail("tutti: " + c10d::opTypeToString(opType_) + " of group " + group_ + ": " + error_);
            }
            if (after && run_after()) {
                return;
            }
        } catch (...) {
            exception = std::current_exception();
        }
        after = nullptr;
        keep.clear();
        finish(exception);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            future = future_;
        }
        if (future && in_pool) {
            mark(future);
        } else if (future) {
            // It was asked for meanwhile; its callbacks are not for the engine's thread.
            at::launch([self = intrusive_ptr<work>::reclaim_copy(this), future] { self->mark(future); });
        }
    }

    /** True if that has submitted more: the last of it completes the call. */
    bool run_after()
    {
        const at::NoGradGuard no_grad;
        const std::function<void()> now = std::move(after);

        after = nullptr;
        pending = 1;
        now();
        if (--pending > 0) {
            return true;
        }
        return after && run_after();
    }

    void mark(const intrusive_ptr<c10::ivalue::Future> &future)
    {
        if (marked_.exchange(true)) {
            return;
        }
        if (exception_) {
            future->setError(exception_);
        } else {
            future->markCompleted(c10::List<at::Tensor>(c10::ArrayRef<at::Tensor>(results)));
        }
    }

    const std::string group_;
    const milliseconds timeout_;
    tutti *context_ = nullptr; // of the requests
    std::string error_;
    intrusive_ptr<c10::ivalue::Future> future_;
    std::atomic<bool> marked_{ false };
};

/* ---------------------------------------------------------------------- tensors */

tutti_dtype dtype_of(const at::Tensor &tensor)
{
    switch (tensor.scalar_type()) {
    case at::kByte: return TUTTI_UINT8;
    case at::kChar: return TUTTI_INT8;
    case at::kShort: return TUTTI_INT16;
    case at::kInt: return TUTTI_INT32;
    case at::kLong: return TUTTI_INT64;
    case at::kHalf: return TUTTI_FLOAT16;
    case at::kBFloat16: return TUTTI_BFLOAT16;
    case at::kFloat: return TUTTI_FLOAT32;
    case at::kDouble: return TUTTI_FLOAT64;
    case at::kBool: return TUTTI_BOOL;
    default: TORCH_CHECK(false, "tutti does not reduce tensors of type ", tensor.scalar_type());
    }
}

void check(const at::Tensor &tensor)
{
    TORCH_CHECK(tensor.device().is_cpu(), "the backend tutti works on tensors in host memory; this one is on ",
            tensor.device(), ": name a backend for that device, too (\"cpu:tutti,cuda:nccl\")");
    TORCH_CHECK(!tensor.is_sparse(), "the backend tutti has only allreduce for sparse tensors");
}

const at::Tensor &only(const tensors &list)
{
    TORCH_CHECK(list.size() == 1, "the backend tutti expects one tensor for each rank, not ", list.size());
    return list[0];
}

/** Not NULL, which would mean that the library allocates; tensors without elements, and undefined ones, have that. */
void *memory_of(const at::Tensor &tensor)
{
    static char none;

    return tensor.defined() && tensor.numel() > 0 ? tensor.data_ptr() : &none;
}

int64_t bytes_of(const at::Tensor &tensor)
{
    return static_cast<int64_t>(tensor.nbytes());
}

std::vector<int64_t> bytes_of_each(const tensors &list)
{
    std::vector<int64_t> bytes(list.size());

    std::transform(list.begin(), list.end(), bytes.begin(), bytes_of);
    return bytes;
}

/** True if the tensors are the parts of one piece of memory, in order. */
bool are_adjacent(const tensors &list)
{
    const char *next = static_cast<const char *>(list[0].data_ptr());

    return std::all_of(list.begin(), list.end(), [&next](const at::Tensor &tensor) {
        const bool follows = tensor.is_contiguous() && tensor.data_ptr() == next;

        next += tensor.nbytes();
        return follows;
    });
}

void check_list(const tensors &list, const at::Tensor &like, int size)
{
    TORCH_CHECK(static_cast<int>(list.size()) == size, "the backend tutti expects a list of one tensor for each of ",
            size, " ranks, not ", list.size());
    for (const auto &tensor : list) {
        check(tensor);
        TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "the tensors have different types: ",
                tensor.scalar_type(), " and ", like.scalar_type());
    }
}

/** A reduction as the library has it. */
struct reduction {
    tutti_reduce_op op;
    double prescale = 1;
};

reduction reduction_of(const ReduceOp &op, const at::Tensor &tensor)
{
    const bool is_bool = tensor.scalar_type() == at::kBool;

    switch (static_cast<ReduceOp::RedOpType>(op)) {
    case ReduceOp::SUM: return { is_bool ? TUTTI_MAX : TUTTI_SUM };
    case ReduceOp::AVG: return { TUTTI_AVERAGE };
    case ReduceOp::PRODUCT: return { is_bool ? TUTTI_MIN : TUTTI_PRODUCT };
    case ReduceOp::MIN: return { TUTTI_MIN };
    case ReduceOp::MAX: return { TUTTI_MAX };
    case ReduceOp::BAND:
    case ReduceOp::BOR:
        TORCH_CHECK(is_bool, "the backend tutti has bitwise reductions only in allreduce, and for bool");
        return { static_cast<ReduceOp::RedOpType>(op) == ReduceOp::BAND ? TUTTI_MIN : TUTTI_MAX };
    case ReduceOp::PREMUL_SUM: {
        const auto *factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());

        TORCH_CHECK(factor != nullptr && factor->double_factor != 0,
                "the backend tutti has PREMUL_SUM only with a number as the factor");
        return { TUTTI_SUM, factor->double_factor };
    }
    default: TORCH_CHECK(false, "the backend tutti does not have this reduction");
    }
}

bool is_bitwise(const ReduceOp &op, const at::Tensor &tensor)
{
    const auto kind = static_cast<ReduceOp::RedOpType>(op);

    return kind == ReduceOp::BXOR ||
            (tensor.scalar_type() != at::kBool && (kind == ReduceOp::BAND || kind == ReduceOp::BOR));
}

at::Tensor bitwise(const ReduceOp &op, const at::Tensor &a, const at::Tensor &b)
{
    switch (static_cast<ReduceOp::RedOpType>(op)) {
    case ReduceOp::BAND: return at::bitwise_and(a, b);
    case ReduceOp::BOR: return at::bitwise_or(a, b);
    default: return at::bitwise_xor(a, b);
    }
}

/* ------------------------------------------------------------------------ group */

/** Until when something may take that is waited for step by step. */
class deadline
{
  public:
    explicit deadline(milliseconds limit) : limit_(limit), end_(std::chrono::steady_clock::now() + limit)
    {
    }

    int64_t left_ns() const
    {
        const std::chrono::nanoseconds left = end_ - std::chrono::steady_clock::now();

        return std::max<int64_t>(0, left.count());
    }

    /** True if an operation succeeds until then; else it may go on, and tutti_last_error() has the reason. */
    bool has(tutti *context, tutti_request request) const
    {
        return tutti_wait(context, &request, left_ns()) == TUTTI_OK;
    }

    std::string text() const
    {
        return std::to_string(limit_.count()) + " ms";
    }

  private:
    milliseconds limit_;
    std::chrono::steady_clock::time_point end_;
};

class group final : public base
{
  public:
    /** @param context  a tutti * whose ranks are those of the group; owned by the caller */
    group(uintptr_t context, int rank, int size, std::string name, double timeout_s)
        : base(rank, size), t_(reinterpret_cast<tutti *>(context)), name_(std::move(name)),
          timeout_(milliseconds(static_cast<int64_t>(timeout_s * 1000)))
    {
    }

    const std::string getBackendName() const override
    {
        return "tutti";
    }

    void setSequenceNumberForGroup() override
    {
    }

    uint64_t getSequenceNumberForGroup() override
    {
        return issued_;
    }

    void setTimeout(milliseconds timeout) // overrides what 2.x has
    {
        timeout_ = timeout;
    }

    intrusive_ptr<c10d::Work> allreduce(tensors &list, const c10d::AllreduceOptions &options) override
    {
        const at::Tensor &tensor = only(list);

        if (tensor.is_sparse()) {
            return allreduce_sparse_of(tensor, options);
        }
        check(tensor);
        if (is_bitwise(options.reduceOp, tensor)) {
            return allreduce_bitwise(tensor, options);
        }
        return allreduce_each(list, OpType::ALLREDUCE, "tutti:all_reduce", options);
    }

    intrusive_ptr<c10d::Work> allreduce_coalesced(
            tensors &list, const c10d::AllreduceCoalescedOptions &options) override
    {
        return allreduce_each(list, OpType::ALLREDUCE_COALESCED, "tutti:all_reduce_coalesced", options);
    }

    intrusive_ptr<c10d::Work> broadcast(tensors &list, const c10d::BroadcastOptions &options) override
    {
        const int root = static_cast<int>(options.rootRank);
        auto w = begin(OpType::BROADCAST, "tutti:broadcast", { only(list) }, { only(list) }, options);
        const at::Tensor flat = in_place(w, list[0]);

        submit(w, "broadcast", flat.nbytes(), root, [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_broadcast_async(t_, name, memory_of(flat), bytes_of(flat), TUTTI_UINT8, root, o, r);
        });
        return done(w);
    }

    intrusive_ptr<c10d::Work> reduce(tensors &list, const c10d::ReduceOptions &options) override
    {
        const int root = static_cast<int>(options.rootRank);
        const at::Tensor &tensor = only(list);
        auto w = begin(OpType::REDUCE, "tutti:reduce", { tensor }, { tensor }, options);
        const at::Tensor flat = in_place(w, tensor);
        const reduction how = reduction_of(options.reduceOp, tensor);
        const tutti_dtype dtype = dtype_of(tensor);

        submit(
                w, "reduce" + std::to_string(dtype) + "." + std::to_string(how.op), flat.numel(), root,
                [&](const char *name, const tutti_options *o, tutti_request *r) {
                    return tutti_reduce_async(
                            t_, name, memory_of(flat), memory_of(flat), flat.numel(), dtype, how.op, root, o, r);
                },
                how.prescale);
        return done(w);
    }

    intrusive_ptr<c10d::Work> allgather(std::vector<tensors> &outputs, tensors &inputs,
            const c10d::AllgatherOptions &options) override
    {
        const at::Tensor &input = only(inputs);

        TORCH_CHECK(outputs.size() == 1, "the backend tutti expects one list of outputs, not ", outputs.size());
        check_list(outputs[0], input, size_);
        auto w = begin(OpType::ALLGATHER, "tutti:all_gather", { input }, outputs[0], options);
        gather_into_list(w, outputs[0], input);
        return done(w);
    }

    intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<tensors> &outputs, tensors &inputs,
            const c10d::AllgatherOptions &options) override
    {
        TORCH_CHECK(static_cast<int>(outputs.size()) == size_, "the backend tutti expects a list for each of ", size_,
                " ranks, not ", outputs.size());
        auto w = begin(OpType::ALLGATHER_COALESCED, "tutti:all_gather_coalesced", inputs, flatten(outputs), options);
        for (size_t i = 0; i < inputs.size(); i++) {
            tensors of_input;

            for (auto &of_rank : outputs) {
                TORCH_CHECK(of_rank.size() == inputs.size(), "there are ", inputs.size(), " inputs, but ",
                        of_rank.size(), " outputs of a rank");
                of_input.push_back(of_rank[i]);
            }
            check_list(of_input, inputs[i], size_);
            gather_into_list(w, of_input, inputs[i]);
        }
        return done(w);
    }

    intrusive_ptr<c10d::Work> _allgather_base(
            at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override
    {
        auto w = begin(OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", { input }, { output }, options);

        gather_into(w, output, input);
        return done(w);
    }

    intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
            tensors &outputs, tensors &inputs, const c10d::AllgatherOptions &options = {})
    {
        auto w = begin(OpType::ALLGATHER_COALESCED, "tutti:all_gather_into_tensor_coalesced", inputs, outputs, options);

        for (size_t i = 0; i < inputs.size(); i++) {
            gather_into(w, outputs.at(i), inputs[i]);
        }
        return done(w);
    }

    intrusive_ptr<c10d::Work> reduce_scatter(tensors &outputs, std::vector<tensors> &inputs,
            const c10d::ReduceScatterOptions &options) override
    {
        const at::Tensor &output = only(outputs);

        TORCH_CHECK(inputs.size() == 1, "the backend tutti expects one list of inputs, not ", inputs.size());
        check_list(inputs[0], output, size_);
        TORCH_CHECK(inputs[0][static_cast<size_t>(rank_)].numel() == output.numel(), "the output has ",
                output.numel(), " elements, but this rank's part of the input has ",
                inputs[0][static_cast<size_t>(rank_)].numel());
        auto w = begin(OpType::REDUCE_SCATTER, "tutti:reduce_scatter", inputs[0], { output }, options);
        std::vector<int64_t> counts;

        for (const auto &part : inputs[0]) {
            counts.push_back(part.numel());
        }
        scatter_sum(w, output, joined(inputs[0]), counts, options.reduceOp);
        return done(w);
    }

    intrusive_ptr<c10d::Work> _reduce_scatter_base(
            at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options) override
    {
        auto w = begin(
                OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", { input }, { output }, options);

        scatter_sum_evenly(w, output, input, options.reduceOp);
        return done(w);
    }

    intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
            tensors &outputs, tensors &inputs, const c10d::ReduceScatterOptions &options = {})
    {
        auto w = begin(OpType::REDUCE_SCATTER, "tutti:reduce_scatter_tensor_coalesced", inputs, outputs, options);

        for (size_t i = 0; i < inputs.size(); i++) {
            scatter_sum_evenly(w, outputs.at(i), inputs[i], options.reduceOp);
        }
        return done(w);
    }

    intrusive_ptr<c10d::Work> gather(std::vector<tensors> &outputs, tensors &inputs,
            const c10d::GatherOptions &options) override
    {
        const int root = static_cast<int>(options.rootRank);
        const at::Tensor input = only(inputs).contiguous();
        const bool is_root = rank_ == root;

        TORCH_CHECK(outputs.size() == (is_root ? 1U : 0U), is_root ? "gather: the root gives one list of outputs"
                                                                    : "gather: only the root gives outputs");
        if (is_root) {
            check_list(outputs[0], input, size_);
        }
        auto w = begin(OpType::GATHER, "tutti:gather", { input }, is_root ? outputs[0] : tensors{}, options);
        const std::vector<int64_t> bytes = is_root ? bytes_of_each(outputs[0]) : std::vector<int64_t>{};
        const at::Tensor flat = is_root ? output_of_list(w, outputs[0]) : at::Tensor();

        submit(w, "gather", input.nbytes(), root, [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_gather_async(t_, name, memory_of(input), memory_of(flat),
                    bytes_of(input), 1, is_root ? bytes.data() : nullptr, TUTTI_UINT8, root, o, r);
        });
        return done(w);
    }

    intrusive_ptr<c10d::Work> scatter(tensors &outputs, std::vector<tensors> &inputs,
            const c10d::ScatterOptions &options) override
    {
        const int root = static_cast<int>(options.rootRank);
        const bool is_root = rank_ == root;
        const at::Tensor &output = only(outputs);

        TORCH_CHECK(inputs.size() == (is_root ? 1U : 0U), is_root ? "scatter: the root gives one list of inputs"
                                                                   : "scatter: only the root gives inputs");
        if (is_root) {
            check_list(inputs[0], output, size_);
        }
        auto w = begin(OpType::SCATTER, "tutti:scatter", is_root ? inputs[0] : tensors{}, { output }, options);
        const at::Tensor input = is_root ? joined(inputs[0]) : at::Tensor();
        const std::vector<int64_t> bytes = is_root ? bytes_of_each(inputs[0]) : std::vector<int64_t>{};
        const at::Tensor flat = output_of(w, output);

        w->keep.push_back(input);
        submit(w, "scatter", flat.nbytes(), root, [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_scatter_async(t_, name, memory_of(input), memory_of(flat),
                    bytes_of(flat), 1, is_root ? bytes.data() : nullptr, TUTTI_UINT8, root, o, r);
        });
        return done(w);
    }

    intrusive_ptr<c10d::Work> alltoall_base(at::Tensor &output, at::Tensor &input,
            std::vector<int64_t> &output_splits, std::vector<int64_t> &input_splits,
            const c10d::AllToAllOptions &options) override
    {
        auto w = begin(OpType::ALLTOALL_BASE, "tutti:all_to_all", { input }, { output }, options);
        const at::Tensor from = input.contiguous();
        const at::Tensor to = output_of(w, output);

        check_list({ output }, input, 1);
        w->keep.push_back(from);
        exchange(w, from, split_bytes(from, input_splits), to, split_bytes(to, output_splits));
        return done(w);
    }

    intrusive_ptr<c10d::Work> alltoall(
            tensors &outputs, tensors &inputs, const c10d::AllToAllOptions &options) override
    {
        check_list(inputs, inputs.at(0), size_);
        check_list(outputs, inputs[0], size_);
        auto w = begin(OpType::ALLTOALL, "tutti:all_to_all", inputs, outputs, options);
        const at::Tensor from = joined(inputs);

        w->keep.push_back(from);
        exchange(w, from, bytes_of_each(inputs), output_of_list(w, outputs), bytes_of_each(outputs));
        return done(w);
    }

    intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &options) override
    {
        auto w = begin(OpType::BARRIER, "tutti:barrier", {}, {}, options);

        submit(w, "barrier", 0, 0, [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_barrier_async(t_, name, o, r);
        });
        return done(w);
    }

    intrusive_ptr<c10d::Work> send(tensors &list, int rank, int tag) override
    {
        auto w = begin_message(OpType::SEND, "tutti:send", only(list));
        const at::Tensor flat = list[0].contiguous();

        w->keep.push_back(flat);
        submit_as(w, next_message("send", rank, tag), [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_send_async(t_, name, memory_of(flat), bytes_of(flat), TUTTI_UINT8, rank, o, r);
        });
        return done(w);
    }

    intrusive_ptr<c10d::Work> recv(tensors &list, int rank, int tag) override
    {
        auto w = begin_message(OpType::RECV, "tutti:recv", only(list));
        const at::Tensor flat = output_of(w, list[0]);

        w->source = rank;
        w->keep.push_back(flat);
        submit_as(w, next_message("recv", rank, tag), [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_recv_async(t_, name, memory_of(flat), bytes_of(flat), TUTTI_UINT8, rank, o, r);
        });
        return done(w);
    }

    intrusive_ptr<c10d::Work> recvAnysource(tensors & /*list*/, int /*tag*/) override
    {
        fail("the backend tutti receives only from a rank that is named: give src");
    }

    /** Every rank tells rank 0 that it is here, and waits for its answer; rank 0 names those that are not. */
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_for_all) override
    {
        const deadline end(timeout_of(options));
        const std::string name = next_name("monitored");
        std::vector<tutti_request> requests(static_cast<size_t>(std::max(size_, 2)), TUTTI_REQUEST_NULL);
        std::string late;
        int late_count = 0;

        if (rank_ != 0) {
            requests[1] = token(OpType::SEND, name, 0);
            requests[0] = token(OpType::RECV, name + ".answer", 0);
            if (!end.has(t_, requests[1]) || !end.has(t_, requests[0])) {
                fail("Rank " + std::to_string(rank_) + " successfully reached monitoredBarrier, but received errors "
                        "while waiting for send/recv from rank 0: " + tutti_last_error());
            }
            return;
        }
        if (end.left_ns() == 0) {
            fail("Rank 0 timed out in monitoredBarrier after " + end.text());
        }
        for (int rank = 1; rank < size_; rank++) {
            requests[static_cast<size_t>(rank)] = token(OpType::RECV, name, rank);
        }
        for (int rank = 1; rank < size_ && (late_count == 0 || wait_for_all); rank++) {
            if (!end.has(t_, requests[static_cast<size_t>(rank)])) {
                late += (late_count++ == 0 ? "" : ", ") + std::to_string(rank);
            }
        }
        if (late_count > 0) {
            fail((late_count == 1 ? "Rank " : "Ranks ") + late + " failed to pass monitoredBarrier in " + end.text());
        }
        for (int rank = 1; rank < size_; rank++) {
            (void)end.has(t_, token(OpType::SEND, name + ".answer", rank));
        }
    }

  private:

    static tensors flatten(const std::vector<tensors> &lists)
    {
        tensors all;

        for (const auto &list : lists) {
            all.insert(all.end(), list.begin(), list.end());
        }
        return all;
    }

    template <typename options_type> milliseconds timeout_of(const options_type &options) const
    {
        return options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
    }

    /** Whether the caller has said so; torch before 2.8 does not. */
    template <typename options_type>
    static auto waits_at_once(const options_type &options, int /*preferred*/) -> decltype(options.asyncOp)
    {
        return !options.asyncOp;
    }

    template <typename options_type> static bool waits_at_once(const options_type & /*options*/, long /*else*/)
    {
        return false;
    }

    /** A call that holds its tensors; done() must follow. */
    template <typename options_type>
    intrusive_ptr<work> begin(OpType type, const char *title, const tensors &inputs, const tensors &outputs,
            const options_type &options)
    {
        for (const auto &tensor : inputs) {
            check(tensor);
        }
        for (const auto &tensor : outputs) {
            check(tensor);
        }
        auto w = c10::make_intrusive<work>(rank_, type, title, inputs, name_, timeout_of(options));

        if (waits_at_once(options, 0)) {
            w->wait_in_caller(t_);
        }
        w->keep.insert(w->keep.end(), outputs.begin(), outputs.end());
        w->results = outputs;
        issued_++;
        return w;
    }

    /** Nothing more is submitted for this call. */
    static intrusive_ptr<c10d::Work> done(const intrusive_ptr<work> &w)
    {
        w->end(TUTTI_OK);
        return w;
    }

    /**
     * Submits one operation of a call.
     * @param kind, bytes, root  what all ranks know of it: equal operations share RING names
     */
    void submit(const intrusive_ptr<work> &w, const std::string &kind, uint64_t bytes, int root,
            const std::function<tutti_status(const char *, const tutti_options *, tutti_request *)> &call,
            double prescale = 1)
    {
        submit_as(w, next_name(kind + "." + std::to_string(bytes) + "." + std::to_string(root)), call, prescale);
    }

    template <typename call_type>
    static void submit_as(const intrusive_ptr<work> &w, const std::string &name, const call_type &call, double prescale = 1)
    {
        tutti_request request = TUTTI_REQUEST_NULL;
        tutti_options options;
        tutti_status status;

        tutti_options_default(&options);
        options.prescale = prescale;
        if (!w->is_in_caller()) {
            options.callback = work::on_end;
            options.user = intrusive_ptr<work>(w).release(); // on_end() takes it back
        }
        w->pending++;
        // So many operations that are alike are in flight that the name is, too: the first must end.
        while ((status = call(name.c_str(), &options, &request)) == TUTTI_ERR_DUPLICATE) {
            (void)usleep(50);
        }
        if (status != TUTTI_OK && w->is_in_caller()) {
            w->end(status);
        } else if (status != TUTTI_OK) {
            work::on_end(options.user, status, tutti_last_error());
        } else if (w->is_in_caller()) {
            w->requests.push_back(request);
        }
    }

    std::string next_name(const std::string &kind)
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        if (counts_.size() >= KINDS_MAX) {
            counts_.clear(); // on all ranks at the same operation
        }
        return name_ + "." + kind + "#" + std::to_string(counts_[kind]++ % RING);
    }

    /** The tensor, or a copy without gaps that is copied back at the end. */
    static at::Tensor in_place(const intrusive_ptr<work> &w, const at::Tensor &tensor)
    {
        if (tensor.is_contiguous()) {
            return tensor;
        }
        at::Tensor copy = tensor.contiguous();

        then(w, [copy, tensor] { tensor.copy_(copy); });
        return copy;
    }

    /** Where an output is received: itself, or memory that is copied to it at the end. */
    static at::Tensor output_of(const intrusive_ptr<work> &w, const at::Tensor &output)
    {
        if (output.is_contiguous()) {
            return output;
        }
        at::Tensor flat = at::empty(output.sizes(), output.options());

        then(w, [flat, output] { output.copy_(flat); });
        return flat;
    }

    static at::Tensor output_of_list(const intrusive_ptr<work> &w, const tensors &outputs)
    {
        int64_t count = 0;

        if (are_adjacent(outputs)) {
            return outputs[0];
        }
        for (const auto &output : outputs) {
            count += output.numel();
        }
        at::Tensor flat = at::empty({ count }, outputs[0].options());

        then(w, [flat, outputs] {
            int64_t at = 0;

            for (const auto &output : outputs) {
                output.copy_(flat.narrow(0, at, output.numel()).view(output.sizes()));
                at += output.numel();
            }
        });
        return flat;
    }

    /** The tensors of a list in one piece of memory. */
    static at::Tensor joined(const tensors &list)
    {
        tensors flat;

        if (are_adjacent(list)) {
            return list[0];
        }
        for (const auto &tensor : list) {
            flat.push_back(tensor.reshape({ -1 }));
        }
        return at::cat(flat);
    }

    static void then(const intrusive_ptr<work> &w, std::function<void()> next)
    {
        if (w->after) {
            next = [first = std::move(w->after), second = std::move(next)] {
                first();
                second();
            };
        }
        w->after = std::move(next);
    }

    intrusive_ptr<work> begin_message(OpType type, const char *title, const at::Tensor &tensor)
    {
        check(tensor);
        auto w = c10::make_intrusive<work>(rank_, type, title, tensors{ tensor }, name_, timeout_.load());

        w->results = { tensor };
        return w;
    }

    /** Those of one tag meet in order. Not of a RING: who sends may not wait for who will receive. */
    std::string next_message(const char *way, int rank, int tag)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const std::string kind = ".message." + std::to_string(tag);

        return name_ + kind + "#" + std::to_string(messages_[way + std::to_string(rank) + kind]++ % MESSAGES);
    }

    /** A message without contents, of a barrier. */
    tutti_request token(OpType type, const std::string &name, int rank)
    {
        tutti_request request = TUTTI_REQUEST_NULL;
        const tutti_status status = type == OpType::SEND
                ? tutti_send_async(t_, name.c_str(), nullptr, 0, TUTTI_UINT8, rank, nullptr, &request)
                : tutti_recv_async(t_, name.c_str(), nullptr, 0, TUTTI_UINT8, rank, nullptr, &request);

        if (status != TUTTI_OK) {
            fail(std::string("tutti: ") + tutti_last_error());
        }
        return request;
    }

    template <typename options_type>
    intrusive_ptr<c10d::Work> allreduce_each(
            tensors &list, OpType type, const char *title, const options_type &options)
    {
        auto w = begin(type, title, list, list, options);

        for (const auto &tensor : list) {
            const at::Tensor flat = in_place(w, tensor);
            const reduction how = reduction_of(options.reduceOp, tensor);
            const tutti_dtype dtype = dtype_of(tensor);

            submit(
                    w, "allreduce" + std::to_string(dtype) + "." + std::to_string(how.op), flat.numel(), 0,
                    [&](const char *name, const tutti_options *o, tutti_request *r) {
                        return tutti_allreduce_async(
                                t_, name, memory_of(flat), memory_of(flat), flat.numel(), dtype, how.op, o, r);
                    },
                    how.prescale);
        }
        return done(w);
    }

    /** tutti has no bitwise reductions: every rank gets all inputs. */
    intrusive_ptr<c10d::Work> allreduce_bitwise(const at::Tensor &tensor, const c10d::AllreduceOptions &options)
    {
        auto w = begin(OpType::ALLREDUCE, "tutti:all_reduce", { tensor }, { tensor }, options);
        const at::Tensor all = at::empty({ size_, tensor.numel() }, tensor.options());

        gather_into(w, all, tensor);
        then(w, [all, tensor, op = options.reduceOp] {
            at::Tensor sum = all[0];

            for (int64_t i = 1; i < all.size(0); i++) {
                sum = bitwise(op, sum, all[i]);
            }
            tensor.copy_(sum.view(tensor.sizes()));
        });
        return done(w);
    }

    /** Sums of sparse tensors: first how many values each rank has, then indices and values of all. */
    intrusive_ptr<c10d::Work> allreduce_sparse_of(const at::Tensor &tensor, const c10d::AllreduceOptions &options)
    {
        TORCH_CHECK(static_cast<ReduceOp::RedOpType>(options.reduceOp) == ReduceOp::SUM,
                "the backend tutti has only sums of sparse tensors");
        TORCH_CHECK(tensor.layout() == at::kSparse && tensor.device().is_cpu(),
                "the backend tutti reduces sparse tensors only in COO format and host memory");
        const at::Tensor input = tensor.coalesce();
        const at::Tensor counts = at::empty({ size_ }, at::kLong);
        auto w = c10::make_intrusive<work>(rank_, OpType::ALLREDUCE, "tutti:all_reduce_sparse", tensors{ tensor },
                name_, timeout_of(options));

        w->results = { tensor };
        gather_into(w, counts, at::full({ 1 }, input._nnz(), at::kLong));
        // Its names are given out now, in the order of the calls; the second part begins at any time.
        then(w, [this, self = w.get(), input, counts, tensor, name = next_name("sparse")] {
            gather_sparse(intrusive_ptr<work>::reclaim_copy(self), input, counts, tensor, name);
        });
        return done(w);
    }

    void gather_sparse(const intrusive_ptr<work> &w, const at::Tensor &input, const at::Tensor &counts,
            const at::Tensor &tensor, const std::string &name)
    {
        const std::vector<int64_t> rows(counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + size_);
        const int64_t total = counts.sum().item<int64_t>();
        const at::Tensor indices = input._indices().t().contiguous();
        const at::Tensor values = input._values().contiguous();
        std::vector<int64_t> shape = values.sizes().vec();

        shape[0] = total;
        const at::Tensor all_indices = at::empty({ total, indices.size(1) }, indices.options());
        const at::Tensor all_values = at::empty(shape, values.options());

        w->keep = { indices, values, all_indices, all_values };
        gather_rows(w, name + ".indices", indices, all_indices, rows);
        gather_rows(w, name + ".values", values, all_values, rows);
        then(w, [all_indices, all_values, tensor] {
            const at::Tensor sum =
                    at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce();

            tensor.copy_(sum);
        });
    }

    void gather_rows(const intrusive_ptr<work> &w, const std::string &name, const at::Tensor &input,
            const at::Tensor &output, const std::vector<int64_t> &rows)
    {
        const int64_t bytes = row_bytes(input); // equal on all ranks
        const std::vector<int64_t> counts = bytes > 0 ? rows : std::vector<int64_t>(rows.size(), 0);

        submit_as(
                w, name,
                [&](const char *text, const tutti_options *o, tutti_request *r) {
                    return tutti_allgather_async(t_, text, memory_of(input), memory_of(output),
                            counts[static_cast<size_t>(rank_)], std::max<int64_t>(1, bytes), counts.data(),
                            TUTTI_UINT8, o, r);
                });
    }

    static int64_t row_bytes(const at::Tensor &tensor)
    {
        int64_t bytes = static_cast<int64_t>(tensor.element_size());

        for (int64_t d = 1; d < tensor.dim(); d++) {
            bytes *= tensor.size(d);
        }
        return bytes;
    }

    void gather_bytes(const intrusive_ptr<work> &w, const at::Tensor &flat, const at::Tensor &input,
            const std::vector<int64_t> &bytes)
    {
        const at::Tensor from = input.contiguous();
        const int64_t total = bytes_of(flat);

        w->keep.push_back(from);
        w->keep.push_back(flat);
        submit(w, "allgather", static_cast<uint64_t>(total), 0, [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_allgather_async(t_, name, memory_of(from), memory_of(flat), bytes_of(from), 1,
                    bytes.empty() ? nullptr : bytes.data(), TUTTI_UINT8, o, r);
        });
    }

    void gather_into(const intrusive_ptr<work> &w, const at::Tensor &output, const at::Tensor &input)
    {
        check_list({ output }, input, 1);
        TORCH_CHECK(output.numel() == input.numel() * size_, "all_gather: the output has ", output.numel(),
                " elements; ", size_, " ranks give ", input.numel(), " each");
        gather_bytes(w, output_of(w, output), input, {});
    }

    void gather_into_list(const intrusive_ptr<work> &w, const tensors &outputs, const at::Tensor &input)
    {
        std::vector<int64_t> bytes = bytes_of_each(outputs);

        if (std::all_of(bytes.begin(), bytes.end(), [&](int64_t b) { return b == bytes_of(input); })) {
            bytes.clear();
        }
        gather_bytes(w, output_of_list(w, outputs), input, bytes);
    }

    void scatter_sum(const intrusive_ptr<work> &w, const at::Tensor &output, const at::Tensor &input,
            const std::vector<int64_t> &counts, const ReduceOp &op)
    {
        const reduction how = reduction_of(op, output);
        const tutti_dtype dtype = dtype_of(output);
        const at::Tensor flat = output_of(w, output);
        int64_t total = 0;

        for (const int64_t count : counts) {
            total += count;
        }
        w->keep.push_back(input);
        w->keep.push_back(flat);
        submit(
                w, "reducescatter" + std::to_string(dtype) + "." + std::to_string(how.op),
                static_cast<uint64_t>(total), 0,
                [&](const char *name, const tutti_options *o, tutti_request *r) {
                    return tutti_reducescatter_async(t_, name, memory_of(input), memory_of(flat), total, 1,
                            counts.data(), dtype, how.op, o, r);
                },
                how.prescale);
    }

    void scatter_sum_evenly(
            const intrusive_ptr<work> &w, const at::Tensor &output, const at::Tensor &input, const ReduceOp &op)
    {
        check_list({ output }, input, 1);
        TORCH_CHECK(input.numel() == output.numel() * size_, "reduce_scatter: the input has ", input.numel(),
                " elements; ", size_, " ranks get ", output.numel(), " each");
        scatter_sum(w, output, input.contiguous(),
                std::vector<int64_t>(static_cast<size_t>(size_), output.numel()), op);
    }

    /** Bytes of each part; equal parts where there are no splits. */
    std::vector<int64_t> split_bytes(const at::Tensor &tensor, const std::vector<int64_t> &splits) const
    {
        const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
        const int64_t row = row_bytes(tensor);
        std::vector<int64_t> bytes;
        int64_t sum = 0;

        if (splits.empty()) {
            TORCH_CHECK(rows % size_ == 0, "all_to_all: ", rows, " rows are no multiple of ", size_,
                    " ranks; give split sizes");
            return std::vector<int64_t>(static_cast<size_t>(size_), rows / size_ * row);
        }
        for (const int64_t split : splits) {
            bytes.push_back(split * row);
            sum += split;
        }
        TORCH_CHECK(static_cast<int>(splits.size()) == size_ && sum == rows, "all_to_all: ", splits.size(),
                " split sizes with the sum ", sum, " for ", size_, " ranks and ", rows, " rows");
        return bytes;
    }

    void exchange(const intrusive_ptr<work> &w, const at::Tensor &from, const std::vector<int64_t> &send,
            const at::Tensor &to, const std::vector<int64_t> &receive)
    {
        int64_t total = 0;

        for (const int64_t bytes : send) {
            total += bytes;
        }
        w->keep.push_back(to);
        // Ranks may have different sizes: they are not in the name.
        submit(w, "alltoall", 0, 0, [&](const char *name, const tutti_options *o, tutti_request *r) {
            return tutti_alltoall_async(t_, name, memory_of(from), memory_of(to), total, 1, send.data(),
                    receive.data(), TUTTI_UINT8, o, r);
        });
    }

    tutti *const t_;
    const std::string name_;
    std::atomic<milliseconds> timeout_;
    std::atomic<uint64_t> issued_{ 0 };
    std::mutex mutex_;
    std::unordered_map<std::string, uint64_t> counts_;
    std::unordered_map<std::string, uint64_t> messages_;
};

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    // The base class is torch's; python knows it from torch._C._distributed_c10d.
    module.def("group", [](uintptr_t context, int rank, int size, const std::string &name, double timeout_s) {
        return c10::static_intrusive_pointer_cast<base>(
                c10::make_intrusive<group>(context, rank, size, name, timeout_s));
    });
}
