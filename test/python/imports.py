"""Imports of Horovod are served, by tuttirun --horovod, by the name horovodrun, and by hand."""

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import os, sys, tutti
tutti.__path__.insert(0, sys.argv[1])  # where a module stands for tutti.torch
if sys.argv[2] == "hand":
    import tutti.horovod
    tutti.horovod.install()
import horovod, horovod.torch as hvd
from horovod.torch.parts import number
import tutti.torch.parts
from horovod.common.exceptions import HorovodInternalError
from horovod.common.util import extension_available, gloo_built, num_rank_is_power_2, split_list
assert HorovodInternalError is tutti.TuttiError and not gloo_built(verbose=True) and not extension_available("mxnet")
assert split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
assert [n for n in range(9) if num_rank_is_power_2(n)] == [1, 2, 4, 8]
assert hvd is tutti.torch and hvd.__name__ == "tutti.torch" == hvd.__spec__.name
assert sys.modules["horovod.torch.parts"] is tutti.torch.parts and number() == 4
assert horovod.__version__ == "0.28.1"
if sys.argv[2] == "launcher":
    names = "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"
    from tutti._horovod import init
    assert [os.environ.get("HOROVOD_" + name) for name in names] == ["0", "1", "0", "1", None, None]
    init()
    assert [os.environ["HOROVOD_" + name] for name in names] == ["0", "1", "0", "1", "0", "1"]
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

TASK = """
import tutti

def value(factor, more):
    tutti.init()
    value = tutti.rank() * factor + more
    tutti.shutdown()
    return value

def failing():
    raise ValueError
"""
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import task, horovod
from horovod.runner import run
assert run is horovod.run and run(task.value, (10,), {"more": 3}, np=2, verbose=False) == [3, 13]
for kind, words, function, options in (
        (RuntimeError, "the job of 2 ranks ended with status 1", task.failing, {"num_proc": 2}),
        (RuntimeError, "ended with status 125", task.failing, {"use_gloo": True}),
        (TypeError, "run() has no argument 'color'", task.failing, {"color": 1})):
    try:
        run(function, **options)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
print("served", len(sys.argv))
"""


def run(*command):
    done = subprocess.run(command, text=True, capture_output=True, timeout=600,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE"))})
    assert done.returncode == 0 and "served 3" in done.stdout, (command, done.stdout, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    os.mkdir(f"{folder}/torch")
    for name, text in (("torch/__init__.py", ""), ("torch/parts.py", "def number(): return 4\n"),
                       ("keras.py", "import broken_framework\n"), ("train.py", PROGRAM), ("task.py", TASK), ("run.py", RUN)):
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
    tuttirun = os.environ["TUTTIRUN"]
    os.symlink(tuttirun, f"{folder}/horovodrun")
    for launcher in ([tuttirun, "--horovod"], [f"{folder}/horovodrun"]):
        run(*launcher, "-np", "1", sys.executable, f"{folder}/train.py", folder, "launcher")
    home = os.environ["PYTHONPATH"]
    run("env", f"PYTHONPATH={home}:{home}/horovod", sys.executable, f"{folder}/run.py", folder, "program")
    run(sys.executable, f"{folder}/train.py", folder, "hand")
    said = subprocess.run([tuttirun, "--horovod", "-np", "1", sys.executable, "-c", "import horovod.torch"],
                          text=True, capture_output=True, timeout=600,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE", "PYTHONPATH"))})
    assert f"the Python package tutti, which {sys.executable} does not have: install it" in said.stderr, said
