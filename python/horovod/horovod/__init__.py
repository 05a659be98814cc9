"""The package horovod of `tuttirun --horovod`: its modules are those of tutti."""

try:
    from tutti.horovod import serve as _serve
    from tutti.runner import run
except ModuleNotFoundError as error:
    if error.name not in ("tutti", "tutti.horovod"):  # a folder named tutti is a package, too
        raise
    import sys

    raise ImportError(f"tuttirun --horovod serves Horovod's modules from the Python package tutti, which {sys.executable} "
                      "does not have: install it for this Python (docs/python.md, Installing)") from None

__version__ = _serve()
