"""Tensors by name, as optimizers and averages keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from svod_nn._module import Module
from svod_nn._walk import iter_leaves
from svod_nn.errors import StateDictError
from svod_tensor import Tensor, bfloat16, float16, float32

__all__ = ["Parameters", "load_tensors", "name_tensors", "place_like", "widen"]

Parameters: TypeAlias = Module | Mapping[str, Any] | Iterable[Any] | Tensor
"""A module, whose parameters have their names; or tensors in nested lists, tuples and dicts, whose paths are their names."""


def name_tensors(tree: object) -> dict[str, Tensor]:
    """The parameters of a module that are not frozen, or the tensors in nested lists, tuples and dicts, by name."""
    if isinstance(tree, Module):
        return tree.trainable_parameters()
    is_iterator = isinstance(tree, Iterator)
    leaves = iter_leaves(list(cast("Iterator[object]", tree)) if is_iterator else tree, (Tensor,), "")
    return {path.removeprefix("."): cast("Tensor", leaf) for path, leaf in leaves}


def widen(tensor: Tensor) -> Tensor:
    """A tensor of 16 bits in float32: small changes of it would be lost."""
    return tensor.cast(float32) if tensor.dtype in (float16, bfloat16) else tensor


def place_like(value: Tensor, like: Tensor) -> Tensor:
    """A tensor where another one is: spread as that is if it has its shape, else whole on each of its devices."""
    sharding = like.sharding
    if sharding is None:
        return value if value.device == like.device else value.to(str(like.device))
    axis = sharding.axis if value.shape == like.shape else None
    found = value.sharding
    if found is not None and (found.devices, found.axis) == (sharding.devices, axis):
        return value
    return value.shard(sharding.devices, axis)


def load_tensors(owner: str, own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Assign to the tensors that something has those of a state with the same names.

    Raises:
        StateDictError: if names or shapes differ; nothing is assigned then.
    """
    missing, unexpected = [n for n in own if n not in state], [n for n in state if n not in own]
    shapes = {n: (own[n].shape, state[n].shape) for n in own if n in state and own[n].shape != state[n].shape}
    if missing or unexpected or shapes:
        raise StateDictError(module=owner, missing=missing, unexpected=unexpected, shapes=shapes)
    for name, tensor in own.items():
        tensor.assign(place_like(state[name], tensor).cast(tensor.dtype))
    Tensor.realize_batch(list(own.values()))
