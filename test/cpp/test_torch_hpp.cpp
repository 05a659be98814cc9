/*
 * torch.hpp: a module that two ranks train on halves of each batch has the values of one that a
 * single process trains on the whole batches.
 */
#include <cmath>
#include <cstddef>
#include <torch/nn.h>
#include <torch/optim.h>
#include <vector>

#include <tutti/torch.hpp>

#include "test/cpp/ranks.hpp"

namespace
{

constexpr int two_ranks = 2;
constexpr int half = 8; /* images of a rank in a batch */

torch::nn::Sequential make_module()
{
    torch::nn::Sequential made(torch::nn::Linear(5, 7), torch::nn::Tanh(),
            torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(7).affine(false)),
            torch::nn::Linear(7, 2));

    made->to(torch::kDouble);
    made->eval(); /* statistics of a half batch would not be those of the batch */
    return made;
}

torch::optim::SGD make_optimizer(torch::nn::Sequential &module)
{
    return torch::optim::SGD(
            module->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

/* The same on all ranks, and another for each step. */
torch::Tensor whole_batch(int step)
{
    const torch::Tensor numbers =
            torch::arange(two_ranks * half * 5, torch::kDouble).view({ -1, 5 });

    return (numbers * (0.37 + step)).sin();
}

torch::Tensor loss_of(torch::nn::Sequential &module, const torch::Tensor &input)
{
    return (module->forward(input) - input.slice(1, 0, 2)).pow(2).mean();
}

void copy_values(torch::nn::Sequential &to, torch::nn::Sequential &from)
{
    const torch::NoGradGuard guard;
    std::vector<torch::Tensor> target = to->parameters();
    const std::vector<torch::Tensor> source = from->parameters();

    for (std::size_t i = 0; i < target.size(); i++) {
        (void)target[i].copy_(source[i]);
    }
}

void train_beside_whole(tuttipp::context &c)
{
    torch::nn::Sequential module = make_module();
    torch::nn::Sequential whole = make_module();
    tuttipp::module_reducer reducer(c, *module);
    torch::optim::SGD optimizer = make_optimizer(module);
    torch::optim::SGD whole_optimizer = make_optimizer(whole);

    copy_values(whole, module); /* what rank 0 drew */
    for (int step = 0; step < 12; step++) {
        const torch::Tensor batch = whole_batch(step);
        torch::Tensor loss =
                loss_of(module, batch.slice(0, c.rank() * half, (c.rank() + 1) * half));
        torch::Tensor whole_loss = loss_of(whole, batch);
        double mean = loss.item<double>();

        if (step % 3 == 0) { /* as torch's own zero_grad() may */
            for (torch::Tensor &parameter : module->parameters()) {
                parameter.mutable_grad().reset();
            }
        } else {
            reducer.zero_grad();
        }
        reducer.average("loss", mean);
        loss.backward();
        expect(reducer.wait().step == step, "the steps are not counted");
        expect(module->parameters()[0].grad().data_ptr() ==
                        reducer.get().gradient<double>(0),
                "the gradient is not a view");
        expect(std::abs(mean - whole_loss.item<double>()) < 1e-12, "another loss");
        optimizer.step();
        whole_optimizer.zero_grad();
        whole_loss.backward();
        whole_optimizer.step();
        for (std::size_t i = 0; i < module->parameters().size(); i++) {
            expect(torch::allclose(
                           module->parameters()[i], whole->parameters()[i], 0, 1e-12),
                    "other values than those of the whole batch");
        }
    }
}

UNIT_TEST(test_two_halves_train_like_the_whole)
{
    on_ranks(two_ranks, train_beside_whole);
}

/* Rank 0 leaves the second layer out; the hooks must not outlive the reducer. */
UNIT_TEST(test_parameters_that_are_left_out_and_a_reducer_that_ends)
{
    on_ranks(two_ranks, [](tuttipp::context &c) {
        torch::nn::Sequential module = make_module();
        tuttipp::reducer_options settings;
        const torch::Tensor input = torch::ones({ 1, 5 }, torch::kDouble);

        settings.unused = true;
        {
            tuttipp::module_reducer reducer(c, *module, settings);

            if (c.rank() == 0) {
                module[0]->as<torch::nn::Linear>()->forward(input).sum().backward();
            } else {
                module->forward(input).sum().backward();
            }
            expect(reducer.wait().unused == 0,
                    "a gradient that one rank has is unused");
            expect(module->parameters()[3].grad()[0].item<double>() == 0.5,
                    "wrong average");
        }
        expect(!module->parameters()[0].grad().defined(), "a view outlives its memory");
        module->forward(input).sum().backward();
    });
}

UNIT_TEST(test_other_types_are_refused)
{
    on_ranks(1, [](tuttipp::context &c) {
        torch::nn::Linear module(2, 2);

        module->to(torch::kComplexDouble);
        expect(status_of([&] { tuttipp::module_reducer reducer(c, *module); }) ==
                        TUTTI_ERR_UNSUPPORTED,
                "complex parameters were taken");
    });
}

UNIT_TEST(test_modules_that_differ_are_refused)
{
    on_ranks(two_ranks, [](tuttipp::context &c) {
        torch::nn::Linear module(2, 2 + c.rank());

        expect(status_of([&] { tuttipp::module_reducer reducer(c, *module); }) ==
                        TUTTI_ERR_MISMATCH,
                "different modules were taken");
    });
}

} // namespace
