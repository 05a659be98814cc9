"""Arrays as the C library sees them: an address, a type of elements and a shape; no copies."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _c
from .errors import InvalidError

try:
    import numpy
except ImportError:  # results are then memoryviews
    numpy = None  # type: ignore[assignment]


def _dtypes() -> Dict[str, int]:
    names: Dict[str, int] = {}
    while (name := _c.lib.tutti_dtype_name(len(names)).decode()) != "unknown dtype":
        names[name] = len(names)
    return names


DTYPES = _dtypes()  # "float32": 10, ...; the numbers are the C library's
_NAMES = list(DTYPES)
_BYTES = [_c.lib.tutti_dtype_size(number) for number in range(len(_NAMES))]
# What others call them.
_OTHER_NAMES = {
    "float8_e4m3fn": "float8_e4m3", "half": "float16", "float": "float32", "double": "float64",
    "short": "int16", "int": "int32", "long": "int64",
}
# Of array interfaces and of the buffer protocol, by kind and size.
_KINDS = {
    **{f"{kind}{size}": DTYPES[f"{word}{8 * size}"]
       for kind, word in (("i", "int"), ("u", "uint")) for size in (1, 2, 4, 8)},
    "f2": DTYPES["float16"], "f4": DTYPES["float32"], "f8": DTYPES["float64"],
    "b1": DTYPES["bool"],
}
_FORMATS = {
    **{code: "i" for code in "bhilqn"}, **{code: "u" for code in "BHILQN"},
    **{code: "f" for code in "efd"}, "?": "b",
}
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
_DLPACK_BFLOAT, _DLPACK_CPU = 4, 1
_DEVICE_HINT = "copy it to the CPU, or give its address to Context.submit_raw()"


class Tensor(NamedTuple):
    """Memory of an array; ``owner`` keeps it alive.

    Accepted wherever an array is, and so a way to say what other objects are: NumPy has no
    bfloat16, so ``tutti.as_tensor(bits, dtype="bfloat16")`` reads an array of uint16 as bfloat16.
    """

    address: int
    dtype: int
    shape: Tuple[int, ...]
    owner: Any

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """The first dimension."""
        if not self.shape:
            raise InvalidError("a tensor without dimensions has no rows; reshape it to (1,)")
        return self.shape[0]

    @property
    def row_count(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape[1:])


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.POINTER(_DLTensor)


def dtype_of(name: Any) -> int:
    """The number of a type of elements: of a name, or of an object that prints as one."""
    text = str(getattr(name, "name", name)).rsplit(".", 1)[-1]
    number = DTYPES.get(_OTHER_NAMES.get(text, text))
    if number is None:
        raise InvalidError(f"tutti has no type of elements '{text}'; it has " + ", ".join(DTYPES))
    return number


def dtype_name(number: int) -> str:
    """The name of a type of elements, as ``dtype_of()`` takes it."""
    return _NAMES[number]


def _is_dense(shape, strides, itemsize: int) -> bool:
    """True without gaps between elements, in C's order; dimensions of 1 may have any stride."""
    if 0 in shape:
        return True
    step = itemsize
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _refuse_gaps(array: Any) -> None:
    raise InvalidError(
        f"this {type(array).__name__} is not contiguous; copy it first, with "
        "numpy.ascontiguousarray() or its method contiguous()"
    )


def _refuse_read_only(array: Any) -> None:
    raise InvalidError(
        f"this {type(array).__name__} would be written, and is read-only; give another output"
    )


def _of_torch(array: Any, _writable: bool) -> Tensor:
    if array.device.type != "cpu":
        raise InvalidError(f"this tensor is on the device {array.device}; {_DEVICE_HINT}")
    if not array.is_contiguous():
        _refuse_gaps(array)
    return Tensor(array.data_ptr(), dtype_of(array.dtype), tuple(array.shape), array)


def _of_interface(array: Any, writable: bool) -> Tensor:
    interface = array.__array_interface__
    typestr, shape = interface["typestr"], interface["shape"]
    address, read_only = interface["data"]
    dtype = _KINDS.get(typestr[1:])
    if dtype is None or typestr[0] == ">":  # such as bfloat16 of ml_dtypes, which is '<V2'
        dtype = dtype_of(typestr if typestr[0] == ">" else getattr(array, "dtype", typestr))
    strides = interface.get("strides")
    if strides is not None and not _is_dense(shape, strides, _BYTES[dtype]):
        _refuse_gaps(array)
    if writable and read_only:
        _refuse_read_only(array)
    return Tensor(address, dtype, shape, array)


