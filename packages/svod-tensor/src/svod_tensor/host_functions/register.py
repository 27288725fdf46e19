"""Registration of Python functions on arrays as custom functions of the runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from svod_device import Buffer, evaluate_expression
from svod_dtype import int64, void
from svod_ir import Op, UOp
from svod_ir.custom_function import ArraySpec, CustomSignature, read_signature
from svod_runtime import CustomFunction, register_custom_function as register_on_buffers
from svod_tensor.host_functions.libraries import FUNCTIONS
from svod_tensor.host_functions.sort_rows import SORT, sort_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["register_built_in", "register_custom_function"]

_BUILT_IN: Final[Mapping[str, Callable[..., None]]] = {
    SORT: sort_rows,
    **FUNCTIONS,
}


def register_custom_function(kind: str, function: Callable[..., None]) -> None:
    """Register `function(*outputs, *inputs, *numbers)` for custom functions of a kind.

    Args:
        kind: a name; a function registered before is replaced.
        function: a function that fills the outputs, which are numpy arrays, and must not write to
            the inputs. On the CPU the arrays share memory with the tensors. It is called at each
            execution, in the thread that executes the plan.

    Example:
        >>> import numpy as np
        >>> from svod_dtype import float32
        >>> from svod_ir.custom_function import ArraySpec, make_custom_function
        >>> from svod_tensor import Tensor, register_custom_function
        >>> register_custom_function("reverse", lambda out, x: np.copyto(out, x[::-1]))
        >>> x = Tensor([1.0, 2.0, 3.0]).realize()
        >>> Tensor.from_uop(make_custom_function("reverse", [ArraySpec(float32, (3,))], [x.uop])).tolist()
        [3.0, 2.0, 1.0]
    """
    register_on_buffers(kind, _on_buffers(kind, function))


def register_built_in() -> None:
    """Register the functions that operations of `Tensor` call."""
    for kind, function in _BUILT_IN.items():
        register_on_buffers(kind, _on_buffers(kind, function), is_built_in=True)


def _on_buffers(kind: str, function: Callable[..., None]) -> CustomFunction:
    def run(
        buffers: Sequence[Buffer], variables: Mapping[str, int], operands: Sequence[UOp]
    ) -> None:
        signature, bounds = _read_signature(kind, tuple(operands))
        memory, *read = buffers
        data = _writable_bytes(memory)
        outputs = [
            _to_array(data[begin:end], spec, variables)
            for (begin, end), spec in zip(bounds, signature.outputs, strict=True)
        ]
        inputs = [
            _to_array(
                b.as_memoryview() if b.is_host_addressable else memoryview(b.to_bytes()),
                spec,
                variables,
            )
            for b, spec in zip(read, signature.inputs, strict=True)
        ]
        for array in inputs:
            # An input may be memory of a tensor, whose node would go on standing for the old
            # elements.
            array.flags.writeable = False
        function(*outputs, *inputs, *(_to_number(n, variables) for n in signature.scalars))
        # The function has filled a copy on the host.
        if not memory.is_host_addressable:
            memory.copyin(data)

    return run


# Each execution of a plan passes the same operands.
@lru_cache(maxsize=256)
def _read_signature(
    kind: str, operands: tuple[UOp, ...]
) -> tuple[CustomSignature, tuple[tuple[int, int], ...]]:
    """The signature of a call, and the bytes of each output."""
    signature = read_signature(UOp(Op.CUSTOM_FUNCTION, void, operands, kind))
    pairs = zip(signature.offsets, signature.outputs, strict=True)
    return signature, tuple((begin, begin + spec.nbytes) for begin, spec in pairs)


def _writable_bytes(memory: Buffer) -> memoryview:
    return (
        memory.as_memoryview()
        if memory.is_host_addressable
        else memoryview(bytearray(memory.nbytes))
    )


def _to_array(
    data: memoryview, spec: ArraySpec, variables: Mapping[str, int]
) -> NDArray[np.generic]:
    import numpy as np

    flat = np.frombuffer(data, spec.dtype.numpy)
    shape = tuple(
        [s if isinstance(s, int) else evaluate_expression(s, variables) for s in spec.shape]
    )
    # Memory of a symbolic size has room for its largest value.
    return flat[: math.prod(shape)].reshape(shape)


def _to_number(node: UOp, variables: Mapping[str, int]) -> bool | int | float:
    return node.arg if node.op is Op.CONST else evaluate_expression(node.cast(int64), variables)
