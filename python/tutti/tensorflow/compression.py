"""Compression of gradients on their way: pass Compression.fp16 to an operation, a tape or an optimizer."""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

from .._horovod import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Sends floating-point numbers as float16; tutti adds them in float32 and rounds once."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tf.cast(tensor, context)


class Compression:
    """The compressors there are."""

    none = NoneCompressor
    fp16 = FP16Compressor
