"""run(): a function on the ranks of a job, which tuttirun starts; Horovod's horovod.run()."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import errors, horovod, job
from ._c import lib
from ._horovod import _pickler

# Horovod's arguments by tuttirun's flags, which say what is not offered.
_FLAGS = {
    "min_num_proc": "--min-np", "min_np": "--min-np", "max_num_proc": "--max-np", "max_np": "--max-np",
    "slots": "--slots-per-host", "reset_limit": "--reset-limit", "cooldown_range": "--blacklist-cooldown", "hosts": "-H",
    "hostfile": "--hostfile", "host_discovery_script": "--host-discovery-script", "start_timeout": "--start-timeout",
    "ssh_port": "--ssh-port", "ssh_identity_file": "--ssh-identity-file", "disable_cache": "--disable-cache",
    "output_filename": "--log-dir", "verbose": "--verbose", "use_gloo": "--gloo", "use_mpi": "--mpi", "mpi_args": "--mpi-args",
    "network_interface": "--network-interfaces", "network_interfaces": "--network-interfaces",
}
_SWITCHES = {"disable_cache", "use_gloo", "use_mpi", "verbose"}  # they have no value


def _flags(options: Dict[str, Any]) -> List[str]:
    flags: List[str] = []
    for name, value in options.items():
        if name not in _FLAGS:
            raise TypeError(f"run() has no argument {name!r}; it has {', '.join(_FLAGS)}")
        if value is None or (name in _SWITCHES and not value):
            continue
        flags.append(_FLAGS[name])
        if name not in _SWITCHES:
            flags.append(",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return flags


def _tuttirun() -> str:
    beside = os.path.join(os.path.dirname(lib._name), "..", "bin", "tuttirun")
    found = shutil.which("tuttirun") or shutil.which(beside)
    if found is None:
        raise errors.UnsupportedError(f"run() needs tuttirun, which is neither in PATH nor {os.path.normpath(beside)}")
    return found


def run(
    func: Callable, args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None, num_proc: int = 1,
    np: Optional[int] = None, executable: Optional[str] = None, **options: Any,
) -> List[Any]:
    """Calls func(*args, **kwargs) on each rank of a new job, and returns what it returned, in the order of ranks.

    It travels pickled, through files in a temporary folder: with other hosts than this, TMPDIR must name one that they share.
    np: the old name of num_proc. executable: the Python of the ranks. The rest of Horovod's arguments are tuttirun's flags, such
    as hosts="a:2,b:2". Raises RuntimeError if the job fails; tuttirun has then said why.
    """
    ranks, flags = num_proc if np is None else np, _flags(options)
    if getattr(func, "__module__", None) == "__main__" and _pickler is pickle:
        raise errors.UnsupportedError(
            f"run(): {func.__name__} is of the program itself, and travels with cloudpickle alone: pip install cloudpickle, or put "
            "it into a module")
    with tempfile.TemporaryDirectory(prefix="tutti-run.") as folder:
        with open(os.path.join(folder, "function"), "wb") as file:
            _pickler.dump((func, tuple(args), dict(kwargs or {})), file)
        status = subprocess.call(
            [_tuttirun(), "-np", str(ranks), "-x", "PYTHONPATH", *flags, executable or sys.executable, "-m", __name__, folder],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)})
        if status != 0:
            raise RuntimeError(f"run(): the job of {ranks} ranks ended with status {status}")
        return [_result(folder, rank) for rank in range(options.get("min_num_proc") or options.get("min_np") or ranks)]


def _result(folder: str, rank: int) -> Any:
    try:
        with open(os.path.join(folder, str(rank)), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        raise RuntimeError(
            f"run(): rank {rank} left no result in {folder}; with other hosts, TMPDIR must name a folder that they share") from None


def _main(folder: str) -> None:
    """What a rank runs."""
    horovod.install()
    with open(os.path.join(folder, "function"), "rb") as file:
        func, args, kwargs = pickle.load(file)
    value = func(*args, **kwargs)
    rank = (job._context or job.init()).rank  # that of a context that the function has left, too
    draft = os.path.join(folder, f"{rank}.new")
    with open(draft, "wb") as file:
        _pickler.dump(value, file)
    os.replace(draft, os.path.join(folder, str(rank)))


if __name__ == "__main__":
    _main(sys.argv[1])
