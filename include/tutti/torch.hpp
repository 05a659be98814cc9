/*
 * libtorch: the gradients of a torch::nn::Module are averaged over the ranks while backward() runs.
 *
 *     tuttipp::module_reducer reducer(job, *module);
 *     each step:
 *         reducer.zero_grad();
 *         loss(module->forward(input)).backward();   marks each gradient when it is complete
 *         reducer.wait();
 *         optimizer.step();
 *
 * The gradients are views of the reducer's memory, so there is no copy of them. Header-only;
 * needs libtorch with its headers (tested with 1.13) and libtutti-trainer. See trainer.hpp.
 */
#ifndef TUTTI_TORCH_HPP
#define TUTTI_TORCH_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <utility>
#include <vector>

#include <tutti/trainer.hpp>

template <> struct tuttipp::dtype_of<c10::Half> {
    static constexpr tutti_dtype value = TUTTI_FLOAT16;
};

template <> struct tuttipp::dtype_of<c10::BFloat16> {
    static constexpr tutti_dtype value = TUTTI_BFLOAT16;
};

namespace tuttipp
{

/**
 * A reducer of a module's parameters that require gradients. Neither copied nor moved: hooks of
 * the module point to it. The module's parameters must be on the CPU, of float16, bfloat16,
 * float32 or float64, and may not be replaced while it lives.
 *
 * The destructor removes the hooks, gives the parameters gradients of their own, and releases the
 * reducer as that of tuttipp::reducer does.
 */
class module_reducer
{
  public:
    /**
     * Collective: registers the parameters under their names in the module, which the ranks
     * compare, and copies the parameters and buffers of rank 0 of the set to the others.
     */
    module_reducer(const context &owner, torch::nn::Module &module,
            const tutti_reducer_options &with = reducer_options())
        : reducer_(owner, trained(module), with)
    {
        share(owner, module, with);
        for (const auto &item : module.named_parameters()) {
            if (item.value().requires_grad()) {
                tensors_.push_back(item.value());
            }
        }
        views_.reserve(tensors_.size());
        for (std::size_t i = 0; i < tensors_.size(); i++) {
            void *memory = tutti_reducer_gradient(reducer_.get(), i);

            views_.push_back(torch::from_blob(memory, tensors_[i].sizes(),
                    tensors_[i].strides(), tensors_[i].options().requires_grad(false)));
        }
        zero_grad();
        for (std::size_t i = 0; i < tensors_.size(); i++) {
            /* kept, because autograd itself keeps no more than a weak reference */
            nodes_.push_back(torch::autograd::impl::grad_accumulator(tensors_[i]));
            hooks_.push_back(
                    nodes_[i]->add_post_hook(std::make_unique<mark>(*this, i)));
        }
    }

    ~module_reducer()
    {
        for (std::size_t i = 0; i < hooks_.size(); i++) {
            (void)nodes_[i]->del_post_hook(hooks_[i]);
            tensors_[i].mutable_grad().reset();
        }
    }

    module_reducer(const module_reducer &) = delete;
    module_reducer &operator=(const module_reducer &) = delete;

    /**
     * Makes the gradients zero, in place. Those of torch work as well; one that drops the
     * gradients costs a copy of each in the next backward().
     */
    void zero_grad()
    {
        for (std::size_t i = 0; i < tensors_.size(); i++) {
            (void)views_[i].zero_();
            tensors_[i].mutable_grad() = views_[i];
        }
    }

    /** Averages a number with the step; reducer::average(). */
    void average(const char *name, double &value)
    {
        reducer_.average(name, value);
    }

    /**
     * Ends the step: the gradients are averages. Without `unused`, every parameter must have had a
     * gradient since the last one. reducer::wait().
     */
    tutti_step_report wait()
    {
        return reducer_.wait();
    }

    /** The reducer, for what is not here. Its gradients are marked by the hooks alone. */
    reducer &get() noexcept
    {
        return reducer_;
    }

  private:
    /* Runs behind the addition of a gradient, on the thread of backward(). */
    class mark : public torch::autograd::FunctionPostHook
    {
      public:
        mark(module_reducer &owner, std::size_t i) : owner_(owner), i_(i)
        {
        }

        torch::autograd::variable_list operator()(
                const torch::autograd::variable_list &outputs,
                const torch::autograd::variable_list & /* inputs */) override
        {
            owner_.complete(i_);
            return outputs;
        }

      private:
        module_reducer &owner_;
        std::size_t i_;
    };

    /* A gradient that was dropped before is not in the reducer's memory: it is put there. */
    void complete(std::size_t i)
    {
        const torch::NoGradGuard guard;
        torch::Tensor &gradient = tensors_[i].mutable_grad();

        if (gradient.data_ptr() != views_[i].data_ptr()) {
            (void)views_[i].copy_(gradient);
            gradient = views_[i];
        }
        reducer_.ready(i);
    }

    static param describe(const std::string &name, const torch::Tensor &tensor)
    {
        const auto count = static_cast<std::size_t>(tensor.numel());
        const torch::ScalarType type = tensor.scalar_type();

        if (!tensor.device().is_cpu() || !tensor.is_non_overlapping_and_dense()) {
            throw error(TUTTI_ERR_UNSUPPORTED,
                    "\"" + name + "\" is not a dense tensor on the CPU");
        }
        if (type == torch::kFloat) {
            return param(name, tensor.data_ptr<float>(), count);
        }
        if (type == torch::kDouble) {
            return param(name, tensor.data_ptr<double>(), count);
        }
        if (type == torch::kHalf) {
            return param(name, tensor.data_ptr<c10::Half>(), count);
        }
        if (type == torch::kBFloat16) {
            return param(name, tensor.data_ptr<c10::BFloat16>(), count);
        }
        throw error(TUTTI_ERR_UNSUPPORTED,
                "\"" + name + "\" is of type " + c10::toString(type));
    }

    /* Bytes, because buffers may be of any type, for instance counters of batches. */
    static void broadcast(const context &owner, const std::string &name,
            const torch::Tensor &tensor, tutti_process_set set)
    {
        tutti_options options;

        if (!tensor.device().is_cpu() || !tensor.is_non_overlapping_and_dense()) {
            throw error(TUTTI_ERR_UNSUPPORTED,
                    "\"" + name + "\" is not a dense tensor on the CPU");
        }
        tutti_options_default(&options);
        options.process_set = set;
        check(tutti_broadcast(owner.get(), ("module." + name).c_str(),
                tensor.data_ptr(), detail::to_count(tensor.nbytes()), TUTTI_UINT8, 0,
                &options));
    }

    static std::vector<param> trained(torch::nn::Module &module)
    {
        std::vector<param> params;

        for (const auto &item : module.named_parameters()) {
            if (item.value().requires_grad()) {
                params.push_back(describe(item.key(), item.value()));
            }
        }
        return params;
    }

    static void share(const context &owner, torch::nn::Module &module,
            const tutti_reducer_options &with)
    {
        for (const auto &item : module.named_parameters()) {
            broadcast(owner, item.key(), item.value(), with.process_set);
        }
        for (const auto &item : module.named_buffers()) {
            broadcast(owner, item.key(), item.value(), with.process_set);
        }
    }

    reducer reducer_;
    std::vector<torch::Tensor> tensors_; /* the parameters */
    std::vector<torch::Tensor> views_; /* their gradients, in the reducer's memory */
    std::vector<std::shared_ptr<torch::autograd::Node>> nodes_;
    std::vector<std::uintptr_t> hooks_;
};

} // namespace tuttipp

#endif
