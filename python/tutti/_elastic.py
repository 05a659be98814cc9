"""State of elastic jobs, through libtutti-trainer: bytes that outlive this process; see docs/trainer/elastic.md."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Iterable, List, Optional, Tuple

from . import _c, errors, job
from ._horovod import HostsUpdatedInterrupt, broadcast_object, map_leaves

_SONAME = "libtutti-trainer.so.0"
_SIGNATURES = {
    "tutti_state_create": (c_int, c_void_p, POINTER(c_void_p)),
    "tutti_state_destroy": (None, c_void_p),
    "tutti_state_register": (c_int, c_void_p, c_void_p, c_size_t, c_char_p),
    "tutti_state_commit": (c_int, c_void_p),
    "tutti_state_restore": (c_int, c_void_p, POINTER(c_uint64)),
    "tutti_state_sync": (c_int, c_void_p),
    "tutti_check_hosts": (c_int, c_void_p),
    "tutti_state_generation": (c_uint32, c_void_p),
}
_HEAD = 8  # the number of bytes of the description, in front of it
_OTHER = 1 << 20  # room for what is no tensor
EXIT_AGAIN = 75  # what tuttirun is told when the program is to be started anew

_library: Optional[ctypes.CDLL] = None


def _trainer() -> ctypes.CDLL:
    """libtutti-trainer, from where libtutti is."""
    global _library
    if _library is None:
        path = os.path.join(os.path.dirname(_c.lib._name), _SONAME)
        try:
            _library = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(f"elastic state needs {_SONAME} beside {_c.lib._name}: {error}") from None
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(_library, name)
            function.restype, function.argtypes = result, arguments
    return _library


class Kept:
    """Bytes, equal on all ranks, that commit() keeps in the memory of the hosts. Calls are collective."""

    def __init__(self, address: int, size: int):
        self._state, self._lib = c_void_p(), _trainer()
        _c.check(self._lib.tutti_state_create(job.context().handle, byref(self._state)))
        _c.check(self._lib.tutti_state_register(self._state, address, size, b"python"))

    def commit(self) -> None:
        """Keeps the bytes as they are; raises HostsUpdatedInterrupt if the job is to be started anew."""
        self._look(self._lib.tutti_state_commit(self._state))

    def check_hosts(self) -> None:
        """Raises HostsUpdatedInterrupt as commit() does, and keeps nothing."""
        self._look(self._lib.tutti_check_hosts(self._state))

    def _look(self, status: int) -> None:
        if status == _c.AGAIN:
            raise HostsUpdatedInterrupt("the hosts have changed, or the job is to leave: it goes on in new processes")
        _c.check(status)

    def restore(self) -> bool:
        """Fills the bytes with what was committed last; False: nothing was."""
        number = c_uint64()
        _c.check(self._lib.tutti_state_restore(self._state, byref(number)))
        return number.value != 0

    def sync(self) -> None:
        """restore(), or, where nothing was committed, what rank 0 has."""
        _c.check(self._lib.tutti_state_sync(self._state))

    @property
    def generation(self) -> int:
        """How often the job was started, from 1."""
        return self._lib.tutti_state_generation(self._state)

    def close(self) -> None:
        """Frees it; what was committed stays until the job ends."""
        self._lib.tutti_state_destroy(self._state)


def rounded(size: int) -> int:
    """What a tensor of so many bytes takes in a state."""
    return -(-size // 64) * 64


class _Part:
    """Stands for a tensor in the description of a state."""

    def __init__(self, tensor: Any, at: int, size: int):
        self.shape, self.dtype, self.at, self.size = tuple(tensor.shape), tensor.dtype, at, size


class State:
    """What a training goes on from, as attributes; the states of the front ends are made from it.

    sizes: bytes of the tensors that there will be at most. capacity: bytes for all, instead of sizes and 1 MiB; equal in
    each start of the program.
    """

    def __init__(self, sizes: Iterable[int], capacity: Optional[int], values: dict):
        self._names = list(values)
        for name, value in values.items():
            setattr(self, name, value)
        self._reset_callbacks: List[Callable] = []
        self._memory = bytearray(_OTHER + sum(map(rounded, sizes)) if capacity is None else capacity)
        self._kept: Any = None
        self._is_saved = False  # since the start of this process
        self._write(*self._plan())

    @staticmethod
    def _flat(leaf: Any) -> Any:
        """The bytes of a tensor as an array of NumPy, in its own memory where it has such; None: it is no tensor."""
        raise NotImplementedError

    @staticmethod
    def _empty(shape: Any, dtype: Any) -> Any:
        """A new tensor in the memory of the host."""
        raise NotImplementedError

    def _get(self, name: str) -> Any:
        """What is to be kept of an attribute: nested dicts, lists and tuples of tensors and what can be pickled."""
        return getattr(self, name)

    def _set(self, name: str, value: Any) -> None:
        """Sets an attribute to what _get() gave."""
        setattr(self, name, value)

    def _keeper(self) -> Kept:
        if self._kept is None:
            size = len(self._memory)
            self._kept = Kept(ctypes.addressof((ctypes.c_char * size).from_buffer(self._memory)), size)
        return self._kept

    def _plan(self) -> Tuple[bytes, List[Any]]:
        """A description of the attributes, and the tensors in it with their places."""
        parts: List[Any] = []
        end = 0

        def place(leaf: Any) -> Any:
            nonlocal end
            flat = self._flat(leaf)
            if flat is None:
                return leaf
            parts.append((end, flat))
            end += rounded(len(flat))
            return _Part(leaf, parts[-1][0], len(flat))

        return pickle.dumps(map_leaves({name: self._get(name) for name in self._names}, place)), parts

    def save(self) -> None:
        """Writes the attributes into the memory that commit() keeps: a description, that of rank 0, and tensors.
        Collective."""
        text, parts = self._plan()
        self._write(broadcast_object(text, 0, "elastic_state"), parts)
        self._is_saved = True

    def _write(self, text: bytes, parts: List[Any]) -> None:
        begin = rounded(_HEAD + len(text))
        end = sum(rounded(len(flat)) for _, flat in parts)
        if begin + end > len(self._memory):
            raise errors.NoMemoryError(
                f"the state takes {begin + end} bytes, and there is room for {len(self._memory)}; give "
                f"{type(self).__name__} a larger capacity")
        memory = memoryview(self._memory)
        memory[:_HEAD] = len(text).to_bytes(_HEAD, "little")
        memory[_HEAD:_HEAD + len(text)] = text
        for at, flat in parts:
            memory[begin + at:begin + at + len(flat)] = memoryview(flat)

    def _load(self) -> None:
        """Sets the attributes to what is in the memory."""
        memory = memoryview(self._memory)
        length = int.from_bytes(memory[:_HEAD], "little")
        begin = rounded(_HEAD + length)

        def fill(leaf: Any) -> Any:
            if not isinstance(leaf, _Part):
                return leaf
            tensor = self._empty(leaf.shape, leaf.dtype)
            self._flat(tensor)[:] = memory[begin + leaf.at:begin + leaf.at + leaf.size]
            return tensor

        for name, value in map_leaves(pickle.loads(memory[_HEAD:_HEAD + length]), fill).items():
            self._set(name, value)

    def commit(self) -> None:
        """Keeps the attributes; the job goes on from here if a rank dies. Collective. Raises HostsUpdatedInterrupt if
        the job is to be started anew, which run() sees to."""
        self.save()
        self._keeper().commit()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt as commit() does, and keeps nothing. Collective."""
        self._keeper().check_hosts()

    def restore(self) -> None:
        """Sets the attributes to what was committed, synced or saved last, or else to what they were at first.
        Collective."""
        if not self._is_saved:
            self._keeper().restore()
        self._load()

    def sync(self) -> None:
        """restore(), or, if nothing was committed, gives all ranks what rank 0 has. Collective."""
        self.save()
        self._keeper().sync()
        self._load()

    def register_reset_callbacks(self, callbacks: Iterable[Callable]) -> None:
        """Functions to call when the job has been started anew, for example to scale the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls them."""
        for callback in self._reset_callbacks:
            callback()

    @property
    def generation(self) -> int:
        """How often the job was started, from 1."""
        return self._keeper().generation

    def close(self) -> None:
        """Frees the state, before shutdown()."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def run(function: Callable) -> Callable:
    """Makes a function of a state one that begins with what was committed last."""
    return functools.wraps(function)(functools.partial(_run, function))


def _run(function: Callable, state: Any, *arguments: Any, **options: Any) -> Any:
    """state.sync(), then function(state, ...). When the hosts change, the process ends with the status that makes
    tuttirun start the program anew; when a rank dies, by the exception of the operation that failed."""
    try:
        state.sync()
        if state.generation > 1:
            state.on_reset()
        return function(state, *arguments, **options)
    except HostsUpdatedInterrupt:
        state.close()
        job.shutdown()
        sys.stdout.flush()
        sys.exit(EXIT_AGAIN)
