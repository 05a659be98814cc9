"""How a rank ends is how the job ends: what rank 1 raised or exited with is the cause, and the others are told of it."""

import os
import subprocess
import sys

PROGRAM = """
import os, signal, sys, threading
import tutti
mode = sys.argv[1]
job = tutti.init() if mode != "block" else None
tutti.job._context = tutti.Context() if job is None else job
job = tutti.context()
def differs(): job.allreduce(bytearray(8 + job.rank), name="differs")
try:
    differs()  # caught, and long ago: no cause of anything
except tutti.MismatchError:
    pass
for _ in range(3):
    job.barrier(name="step")
def fail():
    if mode == "exit": sys.exit(3)
    if mode == "SystemExit": raise SystemExit(4)
    if mode == "sentence": sys.exit("bad configuration")
    if mode == "raise": raise RuntimeError("planned")
    if mode == "memory": raise MemoryError
    if mode == "interrupt": raise KeyboardInterrupt
    if mode == "block":
        with job: raise RuntimeError("in a block")
if job.rank == 1:
    fail()
tutti._c._INTERRUPT_S = 60
def interrupt():  # Ctrl-C, which comes here after it has ended rank 1
    try:
        job.barrier(name="too late")
    except tutti.ContextFailedError:
        os.kill(os.getpid(), signal.SIGINT)
try:
    if mode == "interrupt":
        threading.Thread(target=interrupt).start()
    job.barrier(name="last")
except BaseException as error:
    print("rank 0 heard", type(error).__name__, error, flush=True)
    raise
"""

CASES = [  # what rank 1 does, the status of the job, how rank 1 ended, what rank 0 hears
    ("exit", 3, "exited with status 3", "FinalizedError"),
    ("SystemExit", 4, "exited with status 4", "FinalizedError"),
    ("sentence", 1, "exited with status 1", "FinalizedError"),
    ("raise", 1, "exited with status 1", "ContextFailedError", "first cause, on rank 1: RuntimeError: planned"),
    ("memory", 1, "exited with status 1", "ContextFailedError", "first cause, on rank 1: MemoryError"),
    ("block", 1, "exited with status 1", "ContextFailedError", "first cause, on rank 1: RuntimeError: in a block"),
    ("interrupt", 130, "was killed by signal 2", "KeyboardInterrupt"),
]
for mode, status, end, *heard in CASES:
    done = subprocess.run(
        [os.environ["TUTTIRUN"], "-np", "2", "--grace-ms", "60000", sys.executable, "-c", PROGRAM, mode], text=True,
        capture_output=True,
        env={k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE", "TUTTI_INTERNAL"))})
    said = done.stdout + done.stderr
    assert done.returncode == status, (mode, done.returncode, said)
    assert f"tuttirun: rank 1 {end}" in said and f"tuttirun: rank 0 {end}, pid" not in said, (mode, said)
    cause = [line for line in said.splitlines() if ", pid " in line and "after the start" in line]
    assert len(cause) == 1 and "rank 1 " in cause[0], (mode, said)
    line = next(line for line in said.splitlines() if "rank 0 heard" in line)
    assert all(words in line for words in heard), (mode, line)
    assert not any("differs" in line for line in said.splitlines() if line.startswith("tuttirun: ")), (mode, said)
