"""Text of a tensor: `repr`, `str` and format specifications."""

from __future__ import annotations

from svod_ir import UOp
from svod_ir.args import GradientArg
from svod_ir.ops import MARKS
from svod_tensor._text import describe_shape, format_array, format_elements
from svod_tensor.cells.registry import find_capture
from svod_tensor.errors import DonatedTensorError
from svod_tensor.ops.core.operation import special_method
from svod_tensor.ops.interface.reading import find_values, host_array
from svod_tensor.tensor import Tensor

__all__: list[str] = []


def _name_root(node: UOp) -> str:
    """Name of the op, or of the operation with a gradient rule, that computes a node."""
    while node.op in MARKS:
        if isinstance(node.arg, GradientArg):
            return node.arg.rule.name
        node = node.source
    return node.op.name


@special_method()
def __repr__(x: Tensor, /) -> str:
    kind = type(x).__name__
    try:
        # A captured function has no values to show. Elsewhere `find_values` computes nothing: a
        # debugger that shows a tensor must not change what is computed.
        array = None if find_capture() is not None else find_values(x)
        facts = f"shape={describe_shape(x.shape)}", f"dtype={x.dtype}", f"device={x.device}"
        if array is not None:
            return format_array(kind, array, ", ".join(facts))
        state = "realized" if x.is_realized else f"lazy {_name_root(x.uop)}"
        return f"<{' '.join((kind, *facts, state))}>"
    except DonatedTensorError as error:
        return f"<{kind} donated to {error.taker} as {error.argument}>"


@special_method()
def __format__(x: Tensor, /, format_spec: str) -> str:
    # A format specification is for a number; 0-d tensors format as numbers in f-strings too.
    is_number = x.ndim == 0 and find_capture() is None
    if not format_spec:
        return str(host_array(x)[()]) if is_number else str(x)
    return (
        format(x.item(), format_spec)
        if x.size == 1
        else format_elements(host_array(x), format_spec)
    )
