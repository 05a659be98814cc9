"""The operation of collective.cpp, which graphs run; compiled when the first graph has a collective."""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from typing import Any

import tensorflow as tf

from .. import job
from .._compile import compiled


@ctypes.CFUNCTYPE(ctypes.c_void_p)
def _context() -> Any:
    """The context of the process; it may be another one each time a graph runs."""
    return job.context().handle.value if job.is_initialized() else None


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """The module with tutti_collective(), or None where it cannot be compiled, which a warning says once."""
    try:
        path = compiled(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "collective.cpp"), tf.__version__,
            lambda: (tf.sysconfig.get_compile_flags(), [], tf.sysconfig.get_link_flags()),
            "tutti cannot compile its operation for graphs of TensorFlow. It needs g++ (or CXX) and the headers of tutti "
            "(libtutti-dev; CPATH tells where, if not in /usr/include or /usr/local/include).")
    except ImportError as error:
        warnings.warn(f"{error}\nA collective of a tf.function holds a thread instead.", RuntimeWarning, stacklevel=2)
        return None
    module = tf.load_op_library(path)
    ctypes.CDLL(path).tutti_tensorflow_start(_context)
    return module
