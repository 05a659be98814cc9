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
