"""Graph template: a graph recorded once and built again over other inputs of the same shapes.

Building the nodes from the record is several times faster than the functions that made them, which
check operands, promote dtypes, broadcast shapes and derive the shape of each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from svod_dtype import DType
from svod_ir.build import make_alu, make_permute, make_reshape
from svod_ir.ops import MEMORY, Op
from svod_ir.uop import UOp

__all__ = ["GraphTemplate"]

_MERGED: Final = {Op.RESHAPE: make_reshape, Op.PERMUTE: make_permute}
"""Ops that are merged with an operand of the same op."""
_REGROUPED: Final = frozenset({Op.ADD, Op.MUL})
"""Ops whose integer constants are merged with those of an operand of the same op."""


@dataclass(frozen=True, slots=True)
class GraphTemplate:
    """A graph without its inputs.

    Attributes:
        constants: the nodes without operands.
        steps: op, dtype, operands and arg of every other node in topological order. Operands are
            indices into the inputs, then the constants, then the steps.
        roots: index, shape and placement of each root.

    Example:
        >>> from svod_ir import Op, make_alu
        >>> from svod_ir.graph_template import GraphTemplate
        >>> from svod_ir.testing.nodes import buffer
        >>> a, b, c, d = (buffer(number, 4) for number in range(1, 5))
        >>> template = GraphTemplate.record([make_alu(Op.ADD, a * 2.0, b)], [a, b])
        >>> template.build([c, d]) == [make_alu(Op.ADD, c * 2.0, d)]
        True
    """

    constants: tuple[UOp, ...]
    steps: tuple[tuple[Op, DType, tuple[int, ...], Any], ...]
    roots: tuple[tuple[int, Any, Any], ...]

    @classmethod
    def record(cls, roots: Sequence[UOp], inputs: Sequence[UOp]) -> GraphTemplate | None:
        """Record the graph of `roots` over `inputs`.

        Returns:
            None if the graph cannot be built over other inputs: it reads memory that is not among
            them, or has marks with an identity of their own.
        """
        index_of = {node: index for index, node in enumerate(inputs)}
        order = [
            node
            for node in UOp.sink(*roots).toposort(stop=set(inputs))[:-1]
            if node not in index_of
        ]
        constants = [node for node in order if not node.src]
        if any(node.op in MEMORY or node.op is Op.TRACED for node in order):
            return None
        for node in constants:
            index_of[node] = len(index_of)
        steps: list[tuple[Op, DType, tuple[int, ...], Any]] = []
        for node in order:
            if node.src:
                operands = tuple([index_of[operand] for operand in node.src])
                steps.append((node.op, node.dtype, operands, node.arg))
                index_of[node] = len(index_of)
        return cls(
            tuple(constants),
            tuple(steps),
            tuple([(index_of[root], root.shape, root.placement) for root in roots]),
        )

    def build(self, inputs: Sequence[UOp]) -> list[UOp]:
        """The roots over `inputs`, which must have the shapes, dtypes and placements of the recorded
        inputs.
        """
        nodes = [*inputs, *self.constants]
        add = nodes.append
        for op, dtype, operands, arg in self.steps:
            src = tuple([nodes[index] for index in operands])
            # An input may be merged with its readers, as the builder functions do.
            if src[0].op is op:
                if op in _MERGED:
                    add(_MERGED[op](src[0], arg))
                    continue
                if op in _REGROUPED and dtype.is_int:
                    add(make_alu(op, *src))
                    continue
            add(UOp(op, dtype, src, arg))
        roots: list[UOp] = []
        for index, shape, placement in self.roots:
            root = nodes[index]
            # Known already: to derive them, the shapes of all nodes below would be derived.
            root._shape, root._placement = shape, placement  # pyright: ignore[reportPrivateUsage]
            roots.append(root)
        return roots
