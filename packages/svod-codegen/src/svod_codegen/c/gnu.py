"""C for gcc and clang: vectors are the compilers' own vector types where their size allows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_codegen.c.renderer import CRenderer
from svod_dtype import DType
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["GnuCRenderer"]

_FLOAT_OPERATORS: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FDIV: "/"}
_WRAPPING_OPERATORS: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"}
_BIT_OPERATORS: Final = {Op.AND: "&", Op.OR: "|", Op.XOR: "^"}


class GnuCRenderer(CRenderer):
    """C99 with the vector extensions of gcc (from version 9) and clang.

    Comparisons, selections and extrema are written lane by lane: both compilers join the lanes to masked instructions,
    where gcc takes comparisons of whole vectors apart.
    """

    def declare_vector(self, dtype: DType) -> str:
        if not self._is_native(dtype):
            return super().declare_vector(dtype)
        element, name = self._element(dtype), self.vector_type(dtype)
        size = dtype.itemsize * dtype.lanes
        lines = [f"typedef {element} {name} __attribute__((vector_size({size})));"]
        # The type of a vector in memory, which starts at any element.
        lines.append(
            f"typedef {element} {name}_in_memory __attribute__((vector_size({size}), aligned({dtype.itemsize}), may_alias));"
        )
        if dtype.is_signed:
            lines.append(f"typedef u{element} u{name} __attribute__((vector_size({size})));")
        return "\n".join(lines)

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        if not self._is_native(dtype):
            return super().make_vector(dtype, lanes)
        return f"({self.vector_type(dtype)}){{ {', '.join(lanes)} }}"

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        if not self._is_native(dtype):
            return super().lane(dtype, vector, position)
        return f"{vector}[{position}]"

    def load_vector(self, dtype: DType, address: str) -> str | None:
        return f"*(const {self.vector_type(dtype)}_in_memory *)({address})" if self._is_native(dtype) else None

    def store_vector(self, dtype: DType, address: str, value: str) -> str | None:
        return f"*({self.vector_type(dtype)}_in_memory *)({address}) = {value};" if self._is_native(dtype) else None

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        dtype, source = node.dtype, node.src[-1].dtype
        if any(s.dtype.lanes != dtype.lanes for s in node.src) or not self._is_native(dtype):
            return None
        if node.op is Op.CAST:
            return self._convert(dtype, source, operands[0])
        if node.op is Op.BITCAST:
            has_bools = dtype.is_bool or source.is_bool
            return None if has_bools or self.is_stored(dtype) else f"({self.vector_type(dtype)}){operands[0]}"
        if any(s.dtype is not dtype for s in node.src):
            return None
        return self._float_operation(node, operands) if dtype.is_float else self._integer_operation(node, operands)

    def _float_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        if node.op is Op.NEG:
            return f"-{operands[0]}"
        operator = _FLOAT_OPERATORS.get(node.op)
        return None if operator is None else f"{operands[0]} {operator} {operands[1]}"

    def _integer_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        dtype, x = node.dtype, operands[0]
        name = self.vector_type(dtype)
        if node.op in _BIT_OPERATORS:
            return f"{x} {_BIT_OPERATORS[node.op]} {operands[1]}"
        if node.op is Op.NOT:
            return f"{x} ^ 1" if dtype.is_bool else f"~{x}"
        if dtype.is_bool:
            return None
        # Lanes of signed vectors must not overflow; those of unsigned ones wrap.
        unsigned = f"u{name}" if dtype.is_signed else name
        if node.op is Op.SHR and _is_shift_within(node):
            return f"{x} >> {operands[1]}"
        operator = "<<" if node.op is Op.SHL and _is_shift_within(node) else _WRAPPING_OPERATORS.get(node.op)
        return None if operator is None else f"({name})(({unsigned}){x} {operator} ({unsigned}){operands[1]})"

    def _convert(self, dtype: DType, source: DType, x: str) -> str | None:
        # A comparison, or a float beyond the range of an integer, is a test for each lane.
        is_tested = dtype.is_bool or (source.is_float and dtype.is_int)
        return None if is_tested else f"__builtin_convertvector({x}, {self.vector_type(dtype)})"

    def _element(self, dtype: DType) -> str:
        return "uint8_t" if dtype.is_bool else self.type_name(dtype)

    def _is_native(self, dtype: DType) -> bool:
        return dtype.lanes & (dtype.lanes - 1) == 0


def _is_shift_within(node: UOp) -> bool:
    """Whether all amounts are known and less than the bits of an element: C leaves the others open."""
    amount = node.src[1]
    values = amount.arg if amount.op is Op.VCONST else (amount.arg,) if amount.op is Op.CONST else ()
    return bool(values) and all(0 <= value < node.dtype.bits for value in values)
