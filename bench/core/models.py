#!/usr/bin/env python3
"""Makes bench/core/models.txt, the gradients of well-known networks, out of the packages that have them:

    python3 -m venv /tmp/models && /tmp/models/bin/pip install torch torchvision timm transformers diffusers
    /tmp/models/bin/python bench/core/models.py > bench/core/models.txt

Networks are built on the device "meta", from configurations alone: no weights are made or loaded. Needs no
accelerator; run by hand, when a network is added. Parameters that are not trained have no gradient and are left
out, and shared ones are there once.
"""
import importlib.metadata
import logging
import os
import re
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import diffusers
import timm
import torch
import torchvision
import transformers
from torch import nn

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")


class LSTMModel(nn.Module):
    """The large model of Zaremba et al. (arXiv:1409.2329) on the words of the Penn Treebank."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(10000, 1500)
        self.rnn = nn.LSTM(1500, 1500, 2)
        self.decoder = nn.Linear(1500, 10000)


class DLRM(nn.Module):
    """The perceptrons of MLPerf's DLRM; its embeddings are on one rank each and have no reduction."""

    def __init__(self):
        super().__init__()
        self.bottom = torchvision.ops.MLP(13, [512, 256, 128])
        self.top = torchvision.ops.MLP(479, [1024, 1024, 512, 256, 1])


def vision(name):
    return "torchvision", name, lambda: getattr(torchvision.models, name)()


def image(name):
    return "timm", name, lambda: timm.create_model(name)


def language(model, **sizes):
    """A model of transformers with the defaults of its configuration but for these sizes."""
    kind = getattr(transformers, model)
    text = ", ".join(f"{key}={value}" for key, value in sizes.items())
    return "transformers", f"{model}({text})", lambda: kind(kind.config_class(**sizes))


