"""Custom functions: Python functions on arrays as nodes of the graph, called between kernels.

A function is registered under a kind, and called with tensors lazily. It is part of plans, of `jit`
and of profiles like any kernel, and runs at each execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, overload

from svod_dtype import bool_, float64, int64, to_dtype
from svod_ir import OperandError, ShapeError, SInt, UOp, format_shape
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import max_size
from svod_tensor._shapes import to_shape
from svod_tensor.host_functions.outputs import list_outputs
from svod_tensor.ops.core.base import DTypeLike
from svod_tensor.tensor import Tensor

__all__ = ["custom_function"]

Output: TypeAlias = tuple[SInt | Sequence[SInt], DTypeLike]
Number: TypeAlias = bool | int | float | UOp


@overload
def custom_function(
    kind: str, *inputs: Tensor, outputs: Output, numbers: Sequence[Number] = ()
) -> Tensor: ...
@overload
def custom_function(
    kind: str, *inputs: Tensor, outputs: list[Output], numbers: Sequence[Number] = ()
) -> tuple[Tensor, ...]: ...
def custom_function(
    kind: str, *inputs: Tensor, outputs: Output | list[Output], numbers: Sequence[Number] = ()
) -> Tensor | tuple[Tensor, ...]:
    """Call the function registered for `kind` on `inputs`.

    The results must depend only on the inputs and numbers: equal calls in one graph are merged. The
    function gets complex inputs and results as arrays of floats with a trailing axis of size 2, the
    real parts first; `array.view("complex64")[..., 0]` is the complex array.

    Args:
        kind: the name of the function, which may be registered later, before the results are
            computed.
        inputs: tensors on one device, computed before the function is called.
        outputs: the shape and dtype of the result, or a list of them for a tuple of results.
        numbers: scalar arguments: numbers or bound variables, which are passed as numbers.

    Example:
        >>> import numpy as np
        >>> from svod_tensor import Tensor, custom_function, register_custom_function
        >>> register_custom_function("sinc", lambda out, x: np.copyto(out, np.sinc(x)))
        >>> x = Tensor([0.0, 0.5])
        >>> (custom_function("sinc", x, outputs=(x.shape, x.dtype)) * 2).numpy().round(3).tolist()
        [2.0, 1.2730000019073486]

    Raises:
        ShapeError: if an input or output has no elements.
        OperandError: if an input is sharded.
        UnsupportedError: when the result is computed, if no function is registered for `kind`.
    """
    output_specs = outputs if isinstance(outputs, list) else [outputs]
    dtypes = [to_dtype(dtype) for _, dtype in output_specs]
    shapes = [to_shape(kind, (shape,)) for shape, _ in output_specs]
    specs = [
        ArraySpec(dtype.part, (*shape, 2) if dtype.is_complex else shape)
        for dtype, shape in zip(dtypes, shapes, strict=True)
    ]
    for shape in (*(s.shape for s in specs), *(x.shape for x in inputs)):
        # A graph has no memory for tensors without elements.
        if not all(map(max_size, shape)):
            raise ShapeError(
                operation=f"custom function {kind!r}",
                shape=shape,
                problem=f"zero-size operands and results are not supported: {format_shape(shape)}",
            )
    for x in inputs:
        # A host function gets one array for each operand.
        if x.sharding is not None:
            raise OperandError(
                operation=f"custom function {kind!r}",
                found=f"shards on {x.device}",
                expected="tensors on one device",
            )
    # The function reads memory, so that views and pending operations are stored first.
    operands = [(x.as_real() if x.dtype.is_complex else x).contiguous().uop for x in inputs]
    node = make_custom_function(kind, specs, operands, list(map(_to_node, numbers)))
    tensors = map(Tensor.from_uop, list_outputs(node) if isinstance(outputs, list) else [node])
    results = [
        result.as_complex() if dtype.is_complex else result
        for result, dtype in zip(tensors, dtypes, strict=True)
    ]
    return tuple(results) if isinstance(outputs, list) else results[0]


def _to_node(number: Number) -> UOp:
    if isinstance(number, UOp):
        return number
    return UOp.const(
        # bool first: in Python, True is an int.
        bool_ if isinstance(number, bool) else int64 if isinstance(number, int) else float64,
        number,
    )
