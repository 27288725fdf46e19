"""Loading of saved states into the tensors of modules, optimizers and averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svod_nn.errors import StateDictError
from svod_tensor import Tensor

__all__ = ["load_tensors", "move_like"]


def load_tensors(
    owner: str, own: Mapping[str, Tensor], state: Mapping[str, Any], *, strict: bool = True
) -> None:
    """Assign the values of a state to the tensors of the same names.

    Args:
        owner: class name of the object that owns the tensors, for errors.
        own: tensors to assign to.
        state: values of any dtype and device: tensors, or arrays of NumPy, PyTorch and JAX.
        strict: if True, the names must be equal.

    Raises:
        StateDictError: if names or shapes differ; no tensor is assigned then.
    """
    missing = [name for name in own if name not in state] if strict else []
    unexpected = [name for name in state if name not in own] if strict else []
    values = {n: v if isinstance(v := state[n], Tensor) else Tensor(v) for n in own if n in state}
    # All problems are collected before the first assignment: an error lists them together and
    # leaves all values unchanged.
    shapes = {
        n: (own[n].shape, value.shape) for n, value in values.items() if own[n].shape != value.shape
    }
    if missing or unexpected or shapes:
        raise StateDictError(module=owner, missing=missing, unexpected=unexpected, shapes=shapes)
    for name, value in values.items():
        own[name].assign(move_like(value, own[name]).cast(own[name].dtype))
    # Computed at once, so that a file that is mapped into memory need not stay there.
    Tensor.realize_batch([own[name] for name in values])


def move_like(value: Tensor, like: Tensor) -> Tensor:
    """Move a tensor to the devices of another.

    It is sharded likewise if the shapes are equal, and else replicated on each device.
    """
    sharding = like.sharding
    if sharding is None:
        return value if value.device == like.device else value.to(str(like.device))
    # A scalar that goes with a sharded tensor is replicated: it has no such axis.
    axis = sharding.axis if value.shape == like.shape else None
    current = value.sharding
    if current is not None and (current.devices, current.axis) == (sharding.devices, axis):
        return value
    return value.shard(sharding.devices, axis)
