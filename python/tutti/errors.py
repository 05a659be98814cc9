"""Exceptions: one class for each status of the C library that is an error."""

from __future__ import annotations

from typing import Dict, Type


class TuttiError(RuntimeError):
    """A call or an operation failed.

    ``status`` is the number of the C library's status, ``name`` its symbol, and ``text`` the
    message: what failed, its value, the ranks concerned and what to do.
    """

    status = 0
    name = "TUTTI_OK"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class InvalidError(TuttiError, ValueError):
    """An argument is not valid; nothing happened."""


class NoMemoryError(TuttiError, MemoryError):
    """Memory ran out."""


class DuplicateError(TuttiError):
    """A tensor of this name is already in flight."""


class MismatchError(TuttiError):
    """Ranks asked for different things under one name."""


class UnsupportedError(TuttiError, NotImplementedError):
    """What was asked for is not supported."""


class WaitTimeoutError(TuttiError, TimeoutError):
    """The operation is not finished; it goes on and still uses its arrays."""


class CancelledError(TuttiError):
    """The operation was cancelled."""


class ContextFailedError(TuttiError):
    """A rank died or aborted; every operation of this context fails from now on."""


class FinalizedError(TuttiError):
    """A rank has closed its context, or this one is closed."""


class ConfigError(TuttiError, ValueError):
    """A parameter or an environment variable has a bad value."""


class SystemCallError(TuttiError):
    """A system call failed."""


class MpiError(TuttiError):
    """An MPI call failed, or MPI was finalized already."""


class ProtocolError(TuttiError):
    """A malformed or unexpected message arrived."""


class ThreadError(TuttiError):
    """The call was made by a thread that may not make it."""


class InternalError(TuttiError):
    """A defect of tutti."""


_CLASSES: Dict[int, Type[TuttiError]] = {}
for _status, _name, _class in (
    (-1, "TUTTI_ERR_INVALID", InvalidError),
    (-2, "TUTTI_ERR_NO_MEMORY", NoMemoryError),
    (-3, "TUTTI_ERR_DUPLICATE", DuplicateError),
    (-4, "TUTTI_ERR_MISMATCH", MismatchError),
    (-5, "TUTTI_ERR_UNSUPPORTED", UnsupportedError),
    (-6, "TUTTI_ERR_TIMEOUT", WaitTimeoutError),
    (-7, "TUTTI_ERR_CANCELLED", CancelledError),
    (-8, "TUTTI_ERR_CONTEXT_FAILED", ContextFailedError),
    (-9, "TUTTI_ERR_FINALIZED", FinalizedError),
    (-10, "TUTTI_ERR_CONFIG", ConfigError),
    (-11, "TUTTI_ERR_SYSTEM", SystemCallError),
    (-12, "TUTTI_ERR_MPI", MpiError),
    (-13, "TUTTI_ERR_PROTOCOL", ProtocolError),
    (-14, "TUTTI_ERR_THREAD", ThreadError),
    (-15, "TUTTI_ERR_INTERNAL", InternalError),
):
    _class.status, _class.name = _status, _name
    _CLASSES[_status] = _class


def error_of(status: int, text: str) -> TuttiError:
    """The exception for a status, with its message."""
    return _CLASSES.get(status, TuttiError)(text)
