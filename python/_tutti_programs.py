"""The programs of a wheel: runs the one of the same name in the package's folder bin, without importing the package."""

import importlib.util
import os
import sys


def run():
    name = os.path.basename(sys.argv[0])
    folder = os.path.join(os.path.dirname(importlib.util.find_spec("tutti").origin), "bin")
    # horovodrun is tuttirun under another name.
    os.execv(os.path.join(folder, "tuttirun" if name == "horovodrun" else name), [name, *sys.argv[1:]])
