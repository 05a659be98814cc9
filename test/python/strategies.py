"""The examples that stand for TensorFlow's strategies and Estimator: the number of ranks, and a stop, change no result."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = f"{ROOT}/examples/digits/data/digits.csv"


def run(example, *arguments, flags=(), **variables):
    """Runs an example of its own job; returns what it printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE", "TUTTI_R"))}
    command = [os.environ["TUTTIRUN"], "--bind", "none", *flags, sys.executable, f"{ROOT}/examples/python/{example}.py", DATA]
    done = subprocess.run(
        [*command, *arguments], text=True, capture_output=True, env={**environment, "CUDA_VISIBLE_DEVICES": "", **variables})
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def numbers(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def near(ours, theirs):
    assert len(ours) == len(theirs) and ours, (ours, theirs)
    assert all(abs(a - b) < 1e-4 for a, b in zip(ours, theirs)), (ours, theirs)


def test_multi_worker():
    alone = run("keras_multi_worker", flags=("-np", "1"))
    together = run("keras_multi_worker", TF_CONFIG=json.dumps({"cluster": {"worker": ["localhost:1", "localhost:2"]}}))
    assert "1 ranks: " in alone and "2 ranks: " in together
    near(numbers(together), numbers(alone))
    assert numbers(together)[1] > 85


def test_train_and_evaluate():
    with tempfile.TemporaryDirectory() as once, tempfile.TemporaryDirectory() as twice:
        whole = run("train_and_evaluate", once, "80", flags=("-np", "1"))
        first = run("train_and_evaluate", twice, "50", flags=("-np", "2"))
        second = run("train_and_evaluate", twice, "80", flags=("-np", "2"))
        assert "step 50:" in first and "goes on from step 50" in second, (first, second)
        near(numbers(second), numbers(whole)[3:])
        files = glob.glob(f"{twice}/events.*")
        assert len(files) == 2, files  # one a run: not all ranks write
        events = EventAccumulator(twice).Reload()
        assert {"loss", "eval/loss", "eval/accuracy"} <= set(events.Tags()["tensors"])
        assert [each.step for each in events.Tensors("eval/accuracy")] == [40, 50, 80]


test_multi_worker()
test_train_and_evaluate()
print("passed")
