"""Calls of host functions of libraries as nodes of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_dtype import DType, bool_, int64
from svod_ir import Sharding, UOp
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import max_size
from svod_tensor._shapes import Shape, concrete_shape
from svod_tensor._shards import move_like
from svod_tensor.host_functions.libraries import FUNCTIONS
from svod_tensor.host_functions.outputs import list_outputs

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["call_host"]


def call_host(
    kind: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[tuple[Shape, DType]],
    numbers: Sequence[bool | int] = (),
) -> tuple[Tensor, ...]:
    """The results of a host function on `inputs`, with the shapes and dtypes of `outputs`.

    Complex numbers are read and written as pairs of floats. Sharded inputs are gathered on the first
    of their devices, and results are replicated on all of them."""
    first = inputs[0]
    dtypes = [*(dtype for _, dtype in outputs), *(x.dtype for x in inputs)]
    # Memory is never complex: the mask tells the function which arrays are (`libraries`).
    numbers = [sum(1 << n for n, dtype in enumerate(dtypes) if dtype.is_complex), *numbers]
    # No element is to be computed, so the function is not called.
    if all(_is_empty(shape) for shape, _ in outputs):
        zeros = [first.zeros(*shape, dtype=dtype).uop for shape, dtype in outputs]
        return tuple(first.from_uop(move_like(node, first.uop)) for node in zeros)
    if any(_is_empty(x.shape) for x in inputs):
        return _call_now(kind, inputs, outputs, numbers)
    gathered = [x if x.sharding is None else x.to(x.sharding.devices[0]) for x in inputs]
    specs = [ArraySpec(dtype.part, _get_stored_shape(shape, dtype)) for shape, dtype in outputs]
    # A host function reads memory: views and pending operations are stored first.
    operands = [(x.as_real() if x.dtype.is_complex else x).contiguous().uop for x in gathered]
    node = make_custom_function(
        kind,
        specs,
        operands,
        [UOp.const(bool_ if isinstance(n, bool) else int64, n) for n in numbers],
    )
    sharded = next((x.uop for x in inputs if isinstance(x.uop.placement, Sharding)), None)
    nodes = [n if sharded is None else move_like(n, sharded) for n in list_outputs(node)]
    results = [first.from_uop(n) for n in nodes]
    return tuple(
        x.as_complex() if dtype.is_complex else x
        for x, (_, dtype) in zip(results, outputs, strict=True)
    )


def _get_stored_shape(shape: Shape, dtype: DType) -> Shape:
    return (*shape, 2) if dtype.is_complex else shape


def _is_empty(shape: Shape) -> bool:
    return not all(map(max_size, shape))


def _call_now(
    kind: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[tuple[Shape, DType]],
    numbers: Sequence[bool | int],
) -> tuple[Tensor, ...]:
    """Results for empty inputs, such as the determinant of a 0x0 matrix, which depend on shapes only.

    A graph has no memory for empty tensors, so that the function is called immediately."""
    import numpy as np

    specs = [*outputs, *((x.shape, x.dtype) for x in inputs)]
    arrays = [
        np.zeros(concrete_shape(kind, _get_stored_shape(s, d)), d.part.numpy) for s, d in specs
    ]
    FUNCTIONS[kind](*arrays, *numbers)
    first = inputs[0]
    tensors = [type(first)(array) for array in arrays[: len(outputs)]]
    results = [
        x.as_complex() if dtype.is_complex else x
        for x, (_, dtype) in zip(tensors, outputs, strict=True)
    ]
    return tuple(first.from_uop(move_like(x.uop, first.uop)) for x in results)
