"""The C library through ctypes: finds it, checks its version, and declares what is called.

ctypes releases Python's lock during each call, so other Python threads run while one waits.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p
from typing import List

from .errors import error_of

VERSION = "0.1.0"  # of the headers that this package follows; an ABI is that of 0.1
_SONAME = "libtutti.so.0"

OK, AGAIN, TIMEOUT = 0, 1, -6
FOREVER = 2**63 - 1

# void callback(void *user, tutti_status status, const char *message)
Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Options(ctypes.Structure):
    """struct tutti_options."""

    _fields_ = [
        ("size", c_size_t),
        ("process_set", c_uint32),
        ("ndim", c_int),
        ("dims", POINTER(c_int64)),
        ("prescale", c_double),
        ("postscale", c_double),
        ("priority", c_int),
        ("callback", c_void_p),
        ("user", c_void_p),
        ("stream", c_void_p),
        ("step", c_int64),
    ]


class TensorDesc(ctypes.Structure):
    """struct tutti_tensor_desc."""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("collective", c_int),
        ("count", c_int64),
        ("dtype", c_int),
        ("op", c_int),
        ("root", c_int),
        ("options", POINTER(Options)),
        ("row_count", c_int64),
        ("rows_of", POINTER(c_int64)),
        ("recv_rows", POINTER(c_int64)),
        ("owns_output", c_bool),
    ]


def _candidates() -> List[str]:
    """Where the library may be, in the order in which it is looked for."""
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        return [named]
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", _SONAME)
    found = [inside] if os.path.exists(inside) else []
    # The loader knows LD_LIBRARY_PATH and ld.so.cache; /usr/local/lib may be in neither.
    return found + [_SONAME, "/usr/local/lib/" + _SONAME]


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        try:
            # MPI loads plug-ins that look for its symbols among the global ones.
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            tried.append(f"  {path}: {error}")
    raise ImportError(
        "tutti cannot load its C library. Tried:\n" + "\n".join(tried) + "\n"
        "Install libtutti, run ldconfig, or set TUTTI_LIBRARY to the path of " + _SONAME
    )


lib = _load()

_t, _pp, _i64p = c_void_p, POINTER(c_void_p), POINTER(c_int64)
_options, _request = c_void_p, c_void_p  # given as addresses or byref(): less to convert
_named = (_t, c_char_p)
_rows = (c_int64, c_int64, _i64p)
_end = (_options, _request)

_SIGNATURES = {
    "tutti_version": (c_char_p,),
    "tutti_has_feature": (c_bool, c_char_p),
    "tutti_last_error": (c_char_p,),
    "tutti_dtype_size": (c_size_t, c_int),
    "tutti_dtype_name": (c_char_p, c_int),
    "tutti_config_create": (c_int, _pp),
    "tutti_config_destroy": (None, c_void_p),
    "tutti_config_set": (c_int, c_void_p, c_char_p, c_char_p),
    "tutti_init": (c_int, _pp, c_void_p),
    "tutti_finalize": (c_int, _t),
    "tutti_mpi_hold": (c_int,),
    "tutti_mpi_release": (c_int,),
    "tutti_abort": (c_int, _t, c_char_p),
    "tutti_rank": (c_int, _t),
    "tutti_size": (c_int, _t),
    "tutti_local_rank": (c_int, _t),
    "tutti_local_size": (c_int, _t),
    "tutti_node": (c_int, _t),
    "tutti_node_count": (c_int, _t),
    "tutti_has_background": (c_bool, _t),
    "tutti_alloc": (c_int, _t, c_size_t, c_int, _pp),
    "tutti_free": (c_int, _t, c_void_p),
    "tutti_share": (c_int, _t, c_void_p, c_size_t),
    "tutti_unshare": (c_int, _t, c_void_p),
    "tutti_process_set_create": (c_int, _t, POINTER(c_int), c_int, POINTER(c_uint32)),
    "tutti_process_set_destroy": (c_int, _t, c_uint32),
    "tutti_process_set_info": (c_int, _t, c_uint32, POINTER(c_int), POINTER(c_int)),
    "tutti_options_default_sized": (None, POINTER(Options), c_size_t),
    "tutti_wait": (c_int, _t, _request, c_int64),
    "tutti_test": (c_int, _t, _request),
    "tutti_wait_all": (c_int, _t, c_size_t, c_void_p, c_int64, c_void_p),
    "tutti_request_take_output": (c_int, _t, _request, _pp, _i64p, c_int64),
    "tutti_cancel": (c_int, _t, c_uint64),
    "tutti_allreduce_async": (c_int, *_named, c_void_p, c_void_p, c_int64, c_int, c_int, *_end),
    "tutti_broadcast_async": (c_int, *_named, c_void_p, c_int64, c_int, c_int, *_end),
    "tutti_reduce_async": (
        c_int, *_named, c_void_p, c_void_p, c_int64, c_int, c_int, c_int, *_end),
    "tutti_reducescatter_async": (
        c_int, *_named, c_void_p, c_void_p, *_rows, c_int, c_int, *_end),
    "tutti_allgather_async": (c_int, *_named, c_void_p, c_void_p, *_rows, c_int, *_end),
    "tutti_alltoall_async": (c_int, *_named, c_void_p, c_void_p, *_rows, _i64p, c_int, *_end),
    "tutti_gather_async": (c_int, *_named, c_void_p, c_void_p, *_rows, c_int, c_int, *_end),
    "tutti_scatter_async": (c_int, *_named, c_void_p, c_void_p, *_rows, c_int, c_int, *_end),
    "tutti_barrier_async": (c_int, *_named, *_end),
    "tutti_join_async": (c_int, _t, _options, POINTER(c_int), _request),
    "tutti_part": (c_int64, c_int64, c_int, c_int, _i64p),
    "tutti_tensor_register": (c_int, _t, POINTER(TensorDesc), POINTER(c_uint64)),
    "tutti_tensor_unregister": (c_int, _t, c_uint64),
    "tutti_submit": (
        c_int, _t, c_uint64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, _request),
    "tutti_group_begin": (c_int, _t),
    "tutti_group_end": (c_int, _t),
    "tutti_timeline_start": (c_int, _t, c_char_p),
    "tutti_timeline_stop": (c_int, _t),
}

for _name, (_result, *_arguments) in _SIGNATURES.items():
    _function = getattr(lib, _name)
    _function.restype = _result
    _function.argtypes = _arguments


def _check_version() -> None:
    have = lib.tutti_version().decode()
    if have.split(".")[:2] != VERSION.split(".")[:2]:
        raise ImportError(
            f"the Python package tutti {VERSION} needs libtutti {VERSION.rsplit('.', 1)[0]}, but "
            f"{lib._name} is version {have}; install the package of the same version, or "
            "set TUTTI_LIBRARY to another library"
        )


_check_version()


def last_error() -> str:
    """The message of this thread's last failed call."""
    return lib.tutti_last_error().decode(errors="replace")


def check(status: int) -> None:
    """Raises the exception of a status that is an error."""
    if status != OK:
        raise error_of(status, last_error())


def int64_array(numbers):
    """A C array of 64-bit numbers; None stays None."""
    return None if numbers is None else (c_int64 * len(numbers))(*numbers)


__all__ = ["lib", "check", "last_error", "byref", "Options", "TensorDesc", "Callback"]
