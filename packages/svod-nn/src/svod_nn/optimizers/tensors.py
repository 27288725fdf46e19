"""Tensors by name, as optimizers and averages keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from svod_nn._module import Module
from svod_nn._walk import iter_leaves
from svod_nn.errors import GradientNameError, MissingGradientError, ParametersChangedError
from svod_tensor import Tensor, bfloat16, float16, float32

__all__ = [
    "Parameters",
    "check_gradient_names",
    "check_parameters",
    "name_tensors",
    "widen",
]

Parameters: TypeAlias = Module | Mapping[str, Any] | Iterable[Any] | Tensor
"""A module, whose parameters have their names; or tensors in nested lists, tuples and dicts, whose
paths are their names.
"""


def name_tensors(tree: object) -> dict[str, Tensor]:
    """The parameters of a module that are not frozen, or the tensors in nested lists, tuples and
    dicts, by name.
    """
    if isinstance(tree, Module):
        return tree.trainable_parameters()
    is_iterator = isinstance(tree, Iterator)
    leaves = iter_leaves(
        list(cast("Iterator[object]", tree)) if is_iterator else tree, (Tensor,), ""
    )
    return {path.removeprefix("."): cast("Tensor", leaf) for path, leaf in leaves}


def check_parameters(owner: str, tree: object, tensors: Mapping[str, Tensor]) -> frozenset[str]:
    """Check that a model, if `tree` is one, still has the parameters that it had when `owner` was
    made.

    Returns:
        the names of the parameters that were frozen since, which have no gradients.

    Raises:
        ParametersChangedError: if they were replaced, or others came or went.
    """
    if not isinstance(tree, Module):
        return frozenset()
    now = tree.trainable_parameters()
    absent = [name for name in tensors if name not in now]
    if (
        len(now) == len(tensors)
        and not absent
        and all(now[name] is tensor for name, tensor in tensors.items())
    ):
        return frozenset()
    everything = dict(tree.named_parameters()) if absent else now
    replaced = [
        n for n, tensor in tensors.items() if n in everything and everything[n] is not tensor
    ]
    added = [name for name in now if name not in tensors]
    removed = [name for name in absent if name not in everything]
    if replaced or added or removed:
        raise ParametersChangedError(owner=owner, replaced=replaced, added=added, removed=removed)
    return frozenset(absent)


def check_gradient_names(
    owner: str,
    tensors: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    frozen: frozenset[str] = frozenset(),
) -> None:
    """Check that there is a gradient for each parameter that is not frozen, and no other one.

    Raises:
        GradientNameError: if a gradient belongs to no parameter, or to a frozen one.
        MissingGradientError: if a parameter has none.
    """
    unknown = [name for name in gradients if name not in tensors or name in frozen]
    missing = [
        n for n, t in tensors.items() if n not in gradients and n not in frozen and t.dtype.is_float
    ]
    if unknown:
        known = [name for name in tensors if name not in frozen]
        raise GradientNameError(optimizer=owner, names=unknown, known=known)
    if missing:
        raise MissingGradientError(optimizer=owner, names=missing)


def widen(tensor: Tensor) -> Tensor:
    """A tensor of 16 bits in float32: small changes of it would be lost."""
    return tensor.cast(float32) if tensor.dtype in (float16, bfloat16) else tensor
