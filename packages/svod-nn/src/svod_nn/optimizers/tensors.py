"""Named parameters and gradients, as optimizers and averages use them."""

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
"""Parameters: a module, or nested lists, tuples and dicts of tensors, which are named by paths."""


def name_tensors(tree: object) -> dict[str, Tensor]:
    """Return the trainable parameters of a module, or the tensors of a tree, by name."""
    if isinstance(tree, Module):
        return tree.trainable_parameters()
    # `iter_leaves` walks containers; an iterator can be read only once, so it becomes a list.
    is_iterator = isinstance(tree, Iterator)
    leaves = iter_leaves(
        list(cast("Iterator[object]", tree)) if is_iterator else tree, (Tensor,), ""
    )
    return {path.removeprefix("."): cast("Tensor", leaf) for path, leaf in leaves}


def check_parameters(owner: str, tree: object, tensors: Mapping[str, Tensor]) -> frozenset[str]:
    """Check that the parameters of a module have not changed since `owner` was created.

    Returns:
        the names of the parameters frozen since, which have no gradients.

    Raises:
        ParametersChangedError: if parameters were replaced, added or removed.
    """
    if not isinstance(tree, Module):
        return frozenset()
    trainable = tree.trainable_parameters()
    absent = [name for name in tensors if name not in trainable]
    # The usual case, checked at each step without walking the module again.
    if (
        len(trainable) == len(tensors)
        and not absent
        and all(trainable[name] is tensor for name, tensor in tensors.items())
    ):
        return frozenset()
    # A frozen parameter is still there: it is missing from the trainable ones, but not removed.
    current = dict(tree.named_parameters()) if absent else trainable
    replaced = [n for n, tensor in tensors.items() if n in current and current[n] is not tensor]
    added = [name for name in trainable if name not in tensors]
    removed = [name for name in absent if name not in current]
    if replaced or added or removed:
        raise ParametersChangedError(owner=owner, replaced=replaced, added=added, removed=removed)
    return frozenset(absent)


def check_gradient_names(
    owner: str,
    tensors: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    frozen: frozenset[str] = frozenset(),
) -> None:
    """Check that there is one gradient for each parameter that is not frozen, and no other.

    Raises:
        GradientNameError: if a gradient has no parameter, or a frozen one.
        MissingGradientError: if a floating-point parameter has no gradient.
    """
    unknown = [name for name in gradients if name not in tensors or name in frozen]
    # Integers have no gradient, so none is missing.
    missing = [
        n for n, t in tensors.items() if n not in gradients and n not in frozen and t.dtype.is_float
    ]
    if unknown:
        known = [name for name in tensors if name not in frozen]
        raise GradientNameError(optimizer=owner, names=unknown, known=known)
    if missing:
        raise MissingGradientError(optimizer=owner, names=missing)


def widen(tensor: Tensor) -> Tensor:
    """Cast a tensor of 16 bits to float32, in which small updates are not lost."""
    # float64 stays as it is.
    return tensor.cast(float32) if tensor.dtype in (float16, bfloat16) else tensor
