"""The package horovod of `tuttirun --horovod`: its modules are those of tutti."""

from tutti.horovod import serve as _serve
from tutti.runner import run

__version__ = _serve()
