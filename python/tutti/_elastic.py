"""State of elastic jobs, through libtutti-trainer: bytes that outlive this process; see docs/trainer/elastic.md."""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Optional

from . import _c, job
from ._horovod import HostsUpdatedInterrupt

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


def run(function: Callable, state: Any, *arguments: Any, **options: Any) -> Any:
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
