"""Exceptions: one class for each status of the C library that is an error."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Type


class TuttiError(RuntimeError):
    """A call or an operation failed.

    ``status`` is the number of the C library's status, ``name`` its symbol, and ``text`` the message: what failed,
    its value, the ranks concerned and what to do.
    """

    status, name = 0, "TUTTI_OK"
    _classes: ClassVar[Dict[int, Type["TuttiError"]]] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._classes.setdefault(cls.status, cls)


def error_of(status: int, text: str) -> TuttiError:
    """The exception for a status, with its message."""
    return TuttiError._classes.get(status, TuttiError)(text)


class InvalidError(TuttiError, ValueError):
    """An argument is not valid; nothing happened."""

    status, name = -1, "TUTTI_ERR_INVALID"


class NoMemoryError(TuttiError, MemoryError):
    """Memory ran out."""

    status, name = -2, "TUTTI_ERR_NO_MEMORY"


class DuplicateError(TuttiError, ValueError):
    """A tensor of this name is already in flight."""

    status, name = -3, "TUTTI_ERR_DUPLICATE"


class MismatchError(TuttiError):
    """Ranks asked for different things under one name."""

    status, name = -4, "TUTTI_ERR_MISMATCH"


class UnsupportedError(TuttiError, NotImplementedError):
    """What was asked for is not supported."""

    status, name = -5, "TUTTI_ERR_UNSUPPORTED"


class WaitTimeoutError(TuttiError, TimeoutError):
    """The operation is not finished; it goes on and still uses its arrays."""

    status, name = -6, "TUTTI_ERR_TIMEOUT"


class CancelledError(TuttiError):
    """The operation was cancelled."""

    status, name = -7, "TUTTI_ERR_CANCELLED"


class ContextFailedError(TuttiError):
    """A rank died or aborted; every operation of this context fails from now on."""

    status, name = -8, "TUTTI_ERR_CONTEXT_FAILED"


class FinalizedError(TuttiError):
    """A rank has closed its context, or this one is closed."""

    status, name = -9, "TUTTI_ERR_FINALIZED"


class ConfigError(TuttiError, ValueError):
    """A parameter or an environment variable has a bad value."""

    status, name = -10, "TUTTI_ERR_CONFIG"


class SystemCallError(TuttiError):
    """A system call failed."""

    status, name = -11, "TUTTI_ERR_SYSTEM"


class MpiError(TuttiError):
    """An MPI call failed, or MPI was finalized already."""

    status, name = -12, "TUTTI_ERR_MPI"


class ProtocolError(TuttiError):
    """A malformed or unexpected message arrived."""

    status, name = -13, "TUTTI_ERR_PROTOCOL"


class ThreadError(TuttiError):
    """The call was made by a thread that may not make it."""

    status, name = -14, "TUTTI_ERR_THREAD"


class InternalError(TuttiError):
    """A defect of tutti."""

    status, name = -15, "TUTTI_ERR_INTERNAL"
