/*
 * C++: the digits again, with the smallest model that recognises them, softmax regression.
 *
 *   tuttirun -np 2 softmax
 */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/trainer.hpp>

extern "C" {
#include "../digits/data.h"
}

namespace
{

constexpr int epochs = 30;
constexpr int batch = 50; /* images per step over all ranks */
constexpr double rate = 0.5;

using seconds = std::chrono::duration<double>;
using clock_type = std::chrono::steady_clock;

/** The images, released with the object. */
struct digits : dataset {
    digits() : dataset()
    {
        std::string error(512, '\0');

        if (!dataset_load(this, nullptr, error.data(), error.size())) {
            throw std::runtime_error(error.c_str());
        }
    }
    ~digits()
    {
        dataset_fini(this);
    }
    digits(const digits &) = delete;
    digits &operator=(const digits &) = delete;
};

/** One matrix and one bias for each class. */
struct model {
    /* NOLINTBEGIN(misc-non-private-member-variables-in-classes): it is data */
    std::vector<double> weights =
            std::vector<double>(std::size_t{ DATA_CLASSES } * DATA_PIXELS);
    std::vector<double> bias = std::vector<double>(DATA_CLASSES);
    /* NOLINTEND(misc-non-private-member-variables-in-classes) */

    /** Probabilities of the classes. */
    std::vector<double> predict(const double *image) const
    {
        std::vector<double> p = bias;
        double sum = 0;

        for (std::size_t c = 0; c < p.size(); c++) {
            for (std::size_t i = 0; i < DATA_PIXELS; i++) {
                p[c] += weights[c * DATA_PIXELS + i] * image[i];
            }
        }
        const double highest = *std::max_element(p.begin(), p.end());
        for (double &value : p) {
            value = std::exp(value - highest);
            sum += value;
        }
        for (double &value : p) {
            value /= sum;
        }
        return p;
    }
};

/** Adds the gradients of an image's loss, divided by the batch, and returns that loss. */
double backward(
        const model &net, const double *image, int label, double *weights, double *bias)
{
    std::vector<double> p = net.predict(image);
    const double loss = -std::log(p[static_cast<std::size_t>(label)]);

    p[static_cast<std::size_t>(label)] -= 1;
    for (std::size_t c = 0; c < p.size(); c++) {
        bias[c] += p[c] / batch;
        for (std::size_t i = 0; i < DATA_PIXELS; i++) {
            weights[c * DATA_PIXELS + i] += p[c] / batch * image[i];
        }
    }
    return loss / batch;
}

void descend(std::vector<double> &values, const double *gradient)
{
    for (std::size_t i = 0; i < values.size(); i++) {
        values[i] -= rate * gradient[i];
    }
}

double accuracy(const model &net, const digits &data)
{
    int correct = 0;

    for (int n = data.train; n < data.count; n++) {
        const std::vector<double> p =
                net.predict(data.images + static_cast<std::size_t>(n) * DATA_PIXELS);

        correct += std::max_element(p.begin(), p.end()) - p.begin() == data.labels[n];
    }
    return static_cast<double>(correct) / (data.count - data.train);
}

void train(tuttipp::context &job)
{
    const digits data;
    model net;
    tuttipp::reducer_options settings;
    double loss = 0;
    double waited = 0;

    settings.op =
            TUTTI_SUM; /* of gradients that are divided by the size of the batch */
    tuttipp::reducer reducer(job,
            { tuttipp::param("weights", net.weights),
                    tuttipp::param("bias", net.bias) },
            settings);
    double *weights = reducer.gradient<double>(0);
    double *bias = reducer.gradient<double>(1);
    const tuttipp::slice mine = tuttipp::part(batch, job.size(), job.rank());
    const clock_type::time_point begin = clock_type::now();

    for (int first = 0; first < epochs * data.train; first += batch) {
        std::fill_n(weights, reducer.count(0), 0.0);
        std::fill_n(bias, reducer.count(1), 0.0);
        loss = 0;
        for (std::int64_t i = mine.first; i < mine.first + mine.rows; i++) {
            const auto n = static_cast<std::size_t>((first + i) % data.train);

            loss += backward(
                    net, data.images + n * DATA_PIXELS, data.labels[n], weights, bias);
        }
        loss *= job.size(); /* the average of size times the shares is their sum */
        reducer.average("loss", loss);
        reducer.ready(0);
        reducer.ready(1);
        waited += 1e-9 * static_cast<double>(reducer.wait().wait_ns);
        descend(net.weights, weights);
        descend(net.bias, bias);
    }
    const double took = seconds(clock_type::now() - begin).count();
    if (job.rank() == 0) {
        std::printf("softmax: %d ranks, accuracy %.2f %%, loss %.6f, %.0f images/s, "
                    "waiting for gradients %.1f %%\n",
                job.size(), 100 * accuracy(net, data), loss, epochs * data.train / took,
                100 * waited / took);
    }
}

} // namespace

int main()
{
    try {
        tuttipp::context job = tuttipp::context::join();

        train(job);
        job.finalize();
    } catch (const std::exception &failure) {
        (void)std::fprintf(stderr, "softmax: %s\n", failure.what());
        return 1;
    }
    return 0;
}
