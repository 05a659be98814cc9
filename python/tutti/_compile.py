"""Extensions of frameworks in C++: those that the wheel holds; others are compiled when first needed, and kept in ~/.cache/tutti."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import subprocess
import tempfile
from typing import Callable, List, Tuple

from . import _c

_HERE = os.path.dirname(os.path.abspath(__file__))


def _folder() -> str:
    """Where they are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "tutti")
    try:
        os.makedirs(folder, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return tempfile.mkdtemp(prefix="tutti-")


def compiled(source: str, version: str, parts: Callable[[], Tuple[List[str], List[str], List[str]]], needs: str) -> str:
    """The path of the compiled source; where the wheel has none, one process of a machine compiles, the others wait for it.

    version: of what else it depends on. parts: returns options, folders of headers besides tutti's, and libraries. needs: what the
    ImportError says when it cannot be compiled. $CXX may name another compiler than g++, CPATH more folders.
    """
    with open(source, "rb") as text:
        made_of = text.read() + f"{version} {_c.VERSION}".encode()
    name = os.path.splitext(os.path.basename(source))[0]
    file = f"{name}-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    path = os.path.join(_HERE, "compiled", file)  # script/wheel puts it there
    if os.path.exists(path):
        return path
    path = os.path.join(_folder(), file)
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            options, folders, libraries = parts()
            library = os.path.dirname(os.path.abspath(_c.lib._name))
            folders = [os.path.join(_HERE, "include"), os.path.join(os.path.dirname(library), "include"), *folders]
            command = [
                *shlex.split(os.environ.get("CXX", "g++")), "-O2", "-shared", "-fPIC", "-w", *options,
                *(f"-isystem{folder}" for folder in folders if os.path.isdir(folder) and folder != "/usr/include"), source, "-o",
                path + ".part", *libraries]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                raise ImportError(f"{needs}\n{shlex.join(command)}\n{said[:4000]}") from None
            os.rename(path + ".part", path)
    return path
