"""Compression of gradients on their way: pass Compression.fp16 to an operation or an optimizer."""
import torch


class Compressor:
    """A pair of static functions; write a class like it for other forms."""

    @staticmethod
    def compress(tensor):
        """Returns what is to travel, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        """Returns what arrived in its first form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves the tensor as it is."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


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
