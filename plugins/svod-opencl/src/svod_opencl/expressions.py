"""Elementwise ops as OpenCL C expressions, on scalars and on built-in vectors alike.

Operands are names, constants or components of vectors, so an expression may repeat them. No
expression has undefined behavior for any operand: signed arithmetic that may overflow is done on
unsigned types, and oversized shifts and casts of out-of-range floats have the values that
`svod_ir.ops` defines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from svod_codegen import RenderError
from svod_dtype import DType, float32
from svod_ir import Op, Target, UOp
from svod_ir.ops import COMPARISON
from svod_opencl.types import constant, scalar_name, vector_name

__all__ = ["Expressions"]

_COMPARED: Final = {Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!="}
_FLOAT_OPERATORS: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FDIV: "/"}
_FUNCTIONS: Final = {
    Op.SQRT: "sqrt",
    Op.TRUNC: "trunc",
    Op.FLOOR: "floor",
    Op.CEIL: "ceil",
    Op.ROUND: "rint",
    Op.ABS: "fabs",
}
_WRAPPING: Final = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"}
_BITS: Final = {Op.AND: "&", Op.OR: "|", Op.XOR: "^"}
_BOOL_OPERATORS: Final = {
    Op.ADD: "|",
    Op.OR: "|",
    Op.MAX: "|",
    Op.MUL: "&",
    Op.AND: "&",
    Op.MIN: "&",
    Op.XOR: "^",
    Op.SUB: "^",
    Op.NE: "^",
}
_ROUNDING: Final = frozenset({Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND})


@dataclass(frozen=True, slots=True)
class Expressions:
    """Writer of ops on values of `lanes` lanes.

    With `has_exact_division`, the driver rounds float32 division and square root correctly.
    """

    target: Target
    lanes: int = 1
    has_exact_division: bool = True

    def write(self, node: UOp, operands: Sequence[str]) -> str:
        """Return the expression of an elementwise node.

        Raises:
            RenderError: if OpenCL C has no expression of the op for the dtype.
        """
        op, result, source = node.op, node.dtype.scalar, node.operand_dtype.scalar
        if op is Op.WHERE:
            return self.choose(result, *operands)
        if op is Op.CAST:
            return self.cast(operands[0], source, result)
        if op is Op.BITCAST:
            return self.bitcast(operands[0], source, result)
        if source.is_bool:
            expression = self._bool(op, operands)
        elif op in COMPARISON:
            expression = self._mask(f"{operands[0]} {_COMPARED[op]} {operands[1]}", source)
        elif source.is_float:
            expression = self._float(op, source, operands)
        else:
            expression = self._integer(node, source, operands)
        if expression is None:
            raise RenderError(problem=f"has no expression in OpenCL C for {source}", node=node)
        return expression

    def spread(self, dtype: DType, scalar: str) -> str:
        """Broadcast a scalar to every lane."""
        if self.lanes == 1:
            return scalar
        # A scalar bool is 1 and a lane of a mask is -1.
        return f"({self._name(dtype)})({f'(char)-({scalar})' if dtype.is_bool else scalar})"

    def choose(self, dtype: DType, condition: str, x: str, y: str) -> str:
        """Select `x` where the condition holds, else `y`."""
        if self.lanes == 1:
            return f"{condition} ? {x} : {y}"
        mask = (
            # `select` needs a mask of the same element size as its operands.
            condition if dtype.itemsize == 1 else f"convert_{self._mask_name(dtype)}({condition})"
        )
        return f"select({y}, {x}, {mask})"

    def _pick(self, comparison: str, x: str, y: str) -> str:
        """Select `x` where a comparison of equally wide values holds, else `y`."""
        return f"{comparison} ? {x} : {y}" if self.lanes == 1 else f"select({y}, {x}, {comparison})"

    def cast(self, x: str, source: DType, target: DType) -> str:
        """Cast a value. Floats saturate in integers, and NaN becomes 0."""
        name = self._name(target)
        # A bool has two values whatever its bits, so there are no bits to reinterpret.
        if source.is_bool and target.is_bool:
            return x
        if target.is_bool:
            return self._mask(f"{x} != {self.spread(source, constant(source, 0))}", source)
        if source.is_bool:
            return f"({name}){x}" if self.lanes == 1 else f"convert_{name}(-{x})"
        if source.is_float and not target.is_float:
            zero = self.spread(source, constant(source, 0))
            # The result of a saturating conversion of NaN differs between drivers.
            return f"convert_{name}_sat({self._pick(f'{x} != {x}', zero, x)})"
        return f"({name}){x}" if self.lanes == 1 else f"convert_{name}({x})"

    def bitcast(self, x: str, source: DType, target: DType) -> str:
        """Reinterpret the bits as another dtype."""
        if source.is_bool or target.is_bool:
            return self.cast(x, source, target)
        source_type, target_type = self._name(source), self._name(target)
        # An integer constant is an `int`; as_type() needs operands of exactly the source's size.
        return x if source_type == target_type else f"as_{target_type}(({source_type}){x})"

    def _name(self, dtype: DType) -> str:
        return (
            scalar_name(dtype, self.target)
            if self.lanes == 1
            else vector_name(dtype, self.lanes, self.target)
        )

    def _mask_name(self, dtype: DType) -> str:
        return {1: "char", 2: "short", 4: "int", 8: "long"}[dtype.itemsize] + str(self.lanes)

    def _mask(self, comparison: str, source: DType) -> str:
        """Convert a comparison to a bool: vector comparisons have the lane width of operands."""
        if self.lanes == 1 or source.itemsize == 1:
            return comparison
        # A comparison's mask has the size of its operands; masks are held as char everywhere.
        return f"convert_char{self.lanes}({comparison})"

    def _bool(self, op: Op, operands: Sequence[str]) -> str | None:
        x, y = operands[0], operands[-1]
        # `!` of a lane gives 1 and not -1; `~` of a scalar bool is never 0.
        invert = "!" if self.lanes == 1 else "~"
        if op in _BOOL_OPERATORS:
            return f"{x} {_BOOL_OPERATORS[op]} {y}"
        match op:
            case Op.NOT:
                return f"{invert}{x}"
            case Op.EQ:
                return f"{invert}({x} ^ {y})"
            case Op.LT:
                return f"{invert}{x} & {y}"
            case Op.LE:
                return f"{invert}{x} | {y}"
            case Op.MULACC:
                return f"({x} & {operands[1]}) | {y}"
            case _:
                return x if op in (Op.NEG, Op.ABS) or op in _ROUNDING else None

    def _float(self, op: Op, dtype: DType, operands: Sequence[str]) -> str | None:
        x = operands[0]
        if op in (Op.MAX, Op.MIN):
            y, sign = operands[1], ">" if op is Op.MAX else "<"
            # A NaN in y fails the comparison, which selects y; a NaN in x is selected by x != x.
            return self._pick(f"({x} {sign} {y}) | ({x} != {x})", x, y)
        if op is Op.NEG:
            return f"-{x}"
        if op in (Op.FDIV, Op.SQRT) and dtype is float32 and not self.has_exact_division:
            return self._divide_in_double(op, operands)
        if op is Op.MULACC:
            # The driver fuses it where it has the instruction; some drivers' fma() is a slow
            # emulation.
            return f"{x} * {operands[1]} + {operands[2]}"
        if op in _FLOAT_OPERATORS:
            return f"{x} {_FLOAT_OPERATORS[op]} {operands[1]}"
        return f"{_FUNCTIONS[op]}({', '.join(operands)})" if op in _FUNCTIONS else None

    def _divide_in_double(self, op: Op, operands: Sequence[str]) -> str:
        """Divide or take the root in double; rounding to double first does not change the float.

        Source: Figueroa 1995, "When is double rounding innocuous?"; 53 is at least 2 * 24 + 2.
        """
        suffix = "" if self.lanes == 1 else str(self.lanes)
        wide = [f"convert_double{suffix}({x})" for x in operands]
        result = f"{wide[0]} / {wide[1]}" if op is Op.FDIV else f"sqrt({wide[0]})"
        return f"convert_float{suffix}({result})"

    def _integer(self, node: UOp, dtype: DType, operands: Sequence[str]) -> str | None:
        op, x = node.op, operands[0]
        if op in _WRAPPING:
            return self._wrap(node, dtype, f"{{}} {_WRAPPING[op]} {{}}", operands)
        if op in _BITS:
            # Narrow scalars are promoted to int, vectors are not.
            return self._narrow(dtype, f"{x} {_BITS[op]} {operands[1]}")
        match op:
            case Op.CDIV | Op.CMOD:
                return self._narrow(dtype, f"{x} {'/' if op is Op.CDIV else '%'} {operands[1]}")
            case Op.MAX | Op.MIN:
                if self.lanes == 1:
                    # max() of scalars is ambiguous if an operand is a constant, which is an int.
                    return f"{x} {'>' if op is Op.MAX else '<'} {operands[1]} ? {x} : {operands[1]}"
                return f"{'max' if op is Op.MAX else 'min'}({x}, {operands[1]})"
            case Op.NEG:
                return self._wrap(node, dtype, "-{}", operands)
            case Op.NOT:
                return self._narrow(dtype, f"~{x}")
            case Op.ABS:
                return (
                    x
                    if dtype.is_unsigned
                    # abs() returns an unsigned result, which holds the magnitude of the smallest
                    # integer too.
                    else f"as_{self._name(dtype)}(abs(({self._name(dtype)}){x}))"
                )
            case Op.SHL | Op.SHR:
                return self._shift(node, dtype, x, operands[1])
            case Op.MULACC:
                return self._wrap(node, dtype, "{} * {} + {}", operands)
            case _:
                return x if op in _ROUNDING else None

    def _narrow(self, dtype: DType, expression: str) -> str:
        """Cast an expression on scalars narrower than `int`, which C promotes to `int`."""
        if self.lanes > 1 or dtype.itemsize >= 4:
            return expression
        return f"({self._name(dtype)})({expression})"

    def _wrap(self, node: UOp, dtype: DType, template: str, operands: Sequence[str]) -> str:
        """Write arithmetic modulo 2**bits."""
        expression = template.format(*operands)
        # An overflow of a signed integer is undefined: it is computed unsigned, unless the bounds
        # exclude it. Then the plain expression tells the driver so.
        low, high = node.bounds
        is_inside = low > dtype.min or high < dtype.max
        if dtype.itemsize >= 4 and (dtype.is_unsigned or is_inside):
            return expression
        if self.lanes > 1:
            if dtype.is_unsigned:
                return expression
            unsigned = f"u{self._name(dtype)}"
            unsigned_operands = (f"as_{unsigned}({x})" for x in operands)
            return f"as_{self._name(dtype)}({template.format(*unsigned_operands)})"
        wide = "ulong" if dtype.itemsize == 8 else "uint"
        return f"({self._name(dtype)})({template.format(*(f'({wide}){x}' for x in operands))})"

    def _shift(self, node: UOp, dtype: DType, x: str, amount: str) -> str:
        """Write a shift that shifts all bits out if oversized; OpenCL C uses amount % bits."""
        name, amount_node, bits = self._name(dtype), node.right, 8 * dtype.itemsize
        sign = "<<" if node.op is Op.SHL else ">>"
        # OpenCL C takes amounts modulo the number of bits: larger ones need a choice, unless they
        # are constants.
        values = (
            amount_node.arg
            if amount_node.op is Op.VCONST
            else (amount_node.arg,)
            if amount_node.op is Op.CONST
            else ()
        )
        is_small = bool(values) and all(0 <= v < bits for v in values)
        if self.lanes == 1:
            wide = "" if node.op is Op.SHR else "(ulong)" if bits == 64 else "(uint)"
            shifted = f"({name})({wide}{x} {sign} {amount})"
            if is_small:
                return shifted
            beyond = (
                f"({name})({x} < 0 ? -1 : 0)"
                if node.op is Op.SHR and dtype.is_signed
                else f"({name})0"
            )
            return f"(ulong){amount} < {bits} ? {shifted} : {beyond}"
        shifted = f"({x} {sign} {amount})"
        if is_small:
            return shifted
        unsigned = name if dtype.is_unsigned else f"u{name}"
        beyond = (
            f"({x} >> ({name})({bits - 1}))"
            if node.op is Op.SHR and dtype.is_signed
            else f"({name})(0)"
        )
        return f"select({beyond}, {shifted}, as_{unsigned}({amount}) < ({unsigned})({bits}))"
