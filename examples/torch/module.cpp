/*
 * libtorch: a torch::nn::Module recognises the digits; its gradients are averaged by hooks.
 *
 *   tuttirun -np 2 module
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <torch/nn.h>
#include <torch/optim.h>

#include <tutti/torch.hpp>

extern "C" {
#include "../digits/data.h"
}

namespace
{

constexpr int epochs = 20;
constexpr int batch = 50; /* images per step over all ranks */

using clock_type = std::chrono::steady_clock;

/** Images and labels as tensors; the last DATA_HELD_OUT are for evaluation. */
struct digits {
    /* NOLINTBEGIN(misc-non-private-member-variables-in-classes): it is data */
    torch::Tensor images;
    torch::Tensor labels;
    /* NOLINTEND(misc-non-private-member-variables-in-classes) */

    digits()
    {
        dataset data = {};
        std::string error(512, '\0');

        if (!dataset_load(&data, nullptr, error.data(), error.size())) {
            throw std::runtime_error(error.c_str());
        }
        images = torch::from_blob(
                data.images, { data.count, DATA_PIXELS }, torch::kDouble)
                         .to(torch::kFloat);
        labels = torch::from_blob(data.labels, { data.count }, torch::kInt)
                         .to(torch::kLong);
        dataset_fini(&data);
    }
};

double accuracy(torch::nn::Sequential &net, const digits &data, std::int64_t first)
{
    const torch::NoGradGuard guard;
    const torch::Tensor found = net->forward(data.images.slice(0, first)).argmax(1);

    return found.eq(data.labels.slice(0, first))
            .to(torch::kDouble)
            .mean()
            .item<double>();
}

void train(tuttipp::context &job)
{
    const digits data;
    const std::int64_t count = data.images.size(0) - DATA_HELD_OUT;
    torch::nn::Sequential net(torch::nn::Linear(DATA_PIXELS, 64), torch::nn::ReLU(),
            torch::nn::Linear(64, DATA_CLASSES));
    tuttipp::module_reducer reducer(
            job, *net); /* all ranks have rank 0's parameters now */
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(3e-3));
    const std::int64_t mine = batch / job.size();
    const clock_type::time_point begin = clock_type::now();
    double waited = 0;
    double mean = 0;

    for (int epoch = 0; epoch < epochs; epoch++) {
        for (std::int64_t first = 0; first + batch <= count; first += batch) {
            const std::int64_t from = first + job.rank() * mine;
            torch::Tensor loss = torch::nn::functional::cross_entropy(
                    net->forward(data.images.slice(0, from, from + mine)),
                    data.labels.slice(0, from, from + mine));

            mean = loss.item<double>();
            reducer.average("loss", mean);
            reducer.zero_grad();
            loss.backward(); /* marks each gradient when it is complete */
            waited += 1e-9 * static_cast<double>(reducer.wait().wait_ns);
            optimizer.step();
        }
    }
    const double took =
            std::chrono::duration<double>(clock_type::now() - begin).count();
    if (job.rank() == 0) {
        std::printf(
                "module: %d ranks, accuracy %.2f %%, loss %.4f, %.0f images/s, waiting "
                "for gradients %.1f %%\n",
                job.size(), 100 * accuracy(net, data, count), mean,
                static_cast<double>(epochs * count) / took, 100 * waited / took);
    }
}

} // namespace

int main()
{
    try {
        tuttipp::context job = tuttipp::context::join();

        torch::set_num_threads(1); /* of this rank; the ranks share the cores */
        train(job);
        job.finalize();
    } catch (const std::exception &failure) {
        (void)std::fprintf(stderr, "module: %s\n", failure.what());
        return 1;
    }
    return 0;
}
