"""Calls of functions of matrices that the host computes, as nodes of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from svod_dtype import DType, bool_
from svod_ir import Sharding, UOp
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import max_size
from svod_tensor._shapes import Shape, concrete_shape
from svod_tensor._shards import bring_to
from svod_tensor.ops.theme import Theme
from svod_tensor.python_functions.libraries import FUNCTIONS
from svod_tensor.python_functions.outputs import list_outputs

__all__ = ["call_host"]

T = TypeVar("T", bound=Theme)


def call_host(
    kind: str, inputs: Sequence[T], outputs: Sequence[tuple[Shape, DType]], flags: Sequence[bool] = ()
) -> tuple[T, ...]:
    """What the function of this kind makes of `inputs`, of the given shapes and dtypes.

    Shards are brought to the first of their devices, and each result is on all of them.
    """
    first = inputs[0]
    if all(_is_empty(shape) for shape, _ in outputs):
        found = [first.zeros(*shape, dtype=dtype).uop for shape, dtype in outputs]
        return tuple(first.from_uop(bring_to(node, first.uop)) for node in found)
    if any(_is_empty(x.shape) for x in inputs):
        return _call_now(kind, inputs, outputs, flags)
    whole = [x if x.sharding is None else x.to(x.sharding.devices[0]) for x in inputs]
    specs = [ArraySpec(dtype, shape) for shape, dtype in outputs]
    read = [x.contiguous().uop for x in whole]
    node = make_custom_function(kind, specs, read, [UOp.const(bool_, flag) for flag in flags])
    spread = next((x.uop for x in inputs if isinstance(x.uop.placement, Sharding)), None)
    nodes = list_outputs(node)
    return tuple(first.from_uop(n if spread is None else bring_to(n, spread)) for n in nodes)


def _is_empty(shape: Shape) -> bool:
    return not all(map(max_size, shape))


def _call_now(
    kind: str, inputs: Sequence[T], outputs: Sequence[tuple[Shape, DType]], flags: Sequence[bool]
) -> tuple[T, ...]:
    """What is made of no elements, such as the determinant of a matrix of size 0: it depends on shapes alone."""
    import numpy as np

    read = [np.zeros(concrete_shape(kind, x.shape), x.dtype.numpy) for x in inputs]
    arrays = [np.zeros(concrete_shape(kind, shape), dtype.numpy) for shape, dtype in outputs]
    FUNCTIONS[kind](*arrays, *read, *flags)
    first = inputs[0]
    return tuple(first.from_uop(bring_to(type(first)(array).uop, first.uop)) for array in arrays)
