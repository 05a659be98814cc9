"""Operations in flight: waited for, polled, awaited, or with callbacks."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from concurrent.futures import Future
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any, Callable, List, Optional

from . import _c, errors, tensor

# A wait is made of waits of this length, so that Python sees signals such as Ctrl-C between them.
_SLICE_NS = 100_000_000
_WATCH_NS = 1_000_000  # how long the watcher lends its thread to one of several requests

_wait_all, _test = _c.lib.tutti_wait_all, _c.lib.tutti_test
_NONE = c_uint64()


def may_wait(handle: Any) -> bool:
    """False in an open group, and in a thread that may not wait: no call says how an operation is."""
    return _c.lib.tutti_wait(handle, byref(_NONE), 0) == _c.OK


def is_over(handle: Any, number: c_uint64, status: int) -> bool:
    """Of what a call about a request said: only a final status ends an operation, or that there is none
    (its group was refused). Else its arrays are in use, whatever the call was refused for."""
    if status == _c.OK or not number.value:
        return True
    return status not in (_c.AGAIN, _c.TIMEOUT) and may_wait(handle)


class Request:
    """One operation. Its context keeps the arrays alive until that has finished.

    One thread at a time may wait for it. Results are kept, so it may be waited for again.
    """

    __slots__ = ("_context", "_id", "_status", "_keep", "_output", "_owned", "_error", "_future")

    def __init__(self, context: Any, keep: Any = None, output: Any = None, owned: Any = None):
        self._context = context
        self._id = c_uint64()
        self._status: Optional[c_int] = None  # of the last call: written by C, so that no interrupt loses it
        self._keep = keep
        self._output = output
        self._owned = owned  # makes the output of what the C library allocated
        self._error: Optional[errors.TuttiError] = None
        self._future: Optional[Future] = None
        context._lent[id(self._id)] = self._id, (keep, output, owned)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until the operation has finished and returns its output.

        timeout: seconds; None waits, and Ctrl-C interrupts it.
        Raises WaitTimeoutError (the operation goes on), or the operation's own error.
        """
        if self._future is not None:
            self._wait_watched(timeout)
        elif self._keep is not _DONE:
            self._wait_here(timeout)
        if self._error is not None:
            raise self._error
        return self._output

    result = wait

    def done(self) -> bool:
        """True when it has finished, with or without an error. Does not wait."""
        if self._keep is _DONE:
            return True
        return self._future is None and self._advance(None)

    def exception(self, timeout: Optional[float] = None) -> Optional[errors.TuttiError]:
        """The operation's error, or None; waits as wait() does."""
        try:
            self.wait(timeout)
        except errors.TuttiError as error:
            if error is not self._error:
                raise
        return self._error

    def cancel(self) -> bool:
        """Tries to withdraw it: unless the ranks have agreed on it, it ends with
        CancelledError, on all ranks once all have submitted it. False: it has finished."""
        return self._keep is not _DONE and not _c.lib.tutti_cancel(self._context.handle, self._id)

    def future(self) -> Future:
        """A concurrent.futures.Future of it, completed by a thread of the context."""
        if self._future is None:
            self._future = Future()
        if not self._future.done():  # also after an interrupt in here
            if self._keep is _DONE:
                self._resolve()
            else:
                self._context._watch(self)
        return self._future

    def add_done_callback(self, function: Callable[["Request"], Any]) -> None:
        """Calls function(request) when it has finished, in a thread of the context, or now."""
        self.future().add_done_callback(lambda _: function(self))

    def __await__(self):
        import asyncio

        return asyncio.wrap_future(self.future()).__await__()

    def _wait_here(self, timeout: Optional[float]) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        left = _SLICE_NS
        while True:
            if until is not None:
                left = min(_SLICE_NS, max(0, int((until - time.monotonic()) * 1e9)))
            if self._advance(left):
                return
            if left < _SLICE_NS:
                raise errors.WaitTimeoutError(_c.last_error())

    def _wait_watched(self, timeout: Optional[float]) -> None:
        if not concurrent.futures.wait([self.future()], timeout).done:
            raise errors.WaitTimeoutError(
                f"the operation has not finished after {timeout} s; it goes on")

    def _advance(self, wait_ns: Optional[int]) -> bool:
        """Tests it, or waits. True when it has ended; raises where that is refused."""
        if self._keep is _DONE:
            return True
        handle = self._context.handle
        if self._status is None:
            self._status = c_int(_c.AGAIN)
        if not self._id.value:  # it ended in a call after which an interrupt came
            self._finish(self._status.value)
            return True
        if wait_ns is not None:
            status = _wait_all(handle, 1, byref(self._id), wait_ns, byref(self._status))
        else:
            self._status.value = _c.AGAIN
            self._status.value = status = _test(handle, byref(self._id))
        if is_over(handle, self._id, status):
            self._finish(status)
        elif status not in (_c.AGAIN, _c.TIMEOUT):
            raise _c.error(status)
        return self._keep is _DONE

    def _finish(self, status: int) -> None:
        if status == _c.AGAIN:
            self._error = errors.TuttiError("the operation ended while a call about it was interrupted; "
                                            "whether it failed is not known")
        elif status != _c.OK:
            self._error = _c.error(status)
        elif self._owned is not None:
            self._output = self._owned(self)
        self._keep, self._owned = _DONE, None
        self._context._lent.pop(id(self._id), None)

    def _fail(self, error: errors.TuttiError) -> None:
        self._error, self._keep, self._owned = error, _DONE, None

    def _resolve(self) -> None:
        assert self._future is not None
        if self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._output)

    def __del__(self) -> None:
        # An interrupt may come instead of this. Then the context keeps the arrays until it is closed.
        if self._keep is not _DONE:
            self._context._drop(self._id)


