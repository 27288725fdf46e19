"""Custom functions: Python functions on arrays that take their place in a graph between kernels.

A function is registered under a kind and called with tensors; nothing runs before a result is computed. It is part of
plans, of `jit` and of profiles like any kernel, and runs at each execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, overload

from svod_device import Buffer, evaluate_expression
from svod_dtype import bool_, float64, int64, to_dtype, void
from svod_ir.custom_function import ArraySpec, make_custom_function, read_signature
from svod_ir.errors import OperandError, ShapeError
from svod_ir.ops import Op
from svod_ir.sizes import max_size
from svod_ir.uop import SInt, UOp
from svod_runtime import register_custom_function as register_on_buffers
from svod_tensor.memory_views import view_prefix
from svod_tensor.ops.base import DTypeLike
from svod_tensor.shapes import to_shape
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["custom_function", "register_custom_function"]

Output: TypeAlias = tuple[SInt | Sequence[SInt], DTypeLike]
Number: TypeAlias = bool | int | float | UOp


def register_custom_function(kind: str, function: Callable[..., None]) -> None:
    """Let custom functions of this kind call `function(*outputs, *inputs, *numbers)` from now on.

    Args:
        kind: a name; one that was registered before gets the new function.
        function: fills the outputs, which are numpy arrays, and must not write to the inputs. On the CPU all of them
            are the memory itself. It is called at each execution, in whichever thread executes the plan.
    """

    def run(buffers: Sequence[Buffer], variables: Mapping[str, int], operands: Sequence[UOp]) -> None:
        signature = read_signature(UOp(Op.CUSTOM_FUNCTION, void, tuple(operands), kind))
        memory, *read = buffers
        content = _writable_bytes(memory)
        outputs = [
            _to_array(content[begin : begin + spec.nbytes], spec, variables)
            for begin, spec in zip(signature.offsets, signature.outputs, strict=True)
        ]
        inputs = [
            _to_array(b.as_memoryview() if b.is_host_addressable else memoryview(b.to_bytes()), spec, variables)
            for b, spec in zip(read, signature.inputs, strict=True)
        ]
        for array in inputs:
            array.flags.writeable = False
        function(*outputs, *inputs, *(_to_number(n, variables) for n in signature.numbers))
        if not memory.is_host_addressable:
            memory.copyin(content)

    register_on_buffers(kind, run)


@overload
def custom_function(kind: str, *inputs: Tensor, outputs: Output, numbers: Sequence[Number] = ()) -> Tensor: ...
@overload
def custom_function(
    kind: str, *inputs: Tensor, outputs: list[Output], numbers: Sequence[Number] = ()
) -> tuple[Tensor, ...]: ...
def custom_function(
    kind: str, *inputs: Tensor, outputs: Output | list[Output], numbers: Sequence[Number] = ()
) -> Tensor | tuple[Tensor, ...]:
    """The tensors that the function registered for `kind` makes of `inputs`.

    The results depend on nothing but the inputs and numbers: equal calls in one graph are made once.

    Args:
        kind: which function; it may be registered later, before the results are computed.
        inputs: tensors on one device, computed before the function is called.
        outputs: the shape and dtype of the result; a list of them gives a tuple of results.
        numbers: further arguments, numbers or bound variables, which come as numbers.

    Example:
        >>> import numpy as np
        >>> from svod_tensor import Tensor, custom_function, register_custom_function
        >>> register_custom_function("sinc", lambda out, x: np.copyto(out, np.sinc(x)))
        >>> x = Tensor([0.0, 0.5])
        >>> (custom_function("sinc", x, outputs=(x.shape, x.dtype)) * 2).numpy().round(3).tolist()
        [2.0, 1.2730000019073486]

    Raises:
        ShapeError: if an input or output has no elements.
        OperandError: if an input is spread over several devices.
        UnsupportedError: when the result is computed, if nothing is registered for `kind`.
    """
    wanted = outputs if isinstance(outputs, list) else [outputs]
    specs = [ArraySpec(to_dtype(dtype), to_shape(kind, (shape,))) for shape, dtype in wanted]
    for shape in (*(s.shape for s in specs), *(x.shape for x in inputs)):
        if not all(map(max_size, shape)):
            raise ShapeError(operation=f"custom function {kind!r}", shape=shape, problem="has no elements")
    for x in inputs:
        if x.sharding is not None:
            raise OperandError(
                operation=f"custom function {kind!r}", found=f"shards on {x.device}", expected="tensors on one device"
            )
    read = [x.contiguous().uop for x in inputs]
    node = make_custom_function(kind, specs, read, list(map(_to_node, numbers)))
    if not isinstance(outputs, list):
        return Tensor.from_uop(node)
    if len(specs) == 1:
        return (Tensor.from_uop(node),)
    offsets = read_signature(node).offsets
    return tuple(Tensor.from_uop(_make_part(node, begin, spec)) for begin, spec in zip(offsets, specs, strict=True))


def _make_part(memory: UOp, begin: int, spec: ArraySpec) -> UOp:
    """The output that begins at byte `begin` of the memory of several."""
    return view_prefix(UOp(Op.BUFFER_VIEW, spec.dtype, (memory,), (begin, spec.n_elements)), spec.shape)


def _writable_bytes(memory: Buffer) -> memoryview:
    return memory.as_memoryview() if memory.is_host_addressable else memoryview(bytearray(memory.nbytes))


def _to_array(content: memoryview, spec: ArraySpec, variables: Mapping[str, int]) -> NDArray[np.generic]:
    import numpy as np

    shape = tuple(s if isinstance(s, int) else evaluate_expression(s, variables) for s in spec.shape)
    flat = np.frombuffer(content, spec.dtype.numpy)
    return flat[: int(np.prod(shape))].reshape(shape)


def _to_node(number: Number) -> UOp:
    if isinstance(number, UOp):
        return number
    return UOp.const(bool_ if isinstance(number, bool) else int64 if isinstance(number, int) else float64, number)


def _to_number(node: UOp, variables: Mapping[str, int]) -> bool | int | float:
    return node.arg if node.op is Op.CONST else evaluate_expression(node.cast(int64), variables)
