"""tutti.torch on this rank of a job: every check of torch_ops and torch_train. Exits with 77 when torch is missing."""
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

hvd.init()
for check in torch_ops.CHECKS + torch_train.CHECKS:
    check()
    hvd.barrier()
if hvd.rank() == 0:
    print(f"{len(torch_ops.CHECKS + torch_train.CHECKS)} checks, {hvd.size()} ranks, torch {torch.__version__}")
