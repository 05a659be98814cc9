"""Makes `import horovod.torch` and the like import tutti's modules of the same functions.

`tuttirun --horovod` puts a folder into PYTHONPATH that has a package `horovod` and nothing else;
it calls serve(). A program that is started in another way does the same with

    import tutti.horovod
    tutti.horovod.install()
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any, Optional

VERSION = "0.28.1"  # of Horovod, whose functions these are

# Longest names first. What is below a name is served by what is below its counterpart.
_SERVED = {
    "horovod.tensorflow.keras": "tutti.keras",
    "horovod.tensorflow": "tutti.tensorflow",
    "horovod.keras": "tutti.keras",
    "horovod.common.elastic": "tutti._elastic",
    "horovod.common.exceptions": "tutti._horovod",
    "horovod.common.process_sets": "tutti._horovod",
    "horovod.common.util": "tutti._horovod",
    "horovod.common": "tutti._horovod",
    "horovod.runner": "tutti.runner",
    "horovod.torch": "tutti.torch",
}


def _counterpart(name: str) -> Optional[str]:
    for theirs, ours in _SERVED.items():
        if name == theirs or name.startswith(theirs + "."):
            return ours + name[len(theirs):]
    return None


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("tutti."):
            return False
        raise  # such as torch, which is missing: that is what must be said


class _Alias(Loader):
    """Loads a module of horovod by importing its counterpart."""

    def __init__(self, ours: str):
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> Any:
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put that of the alias there


class _Finder(MetaPathFinder):
    """Comes before other finders: files below a counterpart must not be loaded a second time."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("horovod."):
            return None
        ours = _counterpart(name)
        if ours is None or not _exists(ours):
            raise ModuleNotFoundError(
                f"tutti does not serve {name}"
                + ("" if ours is None else f": this tutti has no {ours}")
                + "; what it serves of Horovod is in docs/horovod-functions.md", name=name)
        return ModuleSpec(name, _Alias(ours), is_package=True)


def serve() -> str:
    """Serves what is below `horovod` from now on; returns the version that is served."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    return VERSION


def install() -> None:
    """Makes `import horovod` tutti's, whether Horovod is installed or not.

    Raises RuntimeError if the real Horovod has been imported already.
    """
    have = sys.modules.get("horovod")
    if have is not None and getattr(have, "__version__", None) != VERSION:
        raise RuntimeError("horovod is imported already; call tutti.horovod.install() before")
    if have is None:
        module = types.ModuleType("horovod", "Horovod's modules, served by tutti.")
        module.__path__ = []
        sys.modules["horovod"] = module
        module.__version__ = serve()
        from .runner import run

        module.run = run
