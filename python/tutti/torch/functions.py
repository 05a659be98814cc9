"""Parameters, optimizer states and Python objects from one rank to the others."""
import torch

from tutti._horovod import allgather_object, broadcast_object, map_leaves  # noqa: F401
from tutti.torch.mpi_ops import broadcast_async_, global_process_set, rank, synchronize


def broadcast_parameters(params, root_rank, process_set=global_process_set):
    """Gives every rank the root's values, in place.

    params: a model's state_dict(), its named_parameters() or parameters(), or a list of tensors. What is in it and
    no tensor is left as it is.
    """
    if isinstance(params, dict):
        params = sorted(params.items())
    elif isinstance(params, torch.Tensor) or not hasattr(params, "__iter__"):
        raise ValueError(f"broadcast_parameters: params is of type {type(params).__name__}; give a state_dict() or "
                         "named_parameters()")
    else:
        params = [item if isinstance(item, tuple) else (None, item) for item in params]
    handles = []
    for name, value in params:
        if not torch.is_tensor(value):
            continue
        flat = value.detach()
        copy = flat.contiguous()
        name = None if name is None else f"parameter.{name}"
        handles.append((flat, copy, broadcast_async_(copy, root_rank, name, process_set)))
    for flat, copy, handle in handles:
        synchronize(handle)
        if copy is not flat:
            flat.copy_(copy)


class Place:
    """Stands for a tensor of an optimizer's state on its way."""

    def __init__(self, tensor):
        self.shape, self.dtype = tensor.shape, tensor.dtype


def load_in_place(optimizer, state_dict, load=None):
    """load_state_dict() of an optimizer, or `load`, after which its groups and its state are the objects that they
    were: schedulers, and optimizers made of one another, hold them."""
    groups, state = optimizer.param_groups, optimizer.state
    (load or optimizer.load_state_dict)(state_dict)
    if optimizer.param_groups is not groups:
        for group, loaded in zip(groups, optimizer.param_groups):
            group.update(loaded)
        optimizer.param_groups = groups
    if optimizer.state is not state:
        state.clear()
        state.update(optimizer.state)
        optimizer.state = state


def broadcast_optimizer_state(optimizer, root_rank, model=None, process_set=global_process_set):
    """Gives every rank the root's optimizer state and settings, in place.

    The others need no state yet: what they lack is made as on the root, without a step. `model` is accepted for
    Horovod's sake and not needed.
    """
    del model
    is_root = rank() == root_rank
    mine = optimizer.state_dict()
    plan = map_leaves(mine, lambda leaf: Place(leaf) if torch.is_tensor(leaf) else leaf) if is_root else None
    plan = broadcast_object(plan, root_rank, "optimizer_state", process_set)
    tensors = []

    def fill(leaf):
        if isinstance(leaf, Place):
            leaf = torch.empty(leaf.shape, dtype=leaf.dtype)
        if torch.is_tensor(leaf):
            tensors.append(leaf)
        return leaf

    state = map_leaves(mine if is_root else plan, fill)
    broadcast_parameters([(f"optimizer_state.{i}", tensor) for i, tensor in enumerate(tensors)], root_rank, process_set)
    if not is_root:
        load_in_place(optimizer, state)
