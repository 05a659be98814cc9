"""Contexts: a rank's membership of a job, and its collectives."""

from __future__ import annotations

import atexit
import ctypes
import enum
import functools
import sys
import threading
import traceback
from contextlib import contextmanager
from ctypes import byref, c_int, c_int64, c_uint32, c_uint64, c_void_p, cast, sizeof
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence
from typing import Tuple, Union

from . import _c, errors, tensor
from .request import Request, RequestGroup, Watcher, is_over, may_wait, take_output

if TYPE_CHECKING:
    from typing import ParamSpec

    _P = ParamSpec("_P")

_lib, _check = _c.lib, _c.check

# Calls without a name are named by their number, which begins anew: names that come again are
# announced by number, and the C library keeps room for as many.
_AUTOMATIC_NAMES = 1024


class ReduceOp(enum.IntEnum):
    """Reductions; AVERAGE divides by the ranks that contribute, SET_AVERAGE by the size of the set, integers in 64 bits."""

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3
    PRODUCT = 4
    SET_AVERAGE = 5


SUM, AVERAGE, MIN, MAX, PRODUCT, SET_AVERAGE = ReduceOp


class ProcessSet:
    """Some of the ranks, in the order in which they were listed; see Context.process_set()."""

    def __init__(self, context: "Context", handle: int, ranks: Sequence[int]):
        self.context, self.handle, self.ranks = context, handle, list(ranks)

    @property
    def size(self) -> int:
        """Number of its ranks."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """This rank's index in it, or -1."""
        return self.ranks.index(self.context.rank) if self.included else -1

    @property
    def included(self) -> bool:
        """True if this rank is a member."""
        return self.context.rank in self.ranks

    def close(self) -> None:
        """Removes it. Collective over all ranks; nothing of it may be in flight."""
        _check(_lib.tutti_process_set_destroy(self.context.handle, self.handle))
        self.context._sets.pop(self.handle, None)


Set = Union[ProcessSet, int, None]

# Every operation by name, with one list of arguments: t, name, input, output, rows or count,
# elements of a row, rows_of or send_rows, recv_rows, dtype, reduction, root, options, request.
_ASYNC: Dict[str, Callable] = {
    "allreduce": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_allreduce_async(t, name, i, o, n, d, op, opt, r),
    "broadcast": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_broadcast_async(t, name, o, n, d, root, opt, r),
    "barrier": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_barrier_async(t, name, opt, r),
    "allgather": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_allgather_async(t, name, i, o, n, c, rows, d, opt, r),
    "reducescatter": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_reducescatter_async(t, name, i, o, n, c, rows, d, op, opt, r),
    "alltoall": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_alltoall_async(t, name, i, o, n, c, rows, recv, d, opt, r),
    "reduce": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_reduce_async(t, name, i, o, n, d, op, root, opt, r),
    "gather": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_gather_async(t, name, i, o, n, c, rows, d, root, opt, r),
    "scatter": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_scatter_async(t, name, i, o, n, c, rows, d, root, opt, r),
    "send": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_send_async(t, name, i, n, d, root, opt, r),
    "recv": lambda t, name, i, o, n, c, rows, recv, d, op, root, opt, r:
        _lib.tutti_recv_async(t, name, o, n, d, root, opt, r),
}
_COLLECTIVES = list(_ASYNC)  # in the order of tutti_collective, then what cannot be registered


def _new_options(
    process_set: int, shape: Optional[Tuple[int, ...]], prescale: float, postscale: float
) -> _c.Options:
    options = _c.Options()
    _lib.tutti_options_default_sized(byref(options), sizeof(options))
    options.process_set, options.prescale, options.postscale = process_set, prescale, postscale
    if shape:
        options.ndim, options.dims = len(shape), (c_int64 * len(shape))(*shape)
    return options


_options = functools.lru_cache(maxsize=4096)(_new_options)  # the C library copies them: one may serve many

# Callbacks of C by a number, so that a late one finds nothing rather than freed memory.
_callbacks: Dict[int, Tuple[Callable, Any]] = {}
_callback_lock = threading.Lock()
_callback_number = 0


@_c.Callback
def _on_completion(number, status, message):
    function, _keep = _callbacks.pop(number)
    function(None if status == _c.OK else errors.error_of(status, message.decode("utf-8", "replace")))


