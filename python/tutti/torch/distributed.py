"""The backend "tutti" of torch.distributed, for tensors in host memory:

    import tutti.torch.distributed
    torch.distributed.init_process_group("tutti")

Start the script with torchrun, tuttirun or mpirun. Importing is collective but under torchrun: it joins the
job, and sets those of RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT that are
not set. The wheel holds the backend compiled for some versions of torch; for another one the first import
compiles it, and keeps it in ~/.cache/tutti.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import socket
import sysconfig
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from tutti._compile import compiled
from tutti.context import Context
from tutti.errors import MpiError

_job: Optional[Context] = None  # of all ranks
_contexts: Dict[Tuple[int, ...], Context] = {}  # of the ranks of groups
_group_counts: Dict[Tuple[int, ...], int] = {}
_port: Optional[socket.socket] = None  # holds MASTER_PORT, which nobody else gets before torch's store listens there


# --------------------------------------------------------------------------- compiling

def _parts() -> Tuple[List[str], List[str], List[str]]:
    """Options, folders of headers and libraries for this torch and this Python."""
    from torch.utils import cpp_extension  # it looks for CUDA, and warns

    options = ["-DTORCH_EXTENSION_NAME=tutti_distributed", "-DTORCH_API_INCLUDE_EXTENSION_H",
               f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    for name in "COMPILER_TYPE", "STDLIB", "BUILD_ABI":  # for pybind11 to share types with torch
        value = getattr(torch._C, "_PYBIND11_" + name, None)
        if value is not None:
            options.append(f'-DPYBIND11_{name}="{value}"')
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    options.append("-std=c++20" if version >= (2, 10) else "-std=c++17")
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    return (options, [*cpp_extension.include_paths(), sysconfig.get_path("include")],
            [*libraries, "-lc10", "-ltorch_cpu", "-ltorch_python"])


def _load() -> Any:
    # Torches of one version for different GPUs share an ABI, and so do Pythons of one minor version.
    binary = f"{torch.__version__.split('+')[0]} {torch._C._GLIBCXX_USE_CXX11_ABI} {sysconfig.get_config_var('SOABI')}"
    path = compiled(
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "distributed.cpp"), binary, _parts,
        "tutti cannot compile its backend of torch.distributed. It needs g++ (or CXX), the headers of Python (python3-dev), of torch "
        "(libtorch-dev and pybind11-dev, if torch is Debian's) and of tutti (libtutti-dev; CPATH tells where, if not in "
        "/usr/include or /usr/local/include).")
    spec = importlib.util.spec_from_file_location("tutti_distributed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------ groups

def _all() -> Context:
    global _job
    if _job is None or _job.closed:
        _job = Context()
        _contexts.clear()
        _contexts[tuple(range(_job.size))] = _job
    return _job


def _over(store: Any, rank: int, size: int) -> Context:
    """A context of the ranks that share a store of torch."""
    count = itertools.count()

    def allgather(mine: bytes) -> List[bytes]:
        number = next(count)
        store.set(f"tutti/{number}/{rank}", mine)
        return [store.get(f"tutti/{number}/{other}") for other in range(size)]

    return Context(oob=(rank, size, allgather))


def _context(store: Any, rank: int, size: int) -> Tuple[Tuple[int, ...], Context]:
    """The context of a group, and what it is known by."""
    job = _all()
    if size > job.size:  # nobody has told tutti of a job, but torch knows one: torch.multiprocessing
        context = _over(store, rank, size)
        return (-id(context),), context
    store.set(f"tutti/{rank}", str(job.rank))
    ranks = tuple(int(store.get(f"tutti/{other}")) for other in range(size))
    if ranks not in _contexts:
        try:
            _contexts[ranks] = Context(ranks=ranks)
        except MpiError:  # there is none
            _contexts[ranks] = _over(store, rank, size)
    return ranks, _contexts[ranks]


def _create(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """Makes a group, on each of its ranks; torch calls it."""
    ranks, context = _context(store, rank, size)
    if not context.has_background:
        raise RuntimeError("the backend tutti needs tutti's background thread: background_thread=true and, over MPI, "
                           "the level MPI_THREAD_MULTIPLE")
    # Groups of these ranks are numbered alike, whatever has failed here or there; and the rank that has the store may
    # not leave before all have read it.
    mine = torch.tensor([_group_counts.get(ranks, 0)])
    number = int(context.allgather_async(mine, name="torch.group").wait(timeout.total_seconds()).max())
    _group_counts[ranks] = number + 1
    return _backend.group(context.handle.value, rank, size, f"torch{number}", timeout.total_seconds())


def _set_environment() -> None:
    """Tells init_process_group() what the launcher knows."""
    global _port
    if all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")):
        return
    job = _all()
    where = torch.zeros(256, dtype=torch.uint8)
    if job.rank == 0:
        _port = socket.socket()
        _port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the store does, which binds it, too
        _port.bind(("", 0))
        text = f"{'127.0.0.1' if job.cross_size == 1 else socket.gethostname()} {_port.getsockname()[1]}".encode()
        where[:len(text)] = torch.tensor(list(text), dtype=torch.uint8)
    job.broadcast(where, name="tutti.torch.distributed")
    address, port = bytes(where.tolist()).rstrip(b"\0").decode().split()
    for name, value in (("RANK", job.rank), ("WORLD_SIZE", job.size), ("LOCAL_RANK", job.local_rank),
                        ("LOCAL_WORLD_SIZE", job.local_size), ("MASTER_ADDR", address), ("MASTER_PORT", port)):
        os.environ.setdefault(name, str(value))


if not dist.is_available():
    raise ImportError("this torch was built without torch.distributed")
_backend = _load()
_set_environment()
_devices = {"devices": ["cpu"]} if "devices" in inspect.signature(dist.Backend.register_backend).parameters else {}
dist.Backend.register_backend("tutti", _create, **_devices)
