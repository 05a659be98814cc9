"""Elastic jobs, in which ranks may die and hosts come and go: under tuttirun --min-np, see docs/python-torch.md.

Horovod goes on in the processes that are left; tuttirun starts all anew. A script is the same for both: what it goes
on from is in a TorchState, and what it does is in a function with the decorator run.
"""
import torch

from tutti._elastic import State, run
from tutti._horovod import HostsUpdatedInterrupt  # noqa: F401
from tutti.torch.functions import load_in_place
from tutti.torch.sampler import ElasticSampler

_STATES = 3  # tensors as large as a parameter that an optimizer may keep of it


class TorchState(State):
    """What a training goes on from: models, optimizers, samplers, and other objects, as attributes.

        state = TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)

    They must be equal on all ranks when they are committed. capacity: bytes for all of it, equal in each start of
    the program; by default enough for the models, three tensors of an optimizer for each of its parameters, and 1 MiB.
    """

    def __init__(self, model=None, optimizer=None, capacity=None, **others):
        values = {"model": model, "optimizer": optimizer, **others}
        super().__init__(_sizes(values.values()), capacity, values)

    @staticmethod
    def _flat(leaf):
        return leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy() if torch.is_tensor(leaf) else None

    @staticmethod
    def _empty(shape, dtype):
        return torch.empty(shape, dtype=dtype)

    def _get(self, name):
        value = getattr(self, name)
        return value.state_dict() if hasattr(value, "load_state_dict") else value

    def _set(self, name, value):
        have = getattr(self, name)
        if isinstance(have, torch.optim.Optimizer):
            load_in_place(have, value)
        elif hasattr(have, "load_state_dict"):
            have.load_state_dict(value)
        else:
            setattr(self, name, value)


def _sizes(values):
    for value in values:
        if isinstance(value, torch.nn.Module):
            yield from (tensor.numel() * tensor.element_size() for tensor in value.state_dict().values())
        elif isinstance(value, torch.optim.Optimizer):
            for group in value.param_groups:
                yield from (param.numel() * param.element_size() for param in group["params"] for _ in range(_STATES))


__all__ = ["ElasticSampler", "HostsUpdatedInterrupt", "TorchState", "run"]
