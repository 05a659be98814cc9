"""What front ends that follow Horovod's API share: start and end, ranks, process sets, reductions."""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
from array import array
from typing import Any, Iterable, List, Optional, Tuple, Union

from . import errors, job
from ._c import lib
from .context import ProcessSet as _CoreSet
from .context import ReduceOp

try:  # it also pickles lambdas and classes of __main__
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle

# Horovod's numbers, which scripts have been seen to store.
Average, Sum, Adasum, Min, Max, Product = range(6)
_REDUCTIONS = {
    Average: ReduceOp.SET_AVERAGE, Sum: ReduceOp.SUM, Min: ReduceOp.MIN, Max: ReduceOp.MAX, Product: ReduceOp.PRODUCT}
_NAMES = ("Average", "Sum", "Adasum", "Min", "Max", "Product")

#: What every failed operation raises.
HorovodInternalError = errors.TuttiError


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of an elastic job have changed: the program ends and is started anew."""


class ProcessSet:
    """Some of the ranks; give it to init() or add_process_set(), on all ranks, and then to operations."""

    def __init__(self, ranks: Iterable[int]):
        ranks = sorted(ranks)
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"ProcessSet: {ranks} is no list of ranks")
        self.process_set_id: Optional[int] = None
        self.ranks: Optional[List[int]] = ranks

    def _known(self) -> _CoreSet:
        for known in job.process_sets():
            if known.handle == self.process_set_id:
                return known
        raise ValueError(f"{self} is not initialised; give it to init() or add_process_set() first, on all ranks")

    def size(self) -> Optional[int]:
        """Number of its ranks; None before it is initialised."""
        return None if self.process_set_id is None else self._known().size

    def rank(self) -> Optional[int]:
        """This rank's index in it, -1 if it is no member; None before it is initialised."""
        return None if self.process_set_id is None else self._known().rank

    def included(self) -> bool:
        """True if this rank is a member."""
        return self is global_process_set or job.rank() in (self.ranks or ())

    def _index(self, rank: int) -> int:
        """The index in the set of a rank of the job; roots are given so."""
        ranks = self._known().ranks
        if rank not in ranks:
            raise ValueError(f"root_rank {rank} is not in the process set of the ranks {ranks}")
        return ranks.index(rank)

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def init(comm: Any = None, process_sets: Union[str, Iterable[ProcessSet], None] = None) -> None:
    """Joins the job; collective over all ranks. Nothing happens if this process has joined already.

    comm: None, or a list of all ranks. process_sets: sets that exist from the start; others may be added at any time,
    so "dynamic" means nothing here.
    """
    context = job.init()
    if comm is not None and (not isinstance(comm, (list, tuple)) or sorted(comm) != list(range(context.size))):
        raise errors.UnsupportedError(
            f"init(comm={comm!r}): tutti starts with all ranks of the launcher; use process sets for some of them")
    global_process_set.ranks = list(range(context.size))
    if "HOROVOD_CONTROLLER" in os.environ:  # tuttirun --horovod has set the others: HOROVOD_RANK and so on
        os.environ.update(HOROVOD_CROSS_RANK=str(context.cross_rank), HOROVOD_CROSS_SIZE=str(context.cross_size))
    for wanted in () if process_sets is None or isinstance(process_sets, str) else process_sets:
        add_process_set(wanted)


def add_process_set(process_set: Union[ProcessSet, Iterable[int]]) -> ProcessSet:
    """Creates a process set; collective over all ranks, at any time."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks == list(range(job.size())):
        process_set.process_set_id = 0
    else:
        process_set.process_set_id = job.process_set(process_set.ranks or ()).handle
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set; collective over all ranks. False: it is the global one, or was never added."""
    if not process_set.process_set_id:
        return False
    process_set._known().close()
    process_set.process_set_id = None
    return True