def _add_callback(function: Callable, keep: Any) -> int:
    global _callback_number
    with _callback_lock:
        _callback_number += 1
        _callbacks[_callback_number] = (function, keep)
        return _callback_number


_open: List["Context"] = []  # in order: closing is collective
_show_exception: Optional[Callable] = None  # what sys.excepthook was


def _on_exception(kind: Any, value: Any, trace: Any) -> None:
    """An exception ends the program (unless somebody types it): the other ranks are told of it at once."""
    if not sys.flags.inspect and not hasattr(sys, "ps1"):
        for context in list(_open):
            context._blame(kind, value)
    _show_exception(kind, value, trace)  # type: ignore[misc]


@atexit.register
def _end() -> None:
    for context in list(_open):
        try:
            context.close()
        except errors.TuttiError:
            pass  # the operations that failed have said so
    _lib.tutti_mpi_release()


class Registered:
    """A name with its metadata, registered once: the cheapest way to submit; see register()."""

    def __init__(self, context: "Context", handle: int, desc: Any):
        self._context, self._handle, self._desc = context, handle, desc

    def submit(self, input: int, output: int, keep: Any = None, step: int = -1) -> Request:
        """Submits it, with addresses; ``keep`` is kept alive until it has finished."""
        request = Request(self._context, keep)
        status = _lib.tutti_submit(
            self._context.handle, self._handle, input, output, step, None, None,
            byref(request._id))
        if status:
            _check(status)
        return request

    def close(self) -> None:
        """Removes the registration; it must not be in flight."""
        _check(_lib.tutti_tensor_unregister(self._context.handle, self._handle))


def _blocking(method: "Callable[_P, Any]") -> "Callable[_P, Any]":
    """Of an operation: submits it and waits for its result."""

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        return method(*arguments, **options).wait()

    call.__name__ = method.__name__[:-len("_async")]
    return call


def _grouped(method: Callable[..., Request]) -> Callable[..., RequestGroup]:
    """Of several arrays, all or nothing; outputs: None or a list."""

    def call(self: "Context", inputs: Sequence[Any], outputs: Optional[Sequence[Any]] = None, *,
             name: Optional[str] = None, **options: Any) -> RequestGroup:
        number = _set_of(options.get("process_set"))
        if outputs is not None and len(outputs) != len(inputs):
            raise errors.InvalidError(f"{len(inputs)} inputs but {len(outputs)} outputs")
        pairs = zip(inputs, outputs or [None] * len(inputs))
        if not inputs:
            return RequestGroup([])
        base = self._name(call.__name__, name, number)
        try:
            with self.group():
                requests = [method(self, *pair, name=f"{base}.{i}", **options)
                            for i, pair in enumerate(pairs)]
        except BaseException:
            if name is None:
                self._unname(call.__name__, number)
            raise
        return RequestGroup(requests)

    call.__name__ = "grouped_" + method.__name__
    call.__doc__ = f"{method.__name__}() of several arrays, all or nothing; the same options."
    return call


def _init_oob(handle: c_void_p, rank: int, size: int, allgather: Callable, config: c_void_p) -> None:
    raised: List[BaseException] = []

    def call(_user: Any, mine: int, everybody: int, count: int) -> int:
        try:
            parts = allgather(ctypes.string_at(mine, count))
            if [len(part) for part in parts] != [count] * size:
                raise ValueError(f"the allgather of oob returned {[len(part) for part in parts]} bytes, not {size} times {count}")
            ctypes.memmove(everybody, b"".join(parts), count * size)
        except BaseException as error:  # it may not pass through C
            raised.append(error)
        return len(raised)

    status = _lib.tutti_init_oob(byref(handle), rank, size, _c.Allgather(call), None, config)
    if raised:
        raise raised[0]
    _check(status)


