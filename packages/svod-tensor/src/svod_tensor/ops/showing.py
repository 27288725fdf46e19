"""The text of a tensor: for people, in formatted strings, and where a program is looked at."""

from __future__ import annotations

from svod_ir import UOp
from svod_ir.args import GradientArg
from svod_ir.ops import MARKS
from svod_tensor._text import describe_shape, format_array, format_elements
from svod_tensor.cells.registry import find_capture
from svod_tensor.errors import DonatedTensorError
from svod_tensor.ops.theme import Theme

__all__ = ["Showing"]


def _name_root(node: UOp) -> str:
    """What computes a node last: an op, or an operation of several ops that has a derivative of its own."""
    while node.op in MARKS:
        if isinstance(node.arg, GradientArg):
            return node.arg.rule.name
        node = node.src[0]
    return node.op.name


class Showing(Theme):
    """What `print`, `repr` and `format` show."""

    __slots__ = ()

    def __repr__(self) -> str:
        kind = type(self).__name__
        try:
            # A function that is captured sees no values.
            array = None if find_capture() is not None else self._find_values()
            facts = f"shape={describe_shape(self.shape)}", f"dtype={self.dtype}", f"device={self.device}"
            if array is not None:
                return format_array(kind, array, ", ".join(facts))
            state = "realized" if self.is_realized else f"lazy {_name_root(self.uop)}"
            return f"<{' '.join((kind, *facts, state))}>"
        except DonatedTensorError as error:
            return f"<{kind} given away to {error.taker} as {error.argument}>"

    def __format__(self, format_spec: str) -> str:
        # What a specification is for is a number, and so are tensors of one in the text of a program.
        is_number = self.ndim == 0 and find_capture() is None
        if not format_spec:
            return str(self._host_array()[()]) if is_number else str(self)
        return format(self.item(), format_spec) if self.size == 1 else format_elements(self._host_array(), format_spec)
