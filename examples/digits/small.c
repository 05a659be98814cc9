#include "small.h"

const struct layer_shape small_shapes[SMALL_LAYERS] = {
    { .side = DATA_SIDE,
            .channels = 1,
            .kernel = DATA_SIDE,
            .stride = 1,
            .outputs = 64 },
    { .side = 1, .channels = 64, .kernel = 1, .stride = 1, .outputs = DATA_CLASSES },
};

double held_out_accuracy(struct network *net, const struct dataset *data)
{
    int correct = 0;

    for (int image = data->train; image < data->count; image++) {
        network_forward(net, data->images + (size_t)image * DATA_PIXELS, 1);
        correct += network_count_correct(net, data->labels + image, 1);
    }
    return (double)correct / (data->count - data->train);
}
