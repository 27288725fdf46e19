"""C for gcc and clang, with the compilers' vector extensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from svod_codegen.c.renderer import CRenderer
from svod_dtype import DType, float16
from svod_ir import Op, UOp

__all__ = ["GnuCRenderer"]

_FLOAT_OPERATORS: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FDIV: "/"}
_WRAPPING_OPERATORS: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"}
_COMPARED: Final = {Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!="}
_BIT_OPERATORS: Final = {Op.AND: "&", Op.OR: "|", Op.XOR: "^"}


MAX_CONDITION: Final = 3
"""Maximum depth of a condition that is inlined as a mask. A selection repeats the mask's text, so
deeper conditions are stored in a variable, as bools.
"""

SMALLEST_BYTES: Final = 16
"""Size of vectors that are reduced lane by lane."""


class GnuCRenderer(CRenderer):
    """C99 with the vector extensions of gcc (from version 9) and clang.

    A comparison gives a vector of integers as wide as its operands, with all bits set where it
    holds. Minima, maxima and selections by a comparison are bit operations with such masks, which
    both compilers turn into masked instructions. Bools are bytes. A selection by other bools is
    written lane by lane, since gcc has no conversion of bytes to masks."""

    def declare_vector(self, dtype: DType) -> str:
        if not self._is_native(dtype):
            return super().declare_vector(dtype)
        register, n_parts = self._split(dtype)
        declared = self._declare_native(register)
        if n_parts > 1:
            declared += (
                f"\ntypedef struct {{ {self.vector_type(register)} part[{n_parts}]; }}"
                f" {self.vector_type(dtype)};"
            )
        return declared

    def _declare_native(self, dtype: DType) -> str:
        element, name = self._element(dtype), self.vector_type(dtype)
        size = dtype.itemsize * dtype.lanes
        lines = [f"typedef {element} {name} __attribute__((vector_size({size})));"]
        # The type of a vector in memory, which is only aligned like an element.
        lines.append(
            f"typedef {element} {name}_in_memory __attribute__((vector_size({size}),"
            f" aligned({dtype.itemsize}), may_alias));"
        )
        lines.append(
            f"typedef int{8 * dtype.itemsize}_t m{name} __attribute__((vector_size({size})));"
        )
        if dtype.is_signed:
            lines.append(f"typedef u{element} u{name} __attribute__((vector_size({size})));")
        return "\n".join(lines)

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        if not self._is_native(dtype):
            return super().make_vector(dtype, lanes)
        register, n_parts = self._split(dtype)
        chunks = [lanes[k * register.lanes : (k + 1) * register.lanes] for k in range(n_parts)]
        return self._join(
            dtype, [f"({self.vector_type(register)}){{ {', '.join(chunk)} }}" for chunk in chunks]
        )

    def lane(self, dtype: DType, vector: str, position: int) -> str:
        if not self._is_native(dtype):
            return super().lane(dtype, vector, position)
        register = self._split(dtype)[0]
        return f"{self._parts_of(dtype, vector)[position // register.lanes]}[{position % register.lanes}]"

    def load_vector(self, dtype: DType, address: str) -> str | None:
        if not self._is_native(dtype):
            return None
        return self._join(
            dtype, [f"*(const {pointer}" for pointer in self._pointers(dtype, address)]
        )

    def store_vector(self, dtype: DType, address: str, value: str) -> str | None:
        if not self._is_native(dtype):
            return None
        stores = zip(self._pointers(dtype, address), self._parts_of(dtype, value), strict=True)
        return " ".join(f"*({pointer} = {text};" for pointer, text in stores)

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        dtype = node.dtype
        sources = [s.dtype for s in node.src]
        if any(s.lanes != dtype.lanes for s in sources) or not self._is_native(dtype):
            return None
        register, n_parts = self._split(dtype)
        if any(self._split(s)[1] != n_parts for s in sources):
            return None
        split = zip(
            *(self._parts_of(s, o) for s, o in zip(sources, operands, strict=True)), strict=True
        )
        results = [self._native_operation(node, register, texts) for texts in split]
        return (
            self._join(dtype, [text for text in results if text is not None])
            if None not in results
            else None
        )

    def halves(self, dtype: DType, vector: str) -> tuple[DType, str, str] | None:
        register, n_parts = self._split(dtype)
        if (
            not self._is_native(dtype)
            or dtype.is_bool
            or dtype.lanes * dtype.itemsize <= SMALLEST_BYTES
        ):
            return None
        half = dtype.scalar.vec(dtype.lanes // 2)
        if n_parts > 1:
            registers = self._parts_of(dtype, vector)
            return (
                half,
                self._join(half, registers[: n_parts // 2]),
                self._join(half, registers[n_parts // 2 :]),
            )
        halves = (
            f"((union {{ {self.vector_type(register)} whole; {self.vector_type(half)} half[2]; }}){{"
            f" {vector} }}).half"
        )
        return half, f"{halves}[0]", f"{halves}[1]"

    def vector_selection(self, node: UOp, value: Callable[[UOp], str]) -> str | None:
        dtype = node.dtype
        if (
            not self._is_native(dtype)
            or dtype.is_bool
            or any(s.dtype.lanes != dtype.lanes for s in node.src)
        ):
            return None
        masks = self._find_masks(node.condition, dtype, value, MAX_CONDITION)
        # A condition of other bools, or of elements of another width, is selected lane by lane.
        if masks is None:
            return None
        register = self._split(dtype)[0]
        sides = (self._parts_of(dtype, value(side)) for side in (node.if_true, node.if_false))
        split = zip(masks, *sides, strict=True)
        return self._join(dtype, [self._select(register, *texts) for texts in split])

    def _find_masks(
        self, condition: UOp, dtype: DType, value: Callable[[UOp], str], depth: int
    ) -> list[str] | None:
        """Find masks of a condition for each register of a vector, as wide as its elements; None if
        the condition does not consist of comparisons.
        """
        if condition.op in _COMPARED and self._is_comparable(condition.left.dtype):
            sides = [
                s
                for s in condition.src
                if s.dtype.itemsize == dtype.itemsize and s.dtype.lanes == dtype.lanes
            ]
            if len(sides) < 2:
                return None
            left, right = (self._parts_of(s.dtype, value(s)) for s in sides)
            return [
                f"({x} {_COMPARED[condition.op]} {y})" for x, y in zip(left, right, strict=True)
            ]
        if depth == 0 or condition.op not in (*_BIT_OPERATORS, Op.NOT):
            return None
        operands = [self._find_masks(s, dtype, value, depth - 1) for s in condition.src]
        masks = [m for m in operands if m is not None]
        if len(masks) < len(operands):
            return None
        if condition.op is Op.NOT:
            return [f"(~{mask})" for mask in masks[0]]
        sign = _BIT_OPERATORS[condition.op]
        return [f"({left} {sign} {right})" for left, right in zip(*masks, strict=True)]

    def _is_comparable(self, dtype: DType) -> bool:
        """Whether vectors are compared as a whole; half is compared in float, lane by lane."""
        return not dtype.is_bool and not self.is_stored(dtype) and dtype.scalar is not float16

    def _select(self, dtype: DType, mask: str, x: str, y: str) -> str:
        """Select `x` where the comparison `mask` holds, and `y` elsewhere."""
        # By bits: gcc has no `?:` on vectors in C, only in C++.
        name = self.vector_type(dtype)
        return f"({name})(((m{name})({mask}) & (m{name}){x}) | (~(m{name})({mask}) & (m{name}){y}))"

    def _extremum(self, op: Op, dtype: DType, x: str, y: str) -> str:
        """Format MAX or MIN; NaN if an operand is NaN, and 0.0 is larger than -0.0."""
        mask = f"{x} {'>' if op is Op.MAX else '<'} {y}"
        if dtype.is_float:
            negative = f"(m{self.vector_type(dtype)}){y if op is Op.MAX else x} < 0"
            mask = f"({mask}) | ({x} != {x}) | (({x} == {y}) & ({negative}))"
        return self._select(dtype, mask, x, y)

    def _native_operation(self, node: UOp, dtype: DType, operands: Sequence[str]) -> str | None:
        """Format an operation on one register of each operand, with a result of `dtype`."""
        source = node.operand_dtype
        if node.op is Op.CAST:
            return self._convert(dtype, source, operands[0])
        if node.op is Op.BITCAST:
            has_bools = dtype.is_bool or source.is_bool
            return (
                None
                if has_bools or self.is_stored(dtype)
                else f"({self.vector_type(dtype)}){operands[0]}"
            )
        if node.op in _COMPARED and self._is_comparable(source):
            mask = f"m{self.vector_type(self._split(source)[0])}"
            compared = f"({mask})({operands[0]} {_COMPARED[node.op]} {operands[1]})"
            # A comparison gives -1 where it holds, a bool is 1.
            return f"__builtin_convertvector({compared}, {self.vector_type(dtype)}) & 1"
        if any(s.dtype is not node.dtype for s in node.src):
            return None
        if node.op in (Op.MAX, Op.MIN) and self._is_comparable(dtype):
            return self._extremum(node.op, dtype, *operands)
        if dtype.is_float:
            return self._float_operation(node, operands)
        return self._integer_operation(node, dtype, operands)

    def _split(self, dtype: DType) -> tuple[DType, int]:
        """Split a vector into registers: return their type and number. gcc would keep a wider vector
        in memory.
        """
        lanes = min(dtype.lanes, max(1, self.target.vector_bits // (8 * dtype.itemsize)))
        return dtype.scalar.vec(lanes), dtype.lanes // lanes

    def _parts_of(self, dtype: DType, vector: str) -> list[str]:
        n_parts = self._split(dtype)[1]
        return [vector] if n_parts == 1 else [f"{vector}.part[{k}]" for k in range(n_parts)]

    def _pointers(self, dtype: DType, address: str) -> list[str]:
        """Format pointers to the registers of a vector in memory, to be preceded by `*(`."""
        register, n_parts = self._split(dtype)
        name = f"{self.vector_type(register)}_in_memory *)"
        return [
            f"{name}({address}{f' + {k * register.lanes}' if k else ''})" for k in range(n_parts)
        ]

    def _join(self, dtype: DType, parts: Sequence[str]) -> str:
        return (
            parts[0]
            if len(parts) == 1
            else f"({self.vector_type(dtype)}){{ {{ {', '.join(parts)} }} }}"
        )

    def _float_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        if node.op is Op.NEG:
            return f"-{operands[0]}"
        operator = _FLOAT_OPERATORS.get(node.op)
        return None if operator is None else f"{operands[0]} {operator} {operands[1]}"

    def _integer_operation(self, node: UOp, dtype: DType, operands: Sequence[str]) -> str | None:
        x = operands[0]
        name = self.vector_type(dtype)
        if node.op in _BIT_OPERATORS:
            return f"{x} {_BIT_OPERATORS[node.op]} {operands[1]}"
        if node.op is Op.NOT:
            return f"{x} ^ 1" if dtype.is_bool else f"~{x}"
        if dtype.is_bool:
            return None
        # Overflow of signed lanes is undefined, unsigned lanes wrap.
        unsigned = f"u{name}" if dtype.is_signed else name
        if node.op is Op.SHR and _is_shift_within(node):
            return f"{x} >> {operands[1]}"
        operator = (
            "<<"
            if node.op is Op.SHL and _is_shift_within(node)
            else _WRAPPING_OPERATORS.get(node.op)
        )
        return (
            None
            if operator is None
            else f"({name})(({unsigned}){x} {operator} ({unsigned}){operands[1]})"
        )

    def _convert(self, dtype: DType, source: DType, x: str) -> str | None:
        # A conversion to bool, or of a float that may be out of range, needs a test for each lane.
        is_tested = dtype.is_bool or (source.is_float and dtype.is_int)
        return None if is_tested else f"__builtin_convertvector({x}, {self.vector_type(dtype)})"

    def _element(self, dtype: DType) -> str:
        return "uint8_t" if dtype.is_bool else self.type_name(dtype)

    def _is_native(self, dtype: DType) -> bool:
        return dtype.lanes & (dtype.lanes - 1) == 0


def _is_shift_within(node: UOp) -> bool:
    """Whether all shift amounts are constants less than the bits of an element: larger shifts are
    undefined in C.
    """
    amount = node.right
    values = (
        amount.arg if amount.op is Op.VCONST else (amount.arg,) if amount.op is Op.CONST else ()
    )
    return bool(values) and all(0 <= value < node.dtype.bits for value in values)
