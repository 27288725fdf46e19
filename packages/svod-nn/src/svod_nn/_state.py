"""Assigns saved states to the tensors of modules, optimizers and averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svod_nn.errors import StateDictError
from svod_tensor import Tensor

__all__ = ["load_tensors", "place_like"]


def load_tensors(
    owner: str, own: Mapping[str, Tensor], state: Mapping[str, Any], *, strict: bool = True
) -> None:
    """Assign to tensors the values of the same names, of any dtype, device or library.

    Args:
        owner: the class of the object that has the tensors.
        own: the tensors.
        state: tensors, arrays of numpy, or tensors of PyTorch and JAX.
        strict: whether both have to have the same names.

    Raises:
        StateDictError: if names or shapes differ; nothing is assigned then.
    """
    missing = [name for name in own if name not in state] if strict else []
    unexpected = [name for name in state if name not in own] if strict else []
    values = {n: v if isinstance(v := state[n], Tensor) else Tensor(v) for n in own if n in state}
    shapes = {
        n: (own[n].shape, value.shape) for n, value in values.items() if own[n].shape != value.shape
    }
    if missing or unexpected or shapes:
        raise StateDictError(module=owner, missing=missing, unexpected=unexpected, shapes=shapes)
    for name, value in values.items():
        own[name].assign(place_like(value, own[name]).cast(own[name].dtype))
    Tensor.realize_batch([own[name] for name in values])


def place_like(value: Tensor, like: Tensor) -> Tensor:
    """A tensor where another one is: spread as that is if it has its shape, else whole on each of
    its devices.
    """
    sharding = like.sharding
    if sharding is None:
        return value if value.device == like.device else value.to(str(like.device))
    axis = sharding.axis if value.shape == like.shape else None
    found = value.sharding
    if found is not None and (found.devices, found.axis) == (sharding.devices, axis):
        return value
    return value.shard(sharding.devices, axis)
