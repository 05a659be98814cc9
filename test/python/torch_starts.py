"""torch's own ways to start ranks, without an MPI: torch.multiprocessing, and what torchrun sets; with groups of some of the ranks."""

import os
import socket
import sys

RANKS = 3
# Of the job that this process belongs to; ranks of torch know nothing of it.
OTHERS = ("OMPI_", "PMIX_", "PMI_", "TUTTI_INTERNAL", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")


def rank_main(rank, way, port):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if way == "torchrun":  # itself does not run in Debian's torch with its Python
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(RANKS))
    import tutti.torch.distributed

    dist.init_process_group("tutti", rank=rank, world_size=RANKS)
    for ranks in [0, 1, 2], [2, 0]:
        group, mine = dist.new_group(ranks), torch.tensor([10 ** rank])
        if rank in ranks:
            dist.all_reduce(mine, group=group)
            assert mine.item() == sum(10 ** other for other in ranks), (rank, ranks, mine)
    dist.barrier()
    dist.destroy_process_group()


def main():
    try:
        import torch.multiprocessing
    except ImportError:
        print("skipped: torch is missing; script/setup ci installs python3-torch")
        sys.exit(77)
    library = os.environ["TUTTI_LIBRARY"]
    if not os.path.exists(os.path.join(os.path.dirname(library), "libtutti-ucx.so.0")):
        print("skipped: there is no plug-in for UCX")
        sys.exit(77)
    for name in list(os.environ):
        if name.startswith(OTHERS):
            del os.environ[name]
    import tutti
    from check import refused

    refused(ValueError, "not 2 times", tutti.Context, oob=(0, 2, lambda mine: [mine]))
    refused(ZeroDivisionError, "by zero", tutti.Context, oob=(0, 2, lambda mine: 1 // 0))
    os.environ["OMP_NUM_THREADS"] = "1"
    for way in "torchrun", "spawn":
        with socket.socket() as port:  # nobody else gets it before torch's store binds it, too
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port.bind(("127.0.0.1", 0))
            torch.multiprocessing.spawn(rank_main, (way, port.getsockname()[1]), nprocs=RANKS)


if __name__ == "__main__":
    main()