class _Done:
    """In place of what is kept alive: nothing is any more."""


_DONE = _Done()


class RequestGroup:
    """Operations that were submitted together; like a request whose output is a list."""

    def __init__(self, requests: List[Request]):
        self.requests = requests

    def wait(self, timeout: Optional[float] = None) -> List[Any]:
        """Waits for all; raises the first error after all have ended."""
        until = None if timeout is None else time.monotonic() + timeout
        for request in self.requests:
            request.exception(None if until is None else max(0, until - time.monotonic()))
        return [request.wait() for request in self.requests]

    result = wait

    def done(self) -> bool:
        """True when all have finished."""
        return all([request.done() for request in self.requests])

    def __await__(self):
        import asyncio

        return asyncio.gather(
            *[asyncio.wrap_future(request.future()) for request in self.requests]).__await__()


class Watcher:
    """A thread that finishes requests with futures, for one context."""

    def __init__(self, context: Any):
        self._context = context
        self._changed = threading.Condition()
        self._requests: List[Request] = []
        self._stops = False
        self._thread = threading.Thread(target=self._run, name="tutti watcher", daemon=True)
        self._thread.start()

    def add(self, request: Request) -> None:
        with self._changed:
            if request not in self._requests:
                self._requests.append(request)
            self._changed.notify()

    def stop(self) -> List[Request]:
        """Ends the thread; returns what has not finished."""
        with self._changed:
            self._stops = True
            self._changed.notify()
        self._thread.join()
        return self._requests

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._requests and not self._stops:
                    self._changed.wait()
                if self._stops:
                    return
                pending = list(self._requests)
            ended = [request for request in pending if request._advance(None)]
            if not ended and pending[0]._advance(_WATCH_NS):  # runs the engine, and sleeps when there is nothing to do
                ended = pending[:1]
            for request in ended:
                request._resolve()
            with self._changed:
                self._requests = [r for r in self._requests if r not in ended]


def take_output(array: Any, found: tensor.Tensor, ranks: int, with_rows: bool) -> Callable:
    """What makes the output of a request whose output the C library allocated."""

    address, rows_of, outputs = c_void_p(), (_c.c_int64 * ranks)(), []  # after an interrupt it is called again

    def take(request: Request) -> Any:
        handle = request._context.handle
        if request._id.value:
            _c.check(_c.lib.tutti_request_take_output(
                handle, byref(request._id), byref(address), rows_of, 0))
        if not outputs:
            output = tensor.empty_like(array, (sum(rows_of), *found.shape[1:]), found)
            target = tensor.as_tensor(output, dtype=found.dtype)
            _c.ctypes.memmove(target.address, address, target.count * tensor.size_of(found.dtype))
            outputs.append((output, list(rows_of)) if with_rows else output)
        _c.check(_c.lib.tutti_free(handle, address))
        address.value = None
        return outputs[0]

    return take
