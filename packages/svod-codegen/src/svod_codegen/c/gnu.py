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
    """C99 with the vector extensions of gcc (from version 9) and clang."""

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
        dtype = node.dtype
        if any(s.dtype is not dtype for s in node.src) or not self._is_native(dtype):
            return None
        name = self.vector_type(dtype)
        if dtype.is_float:
            if node.op is Op.NEG:
                return f"-{operands[0]}"
            operator = _FLOAT_OPERATORS.get(node.op)
            return None if operator is None else f"{operands[0]} {operator} {operands[1]}"
        if node.op in _BIT_OPERATORS:
            return f"{operands[0]} {_BIT_OPERATORS[node.op]} {operands[1]}"
        operator = _WRAPPING_OPERATORS.get(node.op) if dtype.is_int else None
        if operator is None:
            return None
        # Lanes of signed vectors must not overflow; those of unsigned ones wrap.
        unsigned = f"u{name}" if dtype.is_signed else name
        return f"({name})(({unsigned}){operands[0]} {operator} ({unsigned}){operands[1]})"

    def _element(self, dtype: DType) -> str:
        return "uint8_t" if dtype.is_bool else self.type_name(dtype)

    def _is_native(self, dtype: DType) -> bool:
        return dtype.lanes & (dtype.lanes - 1) == 0
