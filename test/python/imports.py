"""Imports of Horovod are served, by tuttirun --horovod, by the name horovodrun, and by hand."""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import sys, tutti
tutti.__path__.insert(0, sys.argv[1])  # where a module stands for tutti.torch
if sys.argv[2] == "hand":
    import tutti.horovod
    tutti.horovod.install()
import horovod, horovod.torch as hvd
from horovod.torch.parts import number
import tutti.torch.parts
assert hvd is tutti.torch and hvd.__name__ == "tutti.torch" == hvd.__spec__.name
assert sys.modules["horovod.torch.parts"] is tutti.torch.parts and number() == 4
assert horovod.__version__ == "0.28.1"
for name, words in (("horovod.torch.nothing", "this tutti has no tutti.torch.nothing"),
                    ("horovod.keras", "broken_framework"), ("horovod.spark", "does not serve horovod.spark")):
    try:
        __import__(name)
    except ImportError as error:
        assert words in str(error), error
    else:
        raise AssertionError(name)
print("served", len(sys.argv))
"""


def run(*command):
    done = subprocess.run(command, text=True, capture_output=True, timeout=60,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE"))})
    assert done.returncode == 0 and "served 3" in done.stdout, (command, done.stdout, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    os.mkdir(f"{folder}/torch")
    for name, text in (("torch/__init__.py", ""), ("torch/parts.py", "def number(): return 4\n"),
                       ("keras.py", "import broken_framework\n"), ("train.py", PROGRAM)):
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
    tuttirun = os.environ["TUTTIRUN"]
    os.symlink(tuttirun, f"{folder}/horovodrun")
    for launcher in ([tuttirun, "--horovod"], [f"{folder}/horovodrun"]):
        run(*launcher, "-np", "1", sys.executable, f"{folder}/train.py", folder, "launcher")
    run(sys.executable, f"{folder}/train.py", folder, "hand")
    said = subprocess.run([tuttirun, "--horovod", "-np", "1", sys.executable, "-c", "import horovod.torch"],
                          text=True, capture_output=True, timeout=60,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE", "PYTHONPATH"))})
    assert f"the Python package tutti, which {sys.executable} does not have: install it" in said.stderr, said
