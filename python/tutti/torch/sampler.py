"""Which rank reads which sample, in jobs whose number of ranks changes."""
import random

import torch.utils.data

from tutti.torch.mpi_ops import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """Divides the indices of a data set among the ranks, as DistributedSampler does, and remembers how many of this
    epoch have been read, so that a job that was started anew reads the others, with any number of ranks.

    Call record_batch() after each batch, set_epoch() at the end of each epoch, and give the sampler to TorchState.
    """

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch: nothing of it has been read."""
        self.load_state_dict({"epoch": epoch, "processed_num": 0})

    def record_batch(self, batch_idx, batch_size):
        """Notes that every rank has read a batch of this size."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self):
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict):
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self):
        """Divides what is left of the epoch among the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num:]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        left = self.remaining_indices
        filled = list(left)
        while len(filled) < self.total_size:  # the first are read twice, so that all ranks read equally many
            filled += left[:self.total_size - len(filled)]
        return iter(filled[self.rank::self.num_replicas])

    def __len__(self):
        return self.num_samples
