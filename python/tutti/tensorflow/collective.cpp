/*
 * TuttiCollective, the operation of TensorFlow by which a graph runs collectives in host memory.
 *
 * Its kernel submits and returns; the callback of tutti that comes last ends it. So no thread of TensorFlow's pool
 * waits, and independent collectives of a graph may begin in another order on each rank. ops.py submits the same
 * without a graph.
 *
 * Compiled by compiled.py for the TensorFlow that is installed.
 */
#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <utility>
#include <vector>

#include <tutti/tutti.h>

namespace
{

using absl::Status;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

tutti *(*current)() = nullptr; // the context of the process, or NULL; of Python

/** Not NULL, which would mean that tutti allocates; tensors without elements have that. */
void *memory_of(const Tensor &tensor)
{
    static char none;

    return tensor.NumElements() > 0 ? const_cast<char *>(tensor.tensor_data().data()) : &none;
}

/** UnknownError where the job is broken, which Horovod's elastic programs catch. */
Status failed(tutti_status status, const std::string &text)
{
    const bool is_of_job = status == TUTTI_ERR_CONTEXT_FAILED;

    return { is_of_job ? absl::StatusCode::kUnknown : absl::StatusCode::kFailedPrecondition, text };
}

/** The attributes. */
struct settings {
    std::string kind;
    std::vector<int> dtypes; // tutti's numbers, of each tensor
    int op = 0, root = 0, process_set = 0;
};

/** One run of the operation. It lives until the last callback of tutti, which may be after the end of the step. */
class call final : public std::enable_shared_from_this<call>
{
  public:
    call(OpKernelContext *context, std::function<void()> done, const settings &its)
        : context_(context), done_(std::move(done)), its_(its),
          label_(context->input(0).scalar<tensorflow::tstring>()()), t_(current()), sent_(list_of<int64_t>(1)),
          came_(list_of<int64_t>(2)), factors_(list_of<double>(3))
    {
        for (int i = 4; i < context->num_inputs(); i++) {
            inputs_.push_back(context->input(i));
        }
        outputs_.resize(inputs_.size());
    }

    void begin()
    {
        Status status;

        if (t_ == nullptr) {
            return end(absl::FailedPreconditionError(label_ + ": tutti is not initialised; call hvd.init() first"));
        }
        // An unknown set is refused when the operation is submitted.
        (void)!tutti_process_set_info(t_, static_cast<tutti_process_set>(its_.process_set), &size_, &rank_);
        for (size_t i = 0; status.ok() && i < inputs_.size(); i++) {
            status = allocate_output(i);
        }
        if (!status.ok()) {
            return end(status);
        }
        manager_ = context_->cancellation_manager();
        // When a step fails, other ranks may never submit this.
        if (manager_ != nullptr) {
            token_ = manager_->get_cancellation_token();
            const auto cancel = [self = shared_from_this()] {
                self->end(absl::CancelledError(self->label_ + ": another operation of the step has failed"));
            };
            if (!manager_->RegisterCallback(token_, cancel)) {
                return cancel();
            }
        }
        submit();
    }

  private:
    template <typename number> std::vector<number> list_of(int input) const
    {
        const auto numbers = context_->input(input).flat<number>();
        return { numbers.data(), numbers.data() + numbers.size() };
    }

    /** Rows of each rank, NULL if each has the same number. */
    int64_t *came_of(size_t i)
    {
        return came_.empty() ? nullptr : &came_[i * static_cast<size_t>(size_)];
    }

    Status allocate_output(size_t i)
    {
        const Tensor &input = inputs_[i];
        auto shape = input.shape();
        Tensor *output = nullptr;

        if (input.dims() == 0 && its_.kind != "allreduce" && its_.kind != "broadcast") {
            return absl::InvalidArgumentError(label_ + ": a tensor without dimensions has no rows; reshape it to [1]");
        }
        if (!came_.empty()) {
            shape.set_dim(0, std::accumulate(came_of(i), came_of(i) + size_, int64_t{ 0 }));
        } else if (its_.kind == "allgather") {
            shape.set_dim(0, input.dim_size(0) * size_);
        } else if (its_.kind == "reducescatter") {
            shape.set_dim(0, tutti_part(input.dim_size(0), size_, rank_, nullptr));
        }
        const Status status = context_->allocate_output(static_cast<int>(i), shape, &output);
        if (status.ok()) {
            outputs_[i] = *output; // shares its memory
            if (its_.kind == "broadcast" && rank_ == its_.root) {
                (void)std::memcpy(memory_of(*output), memory_of(input), input.TotalBytes());
            }
        }
        return status;
    }

    /** Submits the operations, all or none. */
    void submit()
    {
        const size_t n = inputs_.size();
        tutti_status status = n > 1 ? tutti_group_begin(t_) : TUTTI_OK;
        const bool is_open = n > 1 && status == TUTTI_OK;

        keep_ = shared_from_this();
        const std::shared_ptr<call> self = keep_; // the callback may let go of the other
        pending_ = n;
        for (size_t i = 0; i < n && status == TUTTI_OK; i++) {
            status = submit_one(i, n > 1 ? absl::StrCat(label_, ".", i) : label_);
        }
        if (is_open) {
            status = tutti_group_end(t_);
        }
        if (status != TUTTI_OK) {
            keep_ = nullptr;
            end(failed(status, tutti_last_error()));
        }
    }

