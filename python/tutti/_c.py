"""The C library through ctypes: finds it, checks its version, and declares what is called.

ctypes releases Python's lock during each call, so other Python threads run while one waits.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import sys
import threading
import time
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import List, Tuple

from .errors import TuttiError, error_of

VERSION = "0.1.0"  # of the headers that this package follows; an ABI is that of 0.1
_SONAME = "libtutti.so.0"

OK, AGAIN, INVALID, TIMEOUT, CONTEXT_FAILED, THREAD = 0, 1, -1, -6, -8, -14
FOREVER = 2**63 - 1

# void callback(void *user, tutti_status status, const char *message)
Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
# int allgather(void *user, const void *mine, void *all, size_t bytes)
Allgather = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)


class Options(ctypes.Structure):
    """struct tutti_options."""

    _fields_ = [
        ("size", c_size_t), ("process_set", c_uint32), ("ndim", c_int), ("dims", POINTER(c_int64)),
        ("prescale", c_double), ("postscale", c_double), ("priority", c_int), ("callback", c_void_p),
        ("user", c_void_p), ("stream", c_void_p), ("step", c_int64),
    ]


class TensorDesc(ctypes.Structure):
    """struct tutti_tensor_desc."""

    _fields_ = [
        ("size", c_size_t), ("name", c_char_p), ("collective", c_int), ("count", c_int64), ("dtype", c_int),
        ("op", c_int), ("root", c_int), ("options", POINTER(Options)), ("row_count", c_int64),
        ("rows_of", POINTER(c_int64)), ("recv_rows", POINTER(c_int64)), ("owns_output", c_bool),
    ]


def _candidates() -> List[str]:
    """Where the library may be, in the order in which it is looked for."""
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        return [named]
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", _SONAME)
    found = [inside] if os.path.exists(inside) else []
    # The loader knows LD_LIBRARY_PATH and ld.so.cache; neither may have the prefix of tuttirun or of this Python.
    programs = [os.path.realpath(path) for path in (shutil.which("tuttirun"), sys.executable) if path]
    prefixes = [os.path.dirname(os.path.dirname(program)) for program in programs] + [sys.prefix, "/usr/local"]
    others = [path for prefix in dict.fromkeys(prefixes) for folder in ("lib", "lib64", "lib/*-linux-gnu")
              for path in glob.glob(f"{glob.escape(prefix)}/{folder}/{_SONAME}")]
    return found + [_SONAME] + others


def _advice(tried: List[Tuple[str, str]]) -> str:
    """What to do after these paths and errors of the loader."""
    for path, text in tried:
        missing = os.path.basename(text.split(":")[0])
        if "cannot open shared object" in text and missing not in (_SONAME, os.path.basename(path)):
            return (f"{path} is there, but {missing} is not found, which it needs: install that, or add its folder to "
                    "LD_LIBRARY_PATH")
    return f"Install libtutti, run ldconfig, or set TUTTI_LIBRARY to the path of {_SONAME}"


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        try:
            # MPI loads plug-ins that look for its symbols among the global ones.
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            tried.append((path, str(error)))
    raise ImportError("tutti cannot load its C library. Tried:\n"
                      + "".join(f"  {path}: {text}\n" for path, text in tried) + _advice(tried))


def _check_version(lib: ctypes.CDLL) -> ctypes.CDLL:
    if not hasattr(lib, "tutti_version"):
        raise ImportError(f"{lib._name} is not libtutti; set TUTTI_LIBRARY to the path of {_SONAME}, or unset it")
    lib.tutti_version.restype = c_char_p
    have = lib.tutti_version().decode()
    if have.split(".")[:2] != VERSION.split(".")[:2]:
        raise ImportError(
            f"the Python package tutti {VERSION} needs libtutti {VERSION.rsplit('.', 1)[0]}, but "
            f"{lib._name} is version {have}; install the package of the same version, or "
            "set TUTTI_LIBRARY to another library"
        )
    return lib


lib = _check_version(_load())

_t, _pp, _i64p = c_void_p, POINTER(c_void_p), POINTER(c_int64)
_request = c_void_p  # like options: given as an address or byref(), which is less to convert
_end = (c_void_p, _request)
_moves = (_t, c_char_p, c_void_p, c_void_p)
_rows = (*_moves, c_int64, c_int64, _i64p)

for _result, *_arguments, _names in (
    (c_char_p, "version last_error"),
    (c_bool, c_char_p, "has_feature"),
    (c_size_t, c_int, "dtype_size"),
    (c_char_p, c_int, "dtype_name"),
    (c_int, _pp, "config_create"),
    (None, c_void_p, "config_destroy"),
    (c_int, c_void_p, c_char_p, c_char_p, "config_set"),
    (c_int, _pp, c_void_p, "init"),
    (c_int, _pp, POINTER(c_int), c_int, c_void_p, "init_ranks"),
    (c_int, _pp, c_int, c_int, Allgather, c_void_p, c_void_p, "init_oob"),
    (c_int, "mpi_hold mpi_release"),
    (c_int, _t, "finalize rank size local_rank local_size node node_count group_begin group_end timeline_stop"),
    (c_int, _t, c_char_p, "abort timeline_start"),
    (c_bool, _t, "has_background"),
    (c_int, _t, c_void_p, "free unshare"),
    (c_int, _t, c_void_p, c_size_t, "share"),
    (c_int, _t, POINTER(c_int), c_int, POINTER(c_uint32), "process_set_create"),
    (c_int, _t, c_uint32, "process_set_destroy"),
    (c_int, _t, c_uint32, POINTER(c_int), POINTER(c_int), "process_set_info"),
    (c_int, _t, c_uint32, POINTER(c_int), c_int, "process_set_ranks"),
    (c_int, _t, POINTER(c_uint32), c_int, POINTER(c_int), "process_set_list"),
    (None, POINTER(Options), c_size_t, "options_default_sized"),
    (c_int, _t, _request, c_int64, "wait"),
    (c_int, _t, _request, "test"),
    (c_int, _t, c_size_t, c_void_p, c_int64, c_void_p, "wait_all"),
    (c_int, _t, _request, _pp, _i64p, c_int64, "request_take_output"),
    (c_int, _t, c_uint64, "cancel tensor_unregister"),
    (c_int, *_moves, c_int64, c_int, c_int, *_end, "allreduce_async"),
    (c_int, *_moves, c_int64, c_int, c_int, c_int, *_end, "reduce_async"),
    (c_int, _t, c_char_p, c_void_p, c_int64, c_int, c_int, *_end, "broadcast_async send_async recv_async"),
    (c_int, *_rows, c_int, *_end, "allgather_async"),
    (c_int, *_rows, c_int, c_int, *_end, "reducescatter_async gather_async scatter_async"),
    (c_int, *_rows, _i64p, c_int, *_end, "alltoall_async"),
    (c_int, _t, c_char_p, *_end, "barrier_async"),
    (c_int, _t, c_void_p, POINTER(c_int), _request, "join_async"),
    (c_int64, c_int64, c_int, c_int, _i64p, "part"),
    (c_int, _t, POINTER(TensorDesc), POINTER(c_uint64), "tensor_register"),
    (c_int, _t, c_uint64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, _request, "submit"),
):
    for _name in _names.split():
        _function = getattr(lib, "tutti_" + _name)
        _function.restype, _function.argtypes = _result, _arguments


def last_error() -> str:
    """The message of this thread's last failed call."""
    return lib.tutti_last_error().decode(errors="replace")


interrupted = False  # this rank, by an exception that ends it
_INTERRUPT_S = 1.0  # how much later than another rank this one may be interrupted


def error(status: int) -> TuttiError:
    """The exception of this thread's last failed call."""
    text = last_error()
    if (status == CONTEXT_FAILED and "KeyboardInterrupt" in text and not interrupted
            and threading.current_thread() is threading.main_thread()):
        time.sleep(_INTERRUPT_S)  # Ctrl-C is for all ranks: ours is raised here, instead of what follows from theirs
    return error_of(status, text)


def check(status: int) -> None:
    """Raises the exception of a status that is an error."""
    if status != OK:
        raise error(status)


def int64_array(numbers):
    """A C array of 64-bit numbers; None stays None."""
    return None if numbers is None else (c_int64 * len(numbers))(*numbers)