class Context:
    """This process's rank in the job that tuttirun, torchrun, mpirun or srun started.

    ranks: None, or some ranks of the job: they make a context of their own, in which they are
    numbered in this order; the others take no part. This needs an MPI.
    oob: None, or what tutti_init_oob() needs where nobody else knows who is there: this rank, how many
    there are, and an allgather, which is called with bytes and returns those of all ranks.
    parameters: those of the C library, such as ``stall_warning_s=30``; they win over the
    environment. Collective over the ranks. A context manager: leaving the block closes it.
    """

    def __init__(
        self, ranks: Optional[Sequence[int]] = None, *,
        oob: Optional[Tuple[int, int, Callable[[bytes], Sequence[bytes]]]] = None, **parameters: Any,
    ):
        config, handle = c_void_p(), c_void_p()
        self._handle: Optional[c_void_p] = None
        self._watcher: Optional[Watcher] = None
        # What the C library was lent, from before it is told until it is known to be done with it, whatever else fails:
        # by the id of numbers of requests, and by address. Then what nobody waits for or wants any more.
        self._lent: Dict[int, Tuple[Any, Any]] = {}
        self._shared: Dict[int, Any] = {}
        self._dropped: Dict[int, Any] = {}
        self._unwanted: Dict[int, bool] = {}
        self._sets: Dict[int, ProcessSet] = {}
        self._numbers: Dict[Tuple[str, int], int] = {}
        _check(_lib.tutti_mpi_hold())  # contexts may come and go until the process ends
        _check(_lib.tutti_config_create(byref(config)))
        try:
            for name, value in parameters.items():
                text = str(value).lower() if isinstance(value, bool) else str(value)
                _check(_lib.tutti_config_set(config, name.encode(), text.encode()))
            if oob is not None:
                _init_oob(handle, *oob, config)
            elif ranks is None:
                _check(_lib.tutti_init(byref(handle), config))
            else:
                _check(_lib.tutti_init_ranks(
                    byref(handle), (c_int * len(ranks))(*ranks), len(ranks), config))
        finally:
            _lib.tutti_config_destroy(config)
        self._handle = handle
        self.rank, self.size = _lib.tutti_rank(handle), _lib.tutti_size(handle)
        self.local_rank, self.local_size = (
            _lib.tutti_local_rank(handle), _lib.tutti_local_size(handle))
        self.cross_rank, self.cross_size = _lib.tutti_node(handle), _lib.tutti_node_count(handle)
        self.has_background: bool = _lib.tutti_has_background(handle)
        global _show_exception
        if _show_exception is None:
            _show_exception, sys.excepthook = sys.excepthook, _on_exception
        self.world = ProcessSet(self, 0, range(self.size))
        self._sets[0] = self.world
        _open.append(self)

    @property
    def handle(self) -> c_void_p:
        """The ``tutti *`` of the C library. Raises FinalizedError when it is closed."""
        if self._handle is None:
            raise errors.FinalizedError("this context is closed")
        return self._handle

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._handle is None

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Any, value: Any, _trace: Any) -> None:
        if kind is not None:
            self._blame(kind, value)
        try:
            self.close()
        except errors.TuttiError:
            if kind is None:  # else that is what must be seen
                raise

    def close(self) -> None:
        """Leaves the job. Collective: waits until all ranks have called it. Operations that
        not all ranks have submitted fail with FinalizedError on those that have."""
        if self._handle is None:
            return
        watcher, self._watcher = self._watcher, None
        left = [] if watcher is None else watcher.stop()
        handle, self._handle = self._handle, None
        status = _lib.tutti_finalize(handle)
        if status in (_c.THREAD, _c.INVALID):  # refused: nothing has changed
            self._handle = handle
            for request in left:
                self._watch(request)
            raise _c.error(status)
        _open.remove(self)
        for request in left:
            request._fail(errors.FinalizedError(
                "the context was closed before this operation had finished; wait for it first"))
            request._resolve()
        self._lent, self._shared, self._dropped, self._unwanted = {}, {}, {}, {}
        _check(status)

    def abort(self, text: str) -> None:
        """Declares the job broken: every rank's operations fail with this text."""
        _check(_lib.tutti_abort(self.handle, text.encode()))

    def _blame(self, kind: Any, value: BaseException) -> None:
        """This rank leaves the others with an exception: that fails their operations, with its type and text."""
        if isinstance(value, SystemExit):
            is_wrong = value.code not in (None, 0)
        else:  # that the context is closed is the doing of who has left before
            is_wrong = not issubclass(kind, (errors.FinalizedError, GeneratorExit))
        if is_wrong and self._handle is not None:
            _c.interrupted = True
            text = "".join(traceback.format_exception_only(kind, value)).strip()
            _lib.tutti_abort(self._handle, text.encode(errors="replace"))

    def share(self, address: int, size: int, keep: Any = None) -> None:
        """Makes memory that is there already one that the ranks of the node share, so that
        tensors in it are reduced with the fewest copies, until unshare() or close(). Do not
        free it before: ``keep``, what owns it, is kept alive until then. Local."""
        is_new = address not in self._shared
        self._shared.setdefault(address, keep)
        status = _lib.tutti_share(self.handle, address, size)
        if status and is_new:
            del self._shared[address]
        _check(status)

    def unshare(self, address: int) -> None:
        """Makes it private again. Local. Raises InvalidError, and names the tensor, while one in it is in flight."""
        _check(_lib.tutti_unshare(self.handle, address))
        self._shared.pop(address, None)
        self._unwanted.pop(address, None)

    def give_back(self, address: int) -> None:
        """unshare(), now or, if something in it is in flight, once that has ended."""
        if address in self._shared:
            self._unwanted[address] = True
            self._reap()

    def start_timeline(self, folder: str) -> None:
        """Begins a timeline of this rank in a folder; see the C library's docs/timeline.md."""
        _check(_lib.tutti_timeline_start(self.handle, folder.encode()))

    def stop_timeline(self) -> None:
        """Ends it; the folder stays."""
        _check(_lib.tutti_timeline_stop(self.handle))

    # ------------------------------------------------------------ process sets

    def process_set(self, ranks: Sequence[int]) -> ProcessSet:
        """Creates a set of ranks. Collective over all ranks, members or not."""
        ranks, handle = list(ranks), c_uint32()
        numbers = (c_int * len(ranks))(*ranks)
        _check(_lib.tutti_process_set_create(self.handle, numbers, len(ranks), byref(handle)))
        self._sets[handle.value] = ProcessSet(self, handle.value, ranks)
        return self._sets[handle.value]

    def process_sets(self) -> List[ProcessSet]:
        """All sets that exist, of which the first is the world; also those of the parameter process_sets."""
        count = c_int()
        _check(_lib.tutti_process_set_list(self.handle, None, 0, byref(count)))
        handles = (c_uint32 * count.value)()
        _check(_lib.tutti_process_set_list(self.handle, handles, len(handles), byref(count)))
        return [self._info(handle) for handle in handles]

    def is_homogeneous(self) -> bool:
        """True if every node has the same number of ranks. Collective."""
        if not hasattr(self, "_homogeneous"):
            numbers = (c_int64 * 2)(self.local_size, -self.local_size)
            self.submit_raw("allreduce", "tutti.is_homogeneous", numbers, numbers, 2,
                            tensor.DTYPES["int64"], reduce_op=MIN, keep=numbers).wait()
            self._homogeneous = numbers[0] == -numbers[1]
        return self._homogeneous

    # -------------------------------------------------------------- submission

    def submit_raw(
        self, op: str, name: Optional[str], input: Any, output: Any, count: int, dtype: int, *,
        row_count: int = 1, rows_of: Optional[Sequence[int]] = None,
        recv_rows: Optional[Sequence[int]] = None, reduce_op: int = SUM, root: int = 0,
        process_set: int = 0, shape: Optional[Tuple[int, ...]] = None, prescale: float = 1.0,
        postscale: float = 1.0, stream: Optional[int] = None, step: int = -1, priority: int = 0,
        callback: Optional[Callable] = None, keep: Any = None, result: Any = None,
        owned: Optional[Callable] = None,
    ) -> Optional[Request]:
        """Submits an operation with addresses, as the C function of that name does.

        op: "allreduce", "broadcast" (of ``output``), "reduce", "allgather", "reducescatter",
            "alltoall" (``rows_of``: rows to send), "gather", "scatter", "barrier", or, with
            the peer as ``root``, "send" and "recv".
        name: equal on all ranks; None: numbered by the calls of this operation on the set.
        input, output: addresses, of the host or of the rank's GPU; None is NULL.
        count: elements, or rows of row_count elements.
        dtype: a number of tutti.DTYPES. shape: compared across ranks.
        stream: the CUDA stream that writes the input, for memory of a GPU.
        callback: called with None or an exception by a thread of the C library, when the
            operation has finished; it may submit and must not wait. Then there is no Request.
        keep: kept alive until the operation has finished; result: what wait() returns.
        """
        options = _options(process_set, shape, prescale, postscale)
        if callback is not None or stream is not None or step >= 0 or priority != 0:
            options = _new_options(process_set, shape, prescale, postscale)
            options.stream, options.step, options.priority = stream, step, priority
        request, number = Request(self, keep, result, owned), 0
        if callback is not None:
            number = _add_callback(callback, keep)
            options.callback, options.user = cast(_on_completion, c_void_p), number
        status = _ASYNC[op](
            self.handle, self._name(op, name, process_set).encode(), input, output, count, row_count,
            _c.int64_array(rows_of), _c.int64_array(recv_rows), dtype, reduce_op, root,
            byref(options), None if callback else byref(request._id))
        if status:
            _callbacks.pop(number, None)
            if name is None:
                self._unname(op, process_set)
            _check(status)
        if self._dropped or self._unwanted:
            self._reap()
        return None if callback else request

    def register(
        self, op: str, name: str, count: int, dtype: int, *, reduce_op: int = SUM,
        root: int = 0, row_count: int = 1, process_set: int = 0,
        shape: Optional[Tuple[int, ...]] = None, prescale: float = 1.0, postscale: float = 1.0,
    ) -> Registered:
        """Registers a name with its metadata, so that Registered.submit() handles no string and
        takes no lock. Local: other ranks may submit the same name in another way."""
        desc, handle = _c.TensorDesc(), c_uint64()
        options = _options(process_set, shape, prescale, postscale)
        desc.size, desc.name = sizeof(desc), name.encode()
        desc.collective, desc.count, desc.dtype = _COLLECTIVES.index(op), count, dtype
        desc.op, desc.root, desc.row_count = reduce_op, root, row_count
        desc.options = _c.ctypes.pointer(options)
        _check(_lib.tutti_tensor_register(self.handle, byref(desc), byref(handle)))
        return Registered(self, handle.value, desc)

    def _name(self, op: str, name: Optional[str], process_set: int) -> str:
        if name is not None:
            return name
        number = self._numbers.get((op, process_set), 0)
        self._numbers[op, process_set] = (number + 1) % _AUTOMATIC_NAMES
        return f"{op}.unnamed.{number}"

    def _unname(self, op: str, process_set: int) -> None:
        """Leaves the number of a call that was refused, perhaps on this rank alone, to the next one."""
        key = op, process_set
        self._numbers[key] = (self._numbers[key] - 1) % _AUTOMATIC_NAMES

    def _watch(self, request: Request) -> None:
        if self._watcher is None:
            self._watcher = Watcher(self)
        self._watcher.add(request)

    def _drop(self, numbers: Any) -> None:
        """Nobody waits for these requests any more: what was lent goes once they have ended."""
        if self not in _open:
            self._lent.pop(id(numbers), None)
        elif id(numbers) in self._lent:
            self._dropped[id(numbers)] = numbers

    def _reap(self) -> None:
        handle = self._handle
        if handle is None or not may_wait(handle):
            return
        for key, numbers in list(self._dropped.items()):
            each = [c_uint64.from_buffer(numbers, at) for at in range(0, sizeof(numbers), sizeof(c_uint64))]
            if all([is_over(handle, number, _lib.tutti_test(handle, byref(number))) for number in each]):
                self._lent.pop(key, None)
                self._dropped.pop(key, None)
        for address in list(self._unwanted):
            if _lib.tutti_unshare(handle, address) == _c.OK:
                self._shared.pop(address, None)
                self._unwanted.pop(address, None)

    # ------------------------------------------------------------- collectives

    def allreduce_async(
        self, input: Any, output: Any = None, *, name: Optional[str] = None, op: int = SUM,
        prescale: float = 1.0, postscale: float = 1.0, process_set: Set = None,
    ) -> Request:
        """Reduces an array over the ranks of a set: all get the result.

        input: any array, of the same shape and type on all ranks.
        output: an array of the same type and size, or the input itself; None: a new one.
        name: equal on all ranks; None: numbered by the calls of this operation on the set.
        op: SUM (default), AVERAGE, SET_AVERAGE, MIN, MAX or PRODUCT.
        prescale, postscale: factors of each input and of the result; floating point only.
        process_set: None for all ranks.
        The result is the output. Until then nothing else may use the arrays.
        """
        given, target, output = _pair(input, output)
        number = _set_of(process_set)
        return self.submit_raw(
            "allreduce", name, given.address, target.address,
            given.count, given.dtype, reduce_op=op, process_set=number, shape=given.shape,
            prescale=prescale, postscale=postscale, keep=(given, target), result=output)

    def broadcast_async(
        self, array: Any, root: int = 0, *, name: Optional[str] = None, process_set: Set = None,
    ) -> Request:
        """Copies the root's array into the array of every rank of the set; the result is it.

        root: the rank in the set. name, process_set: as for allreduce_async().
        """
        number = _set_of(process_set)
        target = tensor.as_tensor(array, writable=self._rank_in(process_set) != root)
        return self.submit_raw(
            "broadcast", name, None, target.address,
            target.count, target.dtype, root=root, process_set=number, shape=target.shape,
            keep=target, result=array)

    def send_async(self, array: Any, peer: int, *, name: str, process_set: Set = None) -> Request:
        """Sends an array to one rank of the set, which receives it under the same name. Other
        ranks have no part in it. Finishes when the array may be used again."""
        number, given = _set_of(process_set), tensor.as_tensor(array)
        return self.submit_raw(
            "send", name, given.address, None, given.count, given.dtype, root=peer,
            process_set=number, shape=given.shape, keep=given, result=array)

    def recv_async(self, array: Any, peer: int, *, name: str, process_set: Set = None) -> Request:
        """Receives an array, of the shape and type that the peer sends under this name; the
        result is it."""
        number, target = _set_of(process_set), tensor.as_tensor(array, writable=True)
        return self.submit_raw(
            "recv", name, None, target.address, target.count, target.dtype, root=peer,
            process_set=number, shape=target.shape, keep=target, result=array)

    def allgather_async(
        self, input: Any, output: Any = None, *, name: Optional[str] = None,
        process_set: Set = None,
    ) -> Request:
        """Gathers the rows of all ranks, in order of rank, on every rank.

        input: at least one dimension. The first may differ on each rank.
        output: None: a new array, of as many rows as come. Otherwise, on all ranks, an array
            for the rows of all; then every rank must have the same number of rows.
        """
        given, number = tensor.as_tensor(input), _set_of(process_set)
        target = None if output is None else tensor.as_tensor(output, writable=True)
        if target is not None:
            rows = given.rows * self._size_of(process_set)
            _check_output(target, given.dtype, rows * given.row_count)
        return self.submit_raw(
            "allgather", name, given.address,
            target and target.address, given.rows, given.dtype, row_count=given.row_count,
            process_set=number, shape=given.shape, keep=(given, target), result=output,
            owned=None if target else take_output(
                input, given, self._size_of(process_set), False))

    def alltoall_async(
        self, input: Any, splits: Optional[Sequence[int]] = None, *,
        name: Optional[str] = None, process_set: Set = None,
    ) -> Request:
        """Sends rows to every rank and receives rows from every rank, in order of rank.

        splits: the rows for each rank; None: the same number for each.
        The result is a new array; with splits, it and how many rows came from each rank.
        """
        given, number = tensor.as_tensor(input), _set_of(process_set)
        ranks = self._size_of(process_set)
        rows_of = _even_splits(given, ranks) if splits is None else [int(s) for s in splits]
        if len(rows_of) != ranks or sum(rows_of) != given.rows:
            raise errors.InvalidError(
                f"splits are {rows_of}: they must be {ranks} numbers, one for each rank of the "
                f"set, whose sum is the number of rows, {given.rows}")
        return self.submit_raw(
            "alltoall", name, given.address, None, given.rows,
            given.dtype, row_count=given.row_count, rows_of=rows_of, process_set=number,
            shape=given.shape, keep=given,
            owned=take_output(input, given, ranks, splits is not None))

    def reducescatter_async(
        self, input: Any, output: Any = None, *, name: Optional[str] = None, op: int = SUM,
        prescale: float = 1.0, postscale: float = 1.0, process_set: Set = None,
    ) -> Request:
        """Reduces rows, and gives each rank its part: of the rows that do not divide evenly,
        one more for each of the first ranks. Options as for allreduce_async()."""
        given, number = tensor.as_tensor(input), _set_of(process_set)
        rows = _lib.tutti_part(
            given.rows, self._size_of(process_set), self._rank_in(process_set), None)
        if output is None:
            output = tensor.empty_like(input, (rows, *given.shape[1:]), given)
        target = tensor.as_tensor(output, writable=True)
        _check_output(target, given.dtype, rows * given.row_count, given)
        return self.submit_raw(
            "reducescatter", name, given.address,
            target.address, given.rows, given.dtype, row_count=given.row_count, reduce_op=op,
            process_set=number, shape=given.shape, prescale=prescale, postscale=postscale,
            keep=(given, target), result=output)

    def barrier_async(self, *, name: Optional[str] = None, process_set: Set = None) -> Request:
        """Finishes when every rank of the set has submitted it."""
        number = _set_of(process_set)
        return self.submit_raw(
            "barrier", name, None, None, 0, 0, process_set=number)

    def join_async(self, *, process_set: Set = None) -> Request:
        """Declares that this rank has no more data; finishes when all ranks have joined. Until
        then reductions run without it. The result is the rank that joined last."""
        number, last = _set_of(process_set), c_int()
        request = Request(self, last, owned=lambda _: last.value)
        _check(_lib.tutti_join_async(
            self.handle, byref(_options(number, None, 1.0, 1.0)), byref(last),
            byref(request._id)))
        # Ranks have submitted different numbers of operations, and nothing more until all have come here.
        for key in [key for key in self._numbers if key[1] == number]:
            del self._numbers[key]
        return request

    @contextmanager
    def group(self) -> Iterator[None]:
        """What this thread submits in the block is submitted all or nothing, and together."""
        is_first = may_wait(self.handle)  # else it is refused, within another
        numbers = dict(self._numbers)  # what is not submitted takes none
        try:
            _check(_lib.tutti_group_begin(self.handle))
            yield
            _check(_lib.tutti_group_end(self.handle))
        except BaseException:
            if is_first:
                _lib.tutti_barrier_async(self.handle, b"", None, None)  # refused, and so the group
                _lib.tutti_group_end(self.handle)
                self._numbers = numbers
            raise

    grouped_allreduce_async = _grouped(allreduce_async)
    grouped_allgather_async = _grouped(allgather_async)
    grouped_reducescatter_async = _grouped(reducescatter_async)
    allreduce, grouped_allreduce = _blocking(allreduce_async), _blocking(grouped_allreduce_async)
    allgather, grouped_allgather = _blocking(allgather_async), _blocking(grouped_allgather_async)
    reducescatter = _blocking(reducescatter_async)
    grouped_reducescatter = _blocking(grouped_reducescatter_async)
    broadcast, alltoall = _blocking(broadcast_async), _blocking(alltoall_async)
    send, recv = _blocking(send_async), _blocking(recv_async)
    barrier, join = _blocking(barrier_async), _blocking(join_async)

    def _info(self, process_set: Set) -> ProcessSet:
        number = _set_of(process_set)
        if number not in self._sets:
            size = c_int()
            _check(_lib.tutti_process_set_info(self.handle, number, byref(size), None))
            ranks = (c_int * size.value)()
            _check(_lib.tutti_process_set_ranks(self.handle, number, ranks, len(ranks)))
            self._sets[number] = ProcessSet(self, number, ranks)
        return self._sets[number]

    def _size_of(self, process_set: Set) -> int:
        return self.size if process_set is None else self._info(process_set).size

    def _rank_in(self, process_set: Set) -> int:
        return self.rank if process_set is None else self._info(process_set).rank