def gpt2(width, layers):
    return language("GPT2LMHeadModel", n_embd=width, n_layer=layers, n_head=width // 64)


def whisper(width, layers):
    return language("WhisperForConditionalGeneration", vocab_size=51865, d_model=width, encoder_layers=layers,
                    decoder_layers=layers, encoder_attention_heads=width // 64, decoder_attention_heads=width // 64,
                    encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width)


def unet():
    return diffusers.UNet2DConditionModel(block_out_channels=(320, 640, 1280, 1280), cross_attention_dim=768)


LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
MODELS = {
    "resnet18": vision("resnet18"),
    "resnet50": vision("resnet50"),
    "resnet152": vision("resnet152"),
    "alexnet": vision("alexnet"),
    "vgg16": vision("vgg16"),
    "inception-v3": vision("inception_v3"),
    "densenet121": vision("densenet121"),
    "mobilenet-v3": vision("mobilenet_v3_large"),
    "efficientnet-b0": vision("efficientnet_b0"),
    "efficientnet-b7": vision("efficientnet_b7"),
    "vit-b16": vision("vit_b_16"),
    "swin-t": vision("swin_t"),
    "convnext-t": vision("convnext_tiny"),
    "vit-l16": image("vit_large_patch16_224"),
    "mixer-b16": image("mixer_b16_224"),
    "bert-base": language("BertModel"),
    "bert-large": language("BertModel", **LARGE),
    "roberta-base": language("RobertaModel", vocab_size=50265, max_position_embeddings=514, type_vocab_size=1),
    "gpt2": gpt2(768, 12),
    "gpt2-medium": gpt2(1024, 24),
    "gpt2-large": gpt2(1280, 36),
    "gpt2-xl": gpt2(1600, 48),
    "t5-base": language("T5ForConditionalGeneration", d_model=768, num_layers=12, num_heads=12, d_ff=3072),
    "llama2-7b": language("LlamaForCausalLM"),
    "mistral-7b": language("MistralForCausalLM"),
    "whisper-small": whisper(768, 12),
    "whisper-large": whisper(1280, 32),
    "wav2vec2-base": language("Wav2Vec2Model"),
    "clip-b32": language("CLIPModel"),
    "sd-unet": ("diffusers", "UNet2DConditionModel of Stable Diffusion 1", unet),
    "lstm-ptb": ("torch", "Embedding, LSTM and Linear as in arXiv:1409.2329, large", LSTMModel),
    "dlrm-mlp": ("torchvision", "ops.MLP as in MLPerf DLRM, without embeddings", DLRM),
}
# In bench/core/workloads.h
NAME_MAX = 112 - 1


def parameters(make):
    """Names and numbers of elements in the order in which modules are declared."""
    with torch.device("meta"):
        model = make()
    return [(name, tensor.numel()) for name, tensor in model.named_parameters() if tensor.requires_grad]


def entries(tensors):
    """A matrix and its bias become one entry: (layer, weight, bias); others are (name, elements)."""
    result, i = [], 0
    while i < len(tensors):
        name, count = tensors[i]
        layer = name.removesuffix(".weight")
        if layer == name:
            result.append((name, count))
        elif i + 1 < len(tensors) and tensors[i + 1][0] == layer + ".bias":
            result.append((layer, count, tensors[i + 1][1]))
            i += 1
        else:
            result.append((layer, count, 0))
        i += 1
    return result


def same(block, other, k):
    """Whether the block k behind one is the same but for its number, which is k more."""
    return block[1] >= 0 and other == (block[0], block[1] + k, block[2])


def blocks_of(rows, depth):
    """Runs of rows whose names agree up to the number at this depth: (prefix, number, rows without both)."""
    blocks = []
    for row in rows:
        parts = row[0].split(".")
        match = re.fullmatch(r"(\D*)(\d+)", parts[depth]) if depth < len(parts) else None
        if match and (match[1] == "" or depth + 1 < len(parts)):
            prefix, number, rest = ".".join(parts[:depth] + [match[1]]), match[2], ".".join(parts[depth + 1:])
        else:
            prefix, number, rest = row[0], -1, ""
        entry = (rest, *row[1:])
        if blocks and number != -1 and blocks[-1][:2] == (prefix, int(number)):
            blocks[-1][2].append(entry)
        else:
            blocks.append((prefix, int(number), [entry]))
    return blocks


def put_rows(rows):
    for row in rows:
        if len(row) == 2:
            print(f"tensor {row[0]} {row[1]}")
        else:
            print(f"layer {row[0]} {row[1]} {row[2]}")


def put(rows, depth=0):
    """Prints rows; blocks of them that are alike but for a number become one, with # for the number."""
    if depth > 4:
        return put_rows(rows)
    blocks, at, offset, waiting = blocks_of(rows, depth), 0, 0, []
    while at < len(blocks):
        k = 1
        while at + k < len(blocks) and same(blocks[at], blocks[at + k], k):
            k += 1
        size = sum(len(block[2]) for block in blocks[at:at + k])
        if k > 1:
            put(waiting, depth + 1)
            waiting = []
            prefix, first, alike = blocks[at]
            print(f"repeat {first} {first + k - 1}")
            put_rows([(f"{prefix}#.{row[0]}" if row[0] else f"{prefix}#", *row[1:]) for row in alike])
            print("end")
        else:
            waiting += rows[offset:offset + size]
        offset += size
        at += k
    if waiting:
        put(waiting, depth + 1)


def main():
    packages = ["torch", "torchvision", "timm", "transformers", "diffusers"]
    versions = {name: importlib.metadata.version(name).split("+")[0] for name in packages}
    print("# The gradients of well-known networks, in the order in which their layers are declared.")
    print("# Made by bench/core/models.py from", ", ".join(f"{name} {versions[name]}" for name in packages) + ".")
    print("#\n# model NAME SOURCE")
    print("# layer NAME WEIGHT BIAS  elements of NAME.weight and, unless 0, of NAME.bias")
    print("# tensor NAME ELEMENTS    one that is called otherwise")
    print("# repeat FIRST LAST, up to end: for each number from FIRST to LAST, which is # in names")
    for name, (package, what, make) in MODELS.items():
        tensors = parameters(make)
        longest = max(len(name) + 1 + len(tensor) for tensor, _ in tensors)
        assert longest < NAME_MAX, f"{name}: a name of {longest}"
        print(f"{name}: {len(tensors)} {sum(count for _, count in tensors)}", file=sys.stderr)
        print(f"model {name} {package} {versions[package]}: {what}")
        put(entries(tensors))
    print("model small1000 latency times a thousand: 1 KiB of float32 each")
    print("repeat 0 999\ntensor small# 256\nend")


main()
