#!/usr/bin/env python3
"""A network that reads handwritten digits, trained by PyTorch on all ranks:

    tuttirun -np 2 python3 examples/python/torch_digits.py

It is a Horovod script: with `import horovod.torch as hvd` it runs under Horovod, and under `tuttirun --horovod`.
"""
import argparse
import os

import torch
import torch.nn.functional as F

import tutti.torch as hvd

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "digits", "data", "digits.csv")


def read(file):
    """Pictures of 8 x 8 pixels, and the digits they show."""
    with open(file) as lines:
        numbers = torch.tensor([[int(word) for word in line.split(",")] for line in lines])
    return torch.utils.data.TensorDataset(numbers[:, :64].float() / 16, numbers[:, 64])


def accuracy(model, data):
    """The share of this rank's part of the data that is read rightly, averaged over the ranks."""
    pixels, digits = (part[hvd.rank()::hvd.size()] for part in data)
    with torch.no_grad():
        right = (model(pixels).argmax(1) == digits).float().mean()
    return hvd.allreduce(right, name="accuracy").item()


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", default=FILE, help="CSV: 64 pixels and the digit in each line")
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--batch", type=int, default=32, help="of each rank")
    options.add_argument("--rate", type=float, default=0.003, help="learning rate of one rank")
    options = options.parse_args()

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    data = read(options.data)
    train, test = data[:1500], data[1500:]
    sampler = torch.utils.data.distributed.DistributedSampler(
        range(1500), num_replicas=hvd.size(), rank=hvd.rank(), seed=1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate * hvd.size() ** 0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for indices in torch.tensor(list(sampler)).split(options.batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(train[0][indices]), train[1][indices])
            loss.backward()
            optimizer.step()
        share = accuracy(model, test)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, {100 * share:.1f} % of the test digits are read rightly")


if __name__ == "__main__":
    main()