def _set_of(process_set: Set) -> int:
    if process_set is None:
        return 0
    return process_set if isinstance(process_set, int) else process_set.handle


def _check_output(target: tensor.Tensor, dtype: int, count: int, given: Any = None) -> None:
    if target.dtype != dtype:
        raise errors.InvalidError(
            f"the input is of {tensor.dtype_name(dtype)}, but the output of "
            f"{tensor.dtype_name(target.dtype)}")
    if target.count != count:
        raise errors.InvalidError(
            f"the output has {target.count} elements; the result has {count}")


def _pair(input: Any, output: Any) -> Tuple[tensor.Tensor, tensor.Tensor, Any]:
    """An input and its output of the same size, which is made where there is none."""
    if output is input:
        target = tensor.as_tensor(output, writable=True)
        return target, target, output
    given = tensor.as_tensor(input)
    if output is None:
        output = tensor.empty_like(input, None, given)
        target = tensor.as_tensor(output)._replace(dtype=given.dtype)
    else:
        target = tensor.as_tensor(output, writable=True)
        _check_output(target, given.dtype, given.count)
    return given, target, output


def _even_splits(given: tensor.Tensor, ranks: int) -> List[int]:
    if given.rows % ranks != 0:
        raise errors.InvalidError(
            f"{given.rows} rows cannot be divided evenly among {ranks} ranks; give splits")
    return [given.rows // ranks] * ranks
