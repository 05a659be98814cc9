"""tutti.torch on this rank of a job: every check of torch_ops and torch_train. Exits with 77 when torch is missing."""
import os
import re
import sys

try:
    import torch
except ImportError:
    print("skipped: torch is missing; script/setup ci installs python3-torch")
    sys.exit(77)

torch.set_num_threads(1)

import torch_ops  # noqa: E402
import torch_train  # noqa: E402

import tutti.torch as hvd  # noqa: E402



def check_page():
    """The programs of docs/python-torch.md run."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python-torch.md")
    with open(page) as text:
        programs = re.findall(r"^```python\n(.*?)^```$", text.read(), re.M | re.S)
    assert len(programs) == 3
    for program in programs:
        exec(compile(program, page, "exec"), {"__name__": "__main__"})


hvd.init()
checks = torch_ops.CHECKS + torch_train.CHECKS + [check_page]
for check in checks:
    check()
    hvd.barrier()
if hvd.rank() == 0:
    print(f"{len(checks)} checks, {hvd.size()} ranks, torch {torch.__version__}")
