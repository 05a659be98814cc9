"""Elastic jobs, in which ranks may die and hosts come and go: under tuttirun --min-np, see docs/python-torch.md.

Horovod goes on in the processes that are left; tuttirun starts all anew. A script is the same for both: what it goes
on from is in a TorchState, and what it does is in a function with the decorator run.
"""
import functools
import io
import pickle
from typing import Any, Callable, List

import torch

from tutti import _elastic, errors
from tutti._horovod import HostsUpdatedInterrupt  # noqa: F401
from tutti.torch.functions import Place, broadcast_object, map_leaves
from tutti.torch.sampler import ElasticSampler

_HEAD = 8  # the number of bytes of the description, in front of it
_OTHER = 1 << 20  # room for what is no tensor
_STATES = 3  # tensors as large as a parameter that an optimizer may keep of it


def run(function):
    """Makes a function of a state one that begins with what was committed last."""
    return functools.wraps(function)(functools.partial(_elastic.run, function))


def _bytes_of(tensors):
    return sum(-(-tensor.numel() * tensor.element_size() // 64) * 64 for tensor in tensors)


class TorchState:
    """What a training goes on from: models, optimizers, samplers, and other objects, as attributes.

        state = TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)

    They must be equal on all ranks when they are committed. capacity: bytes for all of it, equal in each start of
    the program; by default enough for the models, three tensors of an optimizer for each of its parameters, and 1 MiB.
    """

    def __init__(self, model=None, optimizer=None, capacity=None, **others):
        self._values = {"model": model, "optimizer": optimizer, **others}
        for name, value in self._values.items():
            setattr(self, name, value)
        self._reset_callbacks: List[Callable] = []
        self._buffer = torch.zeros(self._room() if capacity is None else capacity, dtype=torch.uint8)
        self._kept: Any = None

    def _room(self):
        total = _OTHER
        for value in self._values.values():
            if isinstance(value, torch.nn.Module):
                total += _bytes_of(value.state_dict().values())
            elif isinstance(value, torch.optim.Optimizer):
                total += _STATES * _bytes_of(param for group in value.param_groups for param in group["params"])
        return total

    def _keeper(self):
        if self._kept is None:
            self._kept = _elastic.Kept(self._buffer.data_ptr(), self._buffer.numel())
        return self._kept

    def save(self):
        """Writes the attributes into the memory that commit() keeps: a description, that of rank 0, and tensors."""
        tensors: List[torch.Tensor] = []

        def place(leaf):
            if not torch.is_tensor(leaf):
                return leaf
            tensors.append(leaf.detach().contiguous())
            return Place(leaf)

        plan = map_leaves({name: _state_of(getattr(self, name)) for name in self._values}, place)
        text = broadcast_object(pickle.dumps(plan), 0, "elastic_state")
        need = _HEAD + len(text) + 64 + _bytes_of(tensors)
        if need > self._buffer.numel():
            raise errors.NoMemoryError(f"the state takes {need} bytes, and there is room for {self._buffer.numel()}; "
                                       "give TorchState a larger capacity")
        self._buffer[:_HEAD].view(torch.int64)[0] = len(text)
        self._buffer[_HEAD:_HEAD + len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        for part, tensor in zip(self._parts(tensors, len(text)), tensors):
            part.copy_(tensor)

    def _parts(self, likes, length):
        """The place of each tensor in the memory."""
        offset = -(-(_HEAD + length) // 64) * 64
        for like in likes:
            count = like.shape.numel()
            size = count * torch.empty(0, dtype=like.dtype).element_size()
            yield self._buffer[offset:offset + size].view(like.dtype).view(like.shape)
            offset += -(-size // 64) * 64

    def _load(self):
        """Sets the attributes to what is in the memory."""
        length = int(self._buffer[:_HEAD].view(torch.int64)[0])
        plan = pickle.load(io.BytesIO(self._buffer[_HEAD:_HEAD + length].numpy().tobytes()))
        places: List[Place] = []
        map_leaves(plan, lambda leaf: places.append(leaf) if isinstance(leaf, Place) else None)
        parts = self._parts(places, length)
        for name, value in map_leaves(plan, lambda leaf: next(parts).clone() if isinstance(leaf, Place) else leaf).items():
            have = getattr(self, name)
            if hasattr(have, "load_state_dict"):
                have.load_state_dict(value)
            else:
                setattr(self, name, value)

    def commit(self):
        """Keeps the attributes; the job goes on from here if a rank dies. Collective. Raises HostsUpdatedInterrupt if
        the job is to be started anew, which run() sees to."""
        self.save()
        self._keeper().commit()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt as commit() does, and keeps nothing. Collective."""
        self._keeper().check_hosts()

    def restore(self):
        """Sets the attributes to what was committed last, if anything was. Collective."""
        if self._keeper().restore():
            self._load()

    def sync(self):
        """restore(), or, if nothing was committed, gives all ranks what rank 0 has. Collective."""
        self.save()
        self._keeper().sync()
        self._load()

    def register_reset_callbacks(self, callbacks):
        """Functions to call when the job has been started anew, for example to scale the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        for callback in self._reset_callbacks:
            callback()

    @property
    def generation(self):
        """How often the job was started, from 1."""
        return self._keeper().generation

    def close(self):
        """Frees the state, before shutdown()."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _state_of(value):
    return value.state_dict() if hasattr(value, "load_state_dict") else value


__all__ = ["ElasticSampler", "HostsUpdatedInterrupt", "TorchState", "run"]
