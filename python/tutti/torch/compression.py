"""Compression of gradients on their way: pass Compression.fp16 to an operation or an optimizer."""
import torch

from tutti._horovod import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Sends floating-point numbers as float16; tutti adds them in float32 and rounds once."""

    @staticmethod
    def compress(tensor):
        if tensor.dtype.is_floating_point:
            return tensor.to(torch.float16), tensor.dtype
        return tensor, tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


class Compression:
    """The compressors there are."""

    none = NoneCompressor
    fp16 = FP16Compressor
