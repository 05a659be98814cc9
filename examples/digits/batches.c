/*
 * What a batch is made of depends on the seed alone; a rank makes its own part of it.
 */
#include "batches.h"

#include <math.h>
#include <stdlib.h>

#include "random.h"

int batches_part(int count, int rank, int size)
{
    return (int)((int64_t)count * rank / size);
}

bool batches_init(struct batches *batches, const struct dataset *data, uint64_t seed,
        int rank, int size)
{
    *batches =
            (struct batches){ .data = data, .seed = seed, .rank = rank, .size = size };
    batches->order = calloc((size_t)data->train, sizeof *batches->order);
    return batches->order != NULL;
}

void batches_fini(struct batches *batches)
{
    free(batches->order);
    *batches = (struct batches){ .data = NULL };
}

/** A number that depends on the seed and the epoch alone, so not on the rank. */
static uint64_t epoch_seed(const struct batches *batches, int epoch)
{
    return batches->seed * 1000003 + (uint64_t)epoch;
}

void batches_shuffle(struct batches *batches, int epoch)
{
    uint64_t state = epoch_seed(batches, epoch);

    for (int i = 0; i < batches->data->train; i++) {
        batches->order[i] = i;
    }
    for (int i = batches->data->train - 1; i > 0; i--) {
        int j = (int)(random_bits(&state) % ((uint64_t)i + 1));
        int image = batches->order[i];

        batches->order[i] = batches->order[j];
        batches->order[j] = image;
    }
}

/** Draws a small turn, stretch, slant, shift and change of contrast. */
static struct distortion draw_distortion(uint64_t state)
{
    double angle = 0.3 * random_signed(&state);
    double width = exp(0.25 * random_signed(&state));
    double height = exp(0.25 * random_signed(&state));
    double slant = 0.2 * random_signed(&state);
    double right = 0.8 * random_signed(&state);
    double down = 0.8 * random_signed(&state);

    return (struct distortion){
        .matrix = {
            { width * cos(angle), height * (sin(angle) + slant * cos(angle)), right },
            { -width * sin(angle), height * (cos(angle) - slant * sin(angle)), down },
        },
        .contrast = exp(0.3 * random_signed(&state)),
    };
}

int batches_load(const struct batches *batches, int epoch, int first, int batch,
        double *images, int *labels)
{
    int begin = batches_part(batch, batches->rank, batches->size);
    int end = batches_part(batch, batches->rank + 1, batches->size);

    for (int i = 0; i < end - begin; i++) {
        int image = batches->order[first + begin + i];
        uint64_t state = epoch_seed(batches, epoch) * DATA_IMAGES_MAX + (uint64_t)image;
        struct distortion distortion = draw_distortion(random_bits(&state));

        dataset_copy_distorted(
                batches->data, image, &distortion, images + (size_t)i * DATA_PIXELS);
        labels[i] = batches->data->labels[image];
    }
    return end - begin;
}