def reduction(op: Optional[int], average: Optional[bool] = None) -> int:
    """Which reduction is meant, `average` being Horovod's old argument."""
    if op is not None and average is not None:
        raise ValueError("op and average are both given; average is the old name: give op alone")
    if op is None:
        return Sum if average is False else Average
    if op == Adasum:
        raise errors.UnsupportedError(
            "op=Adasum: these functions do not offer it. C programs have tutti_compress_adasum; use Average or Sum")
    if op not in _REDUCTIONS:
        raise ValueError(f"op is {op!r}; it must be Average, Sum, Min, Max or Product")
    return op


def reduction_name(op: int) -> str:
    """"Average" and so on."""
    return _NAMES[op]


def core_reduction(op: int) -> ReduceOp:
    """The C library's number."""
    return _REDUCTIONS[op]


def _pickled(obj: Any) -> bytearray:
    buffer = io.BytesIO()
    _pickler.dump(obj, buffer)
    return bytearray(buffer.getvalue())


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's object on every rank; it travels pickled. Other ranks may give anything, such as None."""
    name, root, context = name or "broadcast_object", process_set._index(root_rank), job.context()
    is_root, number = job.rank() == root_rank, process_set.process_set_id
    data = _pickled(obj) if is_root else bytearray()
    length = array("q", [len(data)])
    context.broadcast(length, root, name=f"{name}.length", process_set=number)
    if not is_root:
        data = bytearray(length[0])
    context.broadcast(data, root, name=f"{name}.data", process_set=number)
    return obj if is_root else pickle.loads(data)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """Returns a list of the objects of all ranks of the set, in their order; they travel pickled."""
    name, context, number = name or "allgather_object", job.context(), process_set.process_set_id
    data = _pickled(obj)
    lengths = context.allgather(array("q", [len(data)]), name=f"{name}.lengths", process_set=number)
    every = memoryview(context.allgather(data, name=f"{name}.data", process_set=number))
    objects, at = [], 0
    for length in lengths:
        objects.append(pickle.loads(every[at:at + length]))
        at += length
    return objects


def map_leaves(value: Any, change: Any) -> Any:
    """A copy of nested dicts, lists and tuples with change(leaf) in place of each leaf."""
    if isinstance(value, dict):
        return {key: map_leaves(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_leaves(item, change) for item in value)
    return change(value)


class Compressor:
    """A pair of static functions; write a class like it for other forms."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """Returns what is to travel, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns what arrived in its first form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves the tensor as it is."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor


def mpi_threads_supported() -> bool:
    """True if a thread of tutti moves data while Python computes."""
    return job.context().has_background


def mpi_built(verbose: bool = False) -> bool:
    """True if the C library uses MPI."""
    del verbose
    return lib.tutti_has_feature(b"mpi")


def mpi_enabled() -> bool:
    """The same: what is built is used."""
    return mpi_built()


def not_offered(verbose: bool = False) -> bool:
    """False: of gloo, NCCL, CUDA, ROCm, DDL and oneCCL. These functions take tensors in host memory."""
    del verbose
    return False


gloo_built = gloo_enabled = nccl_built = cuda_built = rocm_built = ddl_built = ccl_built = not_offered


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """True if the framework "torch" or "tensorflow" is installed."""
    del verbose
    return ext_base_name in ("tensorflow", "torch") and importlib.util.find_spec(ext_base_name) is not None


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """True if the framework "torch" or "tensorflow" sees a GPU."""
    del verbose
    if ext_base_name == "torch":
        return importlib.import_module("torch").cuda.is_available()
    return bool(importlib.import_module("tensorflow").config.list_physical_devices("GPU"))


def num_rank_is_power_2(num_rank: int) -> bool:
    """True for 1, 2, 4, 8 and so on."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(l: List[Any], n: int) -> List[List[Any]]:
    """n lists of almost the same length, in order."""
    ends = [len(l) // n * i + min(i, len(l) % n) for i in range(n + 1)]
    return [l[begin:end] for begin, end in zip(ends, ends[1:])]


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begins a timeline of this rank in the folder file_path (docs/timeline.md); there are no cycles to mark."""
    del mark_cycles
    job.context().start_timeline(file_path)


def stop_timeline() -> None:
    """Ends it."""
    job.context().stop_timeline()