def _of_buffer(array: Any, writable: bool) -> Tensor:
    view = memoryview(array)
    if not view.c_contiguous:
        _refuse_gaps(array)
    if writable and view.readonly:
        _refuse_read_only(array)
    code = view.format.lstrip("@=<")
    dtype = _KINDS.get(f"{_FORMATS.get(code)}{view.itemsize}")
    if dtype is None:
        raise InvalidError(
            f"tutti has no type of elements for the buffer format '{view.format}' of this "
            f"{type(array).__name__}"
        )
    buffer = _Buffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    address = buffer.buf or 0
    _release_buffer(ctypes.byref(buffer))
    return Tensor(address, dtype, view.shape, view)  # the view keeps the memory where it is


def _of_dlpack(array: Any, writable: bool) -> Tensor:
    if writable:
        raise InvalidError(
            f"this {type(array).__name__} offers its memory by DLPack alone, which does not say "
            "whether it may be written; give a NumPy array or a torch tensor as output"
        )
    capsule = array.__dlpack__()
    dl = _capsule_pointer(capsule, b"dltensor").contents
    shape = tuple(dl.shape[:dl.ndim])
    if dl.device != _DLPACK_CPU:
        raise InvalidError(f"this {type(array).__name__} is not in host memory; {_DEVICE_HINT}")
    if dl.strides and not _is_dense(shape, dl.strides[:dl.ndim], 1):
        _refuse_gaps(array)
    if dl.code == _DLPACK_BFLOAT:
        dtype: Optional[int] = DTYPES["bfloat16"]
    else:
        dtype = _KINDS.get(f"{_DLPACK_KINDS.get(dl.code)}{dl.bits // 8}")
    if dtype is None or dl.lanes != 1:
        raise InvalidError(f"tutti has no type of elements for DLPack's {dl.code}, {dl.bits} bits")
    return Tensor((dl.data or 0) + dl.offset, dtype, shape, (array, capsule))


def as_tensor(array: Any, *, writable: bool = False, dtype: Any = None) -> Tensor:
    """The memory of an array, without a copy.

    array: anything with ``__array_interface__`` (NumPy), a torch tensor, anything with the
    buffer protocol (bytearray, array.array, memoryview, TensorFlow, JAX) or with DLPack.
    writable: refuse memory that must not be written.
    dtype: reads the elements as this type of the same size, such as "bfloat16".
    Raises InvalidError: not contiguous, read-only, not in host memory, or of an unknown type.
    """
    if type(array) is Tensor:
        found = array
    elif hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
        found = _of_torch(array, writable)
    elif hasattr(array, "__array_interface__"):
        found = _of_interface(array, writable)
    else:
        found = _of_protocol(array, writable)
    if dtype is None:
        return found
    number = dtype if isinstance(dtype, int) else dtype_of(dtype)
    if _BYTES[number] != _BYTES[found.dtype]:
        raise InvalidError(f"{_NAMES[found.dtype]} cannot be read as {_NAMES[number]}: the sizes differ")
    return found._replace(dtype=number)


def _of_protocol(array: Any, writable: bool) -> Tensor:
    try:
        memoryview(array)
    except (TypeError, ValueError, BufferError):
        if hasattr(array, "__dlpack__"):
            return _of_dlpack(array, writable)
        raise InvalidError(
            f"{type(array).__name__} is no array: it has neither the buffer protocol nor "
            "__array_interface__ nor DLPack; numpy.asarray() makes one"
        ) from None
    return _of_buffer(array, writable)


def size_of(dtype: int) -> int:
    """Bytes of an element."""
    return _BYTES[dtype]


def empty(shape: Tuple[int, ...], dtype: int) -> Any:
    """New memory: a NumPy array, or a memoryview without NumPy. bfloat16 and float8, and
    float16 without NumPy, are unsigned numbers of the same size."""
    bits = {1: "B", 2: "H"}.get(_BYTES[dtype], "B")
    if numpy is not None:
        return numpy.empty(shape, _NUMPY_TYPES.get(dtype, f"u{_BYTES[dtype]}"))
    view = memoryview(bytearray(math.prod(shape) * _BYTES[dtype]))
    code = _CODES.get(dtype, bits)
    return view.cast(code) if 0 in shape or not shape else view.cast(code, shape)


_NUMPY_TYPES = {number: kind for kind, number in _KINDS.items()}
_CODES = {  # of memoryview, which does not know float16
    _KINDS[_FORMATS[code] + str(struct.calcsize(code))]: code for code in "bhiqBHIQfd?"
}


def empty_like(array: Any, shape: Optional[Tuple[int, ...]], found: Tensor) -> Any:
    """New memory of the kind of an array, of another shape or the same."""
    shape = found.shape if shape is None else shape
    if hasattr(array, "new_empty"):
        return array.new_empty(shape)
    if numpy is not None and isinstance(array, numpy.ndarray):
        return numpy.empty(shape, array.dtype)
    return empty(shape, found.dtype)