    tutti_status submit_one(size_t i, const std::string &label)
    {
        const auto dims = inputs_[i].shape().dim_sizes();
        const auto dtype = static_cast<tutti_dtype>(its_.dtypes[i]);
        const auto op = static_cast<tutti_reduce_op>(its_.op);
        const char *name = label.c_str();
        void *from = memory_of(inputs_[i]), *to = memory_of(outputs_[i]);
        std::vector<int64_t> shape(dims.begin(), dims.end());
        tutti_options options;

        tutti_options_default(&options);
        options.process_set = static_cast<tutti_process_set>(its_.process_set);
        options.ndim = inputs_[i].dims();
        options.dims = shape.data();
        options.prescale = factors_[0];
        options.postscale = factors_[1];
        options.callback = on_end;
        options.user = this;
        if (its_.kind == "allreduce") {
            return tutti_allreduce_async(t_, name, from, to, inputs_[i].NumElements(), dtype, op, &options, nullptr);
        }
        if (its_.kind == "broadcast") {
            return tutti_broadcast_async(t_, name, to, inputs_[i].NumElements(), dtype, its_.root, &options, nullptr);
        }
        int64_t row = std::accumulate(shape.begin() + 1, shape.end(), int64_t{ 1 }, std::multiplies<>());
        // A row of tutti has elements; these rows have none, so none travel.
        if (row == 0) {
            shape[0] = 0;
            row = 1;
            std::fill(sent_.begin(), sent_.end(), 0);
            std::fill_n(came_of(i), came_.empty() ? 0 : size_, 0);
        }
        if (its_.kind == "allgather") {
            return tutti_allgather_async(t_, name, from, to, shape[0], row, came_of(i), dtype, &options, nullptr);
        }
        if (its_.kind == "alltoall") {
            return tutti_alltoall_async(t_, name, from, to, shape[0], row, sent_.empty() ? nullptr : sent_.data(),
                    came_of(i), dtype, &options, nullptr);
        }
        return tutti_reducescatter_async(t_, name, from, to, shape[0], row, nullptr, dtype, op, &options, nullptr);
    }

    static void on_end(void *user, tutti_status status, const char *message)
    {
        call *one = static_cast<call *>(user);
        if (status != TUTTI_OK) {
            one->end(failed(status, message));
        }
        if (--one->pending_ == 0) {
            const std::shared_ptr<call> self = std::move(one->keep_);
            self->end(Status());
        }
    }

    /** Ends the operation of TensorFlow, once; what tutti still does keeps its memory. */
    void end(const Status &status)
    {
        if (ended_.exchange(true)) {
            return;
        }
        if (manager_ != nullptr) {
            (void)manager_->TryDeregisterCallback(token_);
        }
        context_->SetStatus(status);
        std::exchange(done_, nullptr)();
    }

    OpKernelContext *const context_; // not after the end
    std::function<void()> done_;
    const settings its_; // the kernel may end before tutti does
    const std::string label_;
    tutti *const t_;
    std::vector<int64_t> sent_, came_; // rows
    const std::vector<double> factors_;
    int size_ = 0, rank_ = -1; // of the process set
    tensorflow::CancellationManager *manager_ = nullptr;
    tensorflow::CancellationToken token_ = 0;
    std::vector<Tensor> inputs_, outputs_; // keep their memory
    std::shared_ptr<call> keep_; // of the callbacks; the last lets go of it
    std::atomic<size_t> pending_{ 0 };
    std::atomic<bool> ended_{ false };
};

class operation final : public tensorflow::AsyncOpKernel
{
  public:
    explicit operation(tensorflow::OpKernelConstruction *construction) : AsyncOpKernel(construction)
    {
        OP_REQUIRES_OK(construction, construction->GetAttr("kind", &its_.kind));
        OP_REQUIRES_OK(construction, construction->GetAttr("dtypes", &its_.dtypes));
        OP_REQUIRES_OK(construction, construction->GetAttr("op", &its_.op));
        OP_REQUIRES_OK(construction, construction->GetAttr("root", &its_.root));
        OP_REQUIRES_OK(construction, construction->GetAttr("process_set", &its_.process_set));
    }

    void ComputeAsync(OpKernelContext *context, DoneCallback done) override
    {
        std::make_shared<call>(context, std::move(done), its_)->begin();
    }

  private:
    settings its_;
};

REGISTER_OP("TuttiCollective")
        .Input("label: string")
        .Input("sent: int64") // of alltoall: rows for each rank; none: as many for each
        .Input("came: int64") // of allgather and alltoall: rows from each rank, by tensor; none: as many from each
        .Input("factors: double") // before and after a reduction
        .Input("inputs: T")
        .Output("outputs: T")
        .Attr("T: list(type)")
        .Attr("kind: string")
        .Attr("dtypes: list(int)")
        .Attr("op: int")
        .Attr("root: int")
        .Attr("process_set: int")
        .SetIsStateful()
        .SetShapeFn(tensorflow::shape_inference::UnknownShape);

REGISTER_KERNEL_BUILDER(Name("TuttiCollective").Device(tensorflow::DEVICE_CPU), operation);

} // namespace

/** @param of_process  gives the context of the process, or NULL; any thread calls it */
extern "C" void tutti_tensorflow_start(tutti *(*of_process)())
{
    current = of_process;
}
