/*
 * The workloads against the published totals of their networks.
 */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "bench/core/workloads.h"
#include "test/unit/unit.h"

static void expect_totals(const char *name, uint64_t elements)
{
    struct bench_workload workload;
    uint64_t sum = 0;

    assert_true(bench_workload_init(&workload, name));
    for (size_t i = 0; i < workload.count; i++) {
        sum += workload.tensors[i].count;
    }

    assert_string_equal(workload.name, name);
    if (sum != elements) {
        fail_msg("%s: %" PRIu64 " instead of %" PRIu64, name, sum, elements);
    }
    assert_int_equal(workload.elements, elements);
    bench_workload_fini(&workload);
}

/*
 * As torchvision ("num_params" of its weights), the hubs of timm, transformers and diffusers,
 * or the papers give them.
 */
UNIT_TEST(test_totals_are_the_published_ones)
{
    static const struct {
        const char *name;
        uint64_t elements;
    } published[] = {
        { "resnet18", 11689512 },
        { "resnet50", 25557032 },
        { "resnet152", 60192808 },
        { "alexnet", 61100840 },
        { "vgg16", 138357544 },
        { "inception-v3", 27161264 },
        { "densenet121", 7978856 },
        { "mobilenet-v3", 5483032 },
        { "efficientnet-b0", 5288548 },
        { "efficientnet-b7", 66347960 },
        { "vit-b16", 86567656 },
        { "swin-t", 28288354 },
        { "convnext-t", 28589128 },
        { "vit-l16", 304326632 },
        { "mixer-b16", 59880472 },
        { "bert-base", 109482240 },
        { "bert-large", 335141888 },
        { "roberta-base", 124645632 },
        { "gpt2", 124439808 },
        { "gpt2-medium", 354823168 },
        { "gpt2-large", 774030080 },
        { "gpt2-xl", 1557611200 },
        { "t5-base", 222903552 },
        { "llama2-7b", 6738415616 },
        { "mistral-7b", 7241732096 },
        /* without the encoder's positions, which are fixed */
        { "whisper-small", 241734912 - 1500 * 768 },
        { "whisper-large", 1543304960 - 1500 * 1280 },
        { "wav2vec2-base", 94371712 },
        { "clip-b32", 151277313 },
        { "sd-unet", 859520964 },
        /* 66 million in the paper; torch has a second bias in each layer */
        { "lstm-ptb", 66022000 + 2 * 4 * 1500 },
        { "dlrm-mlp", 2368897 },
        { "small1000", 256000 },
    };
    size_t count = 0;

    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        expect_totals(published[i].name, published[i].elements);
    }
    while (bench_workload_names[count] != NULL) {
        count++;
    }
    assert_int_equal(count, sizeof published / sizeof published[0]);
}

static void expect_good_names(const struct bench_workload *workload)
{
    for (size_t i = 0; i < workload->count; i++) {
        const char *name = workload->tensors[i].name;

        assert_true(strlen(name) < BENCH_TENSOR_NAME_MAX - 1);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(name, workload->tensors[k].name);
        }
    }
}

UNIT_TEST(test_names_are_distinct_and_whole)
{
    for (size_t i = 0; bench_workload_names[i] != NULL; i++) {
        struct bench_workload workload;

        assert_true(bench_workload_init(&workload, bench_workload_names[i]));
        expect_good_names(&workload);
        bench_workload_fini(&workload);
    }
}

UNIT_TEST(test_mixed_tensors_are_of_all_sizes)
{
    struct bench_workload workload;
    uint64_t sizes = 0;

    assert_true(bench_workload_init_mixed(&workload, "mixture", 50));
    assert_string_equal(workload.name, "mixture");
    assert_int_equal(workload.count, 50);
    expect_good_names(&workload);
    for (size_t i = 0; i < workload.count; i++) {
        /* each a power of two from 32 to 32768, and not its neighbour's */
        sizes |= workload.tensors[i].count;
        assert_true(
                i == 0 || workload.tensors[i].count != workload.tensors[i - 1].count);
    }
    assert_int_equal(sizes, 65536 - 32);
    bench_workload_fini(&workload);
}

UNIT_TEST(test_layers_come_from_the_back)
{
    struct bench_workload workload;
    size_t done;

    assert_true(bench_workload_init(&workload, "resnet50"));
    /* fc: weight and bias; then bn3 of the last block: two; then its convolution: one */
    done = bench_workload_next_layer(&workload, 0);
    assert_int_equal(done, 2);
    done = bench_workload_next_layer(&workload, done);
    assert_int_equal(done, 4);
    done = bench_workload_next_layer(&workload, done);
    assert_int_equal(done, 5);
    assert_int_equal(bench_workload_next_layer(&workload, 161), 161);
    /* 53 convolutions, each with its normalisation, and fc */
    assert_int_equal(bench_workload_layers(&workload), 107);
    bench_workload_fini(&workload);
}

UNIT_TEST(test_padding_makes_equal_parts)
{
    struct bench_workload workload;
    uint64_t sum = 0;

    assert_true(bench_workload_init(&workload, "resnet50"));
    bench_workload_pad(&workload, TUTTI_ALLREDUCE, 7);
    assert_int_equal(workload.elements, 25557032);
    bench_workload_pad(&workload, TUTTI_REDUCESCATTER, 7);
    for (size_t i = 0; i < workload.count; i++) {
        assert_int_equal(workload.tensors[i].count % 7, 0);
        sum += workload.tensors[i].count;
    }
    assert_int_equal(workload.elements, sum);
    assert_in_range(sum, 25557032, 25557032 + 6 * workload.count);
    bench_workload_fini(&workload);
}
