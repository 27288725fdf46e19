"""Elementwise ops in LLVM assembly, on scalars and vectors.

Floats have IEEE results for NaN and infinities: the only fast-math flag on arithmetic is `contract`.
Integers wrap. No result is poison or undefined: casts saturate, and shifts out of range have the
result of an unbounded shift.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svod_codegen.errors import RenderError
from svod_codegen.llvm.function import FunctionWriter
from svod_codegen.llvm.text import (
    constant_text,
    is_storage_only,
    suffix_text,
    type_text,
    vector_constant_text,
)
from svod_dtype import DType, bool_, float16, float32, int32
from svod_ir import Op, UOp

__all__ = ["EMITTERS", "emit_reduce"]

Emitter = Callable[[FunctionWriter, UOp], str]

# Ordered comparisons are false for NaN; `une` is true, since NaN differs from everything.
_FLOAT_BINARY: Final = {
    Op.ADD: "fadd",
    Op.SUB: "fsub",
    Op.MUL: "fmul",
    Op.FDIV: "fdiv",
    Op.LT: "fcmp olt",
    Op.LE: "fcmp ole",
    Op.EQ: "fcmp oeq",
    Op.NE: "fcmp une",
}
_CONTRACTED: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})
_INTEGER_BINARY: Final = {
    Op.ADD: "add",
    Op.SUB: "sub",
    Op.MUL: "mul",
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
    Op.EQ: "icmp eq",
    Op.NE: "icmp ne",
}
_SIGNED_BINARY: Final = {Op.CDIV: "sdiv", Op.CMOD: "srem", Op.LT: "icmp slt", Op.LE: "icmp sle"}
_UNSIGNED_BINARY: Final = {Op.CDIV: "udiv", Op.CMOD: "urem", Op.LT: "icmp ult", Op.LE: "icmp ule"}
_BOOL_BINARY: Final = {
    Op.ADD: "or",
    Op.SUB: "xor",
    Op.MUL: "and",
    Op.MAX: "or",
    Op.MIN: "and",
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
    Op.EQ: "icmp eq",
    Op.NE: "icmp ne",
    Op.LT: "icmp ult",
    Op.LE: "icmp ule",
}
_INTRINSICS: Final = {
    Op.SQRT: "llvm.sqrt",
    Op.EXP: "llvm.exp",
    Op.EXP2: "llvm.exp2",
    Op.LOG: "llvm.log",
    Op.LOG2: "llvm.log2",
    Op.SIN: "llvm.sin",
    Op.COS: "llvm.cos",
    Op.TRUNC: "llvm.trunc",
    Op.FLOOR: "llvm.floor",
    Op.CEIL: "llvm.ceil",
    Op.ROUND: "llvm.rint",
    Op.POW: "llvm.pow",
}
_ROUNDING: Final = frozenset({Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND})


_MAY_WRAP: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})


def _no_wrap(node: UOp) -> str:
    """Return ` nsw` if the bounds prove that the result does not wrap, so that LLVM can widen and
    reassociate index arithmetic.
    """
    dtype = node.dtype
    low, high = node.bounds
    return " nsw" if dtype.is_signed and (low > dtype.min or high < dtype.max) else ""


def _check_arithmetic(node: UOp, dtype: DType) -> None:
    if is_storage_only(dtype):
        raise RenderError(problem=f"computes in {dtype}, which only lowering may do", node=node)


def _find_float_instruction(w: FunctionWriter, op: Op) -> str | None:
    instruction = _FLOAT_BINARY.get(op)
    return f"{instruction} contract" if w.target.contracts and op in _CONTRACTED else instruction


def _binary(w: FunctionWriter, node: UOp) -> str:
    x, y = node.src
    dtype = x.dtype
    _check_arithmetic(node, dtype)
    op = node.op
    if dtype.is_bool:
        instruction = _BOOL_BINARY.get(op)
    elif dtype.is_float:
        instruction = _find_float_instruction(w, op)
    else:
        instruction = _INTEGER_BINARY.get(op) or (
            _UNSIGNED_BINARY if dtype.is_unsigned else _SIGNED_BINARY
        ).get(op)
        if op in _MAY_WRAP and dtype.lanes == 1:
            instruction = f"{instruction}{_no_wrap(node)}"
    if instruction is None:
        raise RenderError(problem=f"does not take {dtype}", node=node)
    return w.emit(f"{instruction} {w.typed(x)}, {w.value(y)}")


def _minimum_or_maximum(w: FunctionWriter, node: UOp) -> str:
    x, y = node.src
    dtype = node.dtype
    if dtype.is_bool:
        return _binary(w, node)
    _check_arithmetic(node, dtype)
    if dtype.is_float:
        return _float_extreme(w, node.op, dtype, w.value(x), w.value(y))
    kind = ("u" if dtype.is_unsigned else "s") + node.op.name.lower()
    return w.call_same(
        f"llvm.{kind}.{suffix_text(dtype)}", type_text(dtype), w.value(x), w.value(y)
    )


def _float_extreme(w: FunctionWriter, op: Op, dtype: DType, x: str, y: str) -> str:
    """Emit a minimum or maximum, which is NaN if either operand is NaN.

    The sign of a result of two zeros is unspecified: ordering them costs two more instructions.
    """
    function = "llvm.maximum" if op is Op.MAX else "llvm.minimum"
    if dtype.scalar is not float16:
        return w.call_same(f"{function}.{suffix_text(dtype)}", type_text(dtype), x, y, flags="nsz ")
    # Half is compared in float, exactly: processors that only convert half would scalarize.
    wide = float32.vec(dtype.lanes)
    result = _float_extreme(
        w, op, wide, _resize_float(w, x, dtype, wide), _resize_float(w, y, dtype, wide)
    )
    return _resize_float(w, result, wide, dtype)


def _resize_float(w: FunctionWriter, x: str, dtype: DType, target: DType) -> str:
    instruction = "fpext" if target.itemsize > dtype.itemsize else "fptrunc"
    return w.emit(f"{instruction} {type_text(dtype)} {x} to {type_text(target)}")


def _shift(w: FunctionWriter, node: UOp) -> str:
    x, amount = node.src
    dtype = x.dtype
    text = type_text(dtype)
    left = node.op is Op.SHL
    instruction = "shl" if left else "lshr" if dtype.is_unsigned else "ashr"
    if amount.op in (Op.CONST, Op.VCONST) and amount.dtype.itemsize == dtype.itemsize:
        amounts = amount.arg if amount.op is Op.VCONST else (amount.arg,)
        if all(0 <= a < dtype.bits for a in amounts):
            flag = _no_wrap(node) if left and dtype.lanes == 1 else ""
            return w.emit(f"{instruction}{flag} {text} {w.value(x)}, {w.value(amount)}")
    amount_type = type_text(amount.dtype)
    limit = _splat_constant(amount.dtype, min(dtype.bits, int(amount.dtype.max)))
    condition = type_text(bool_.vec(dtype.lanes))
    # Unsigned, so that a negative amount is out of range too. The amount is replaced before the
    # shift, since a shift by too much is poison.
    fits = w.emit(f"icmp ult {amount_type} {w.value(amount)}, {limit}")
    # A signed right shift out of range leaves copies of the sign bit.
    replacement = _splat_constant(
        amount.dtype, min(dtype.bits - 1, int(amount.dtype.max)) if instruction == "ashr" else 0
    )
    safe = w.emit(
        f"select {condition} {fits}, {amount_type} {w.value(amount)}, {amount_type} {replacement}"
    )
    if amount.dtype.itemsize != dtype.itemsize:
        resize = "zext" if amount.dtype.itemsize < dtype.itemsize else "trunc"
        safe = w.emit(f"{resize} {amount_type} {safe} to {text}")
    shifted = w.emit(f"{instruction} {text} {w.value(x)}, {safe}")
    if instruction == "ashr":
        return shifted
    return w.emit(
        f"select {condition} {fits}, {text} {shifted}, {text} {_splat_constant(dtype, 0)}"
    )


def _splat_constant(dtype: DType, value: int | float) -> str:
    text = constant_text(dtype.scalar, value)
    return text if dtype.lanes == 1 else f"splat ({type_text(dtype.scalar)} {text})"


def _where(w: FunctionWriter, node: UOp) -> str:
    condition, x, y = node.src
    return w.emit(f"select {w.typed(condition)}, {w.typed(x)}, {w.typed(y)}")


def _multiply_add(w: FunctionWriter, node: UOp) -> str:
    x, y, z = (w.value(s) for s in node.src)
    dtype = node.dtype
    _check_arithmetic(node, dtype)
    text = type_text(dtype)
    if dtype.is_float:
        # Not fmuladd, which may be two instructions: a MULACC is rounded once.
        return w.call_same(f"llvm.fma.{suffix_text(dtype)}", text, x, y, z)
    if dtype.is_bool:
        return w.emit(f"or {text} {w.emit(f'and {text} {x}, {y}')}, {z}")
    return w.emit(f"add {text} {w.emit(f'mul {text} {x}, {y}')}, {z}")


def _negate(w: FunctionWriter, node: UOp) -> str:
    dtype = node.dtype
    _check_arithmetic(node, dtype)
    if dtype.is_float:
        return w.emit(f"fneg {w.typed(node.source)}")
    if dtype.is_bool:
        return w.value(node.source)
    return w.emit(f"sub {type_text(dtype)} {_splat_constant(dtype, 0)}, {w.value(node.source)}")


def _invert(w: FunctionWriter, node: UOp) -> str:
    ones = _splat_constant(node.dtype, 1 if node.dtype.is_bool else -1)
    return w.emit(f"xor {w.typed(node.source)}, {ones}")


def _absolute(w: FunctionWriter, node: UOp) -> str:
    dtype, x = node.dtype, node.source
    _check_arithmetic(node, dtype)
    text, suffix = type_text(dtype), suffix_text(dtype)
    if dtype.is_float:
        return w.call_same(f"llvm.fabs.{suffix}", text, w.value(x))
    if not dtype.is_signed:
        return w.value(x)
    return w.call(
        text, f"llvm.abs.{suffix}", f"{text} {w.value(x)}, i1 false", parameters=f"{text}, i1"
    )


def _intrinsic(w: FunctionWriter, node: UOp) -> str:
    dtype = node.dtype
    if not dtype.is_float:
        if node.op in _ROUNDING:
            return w.value(node.source)
        raise RenderError(problem=f"does not take {dtype}", node=node)
    _check_arithmetic(node, dtype)
    operands = [w.value(s) for s in node.src]
    if dtype.scalar is not float16:
        return w.call_same(
            f"{_INTRINSICS[node.op]}.{suffix_text(dtype)}", type_text(dtype), *operands
        )
    # Most intrinsics do not exist for half, and LLVM aborts the process on one that it cannot lower;
    # for the others, float gives the same result.
    wide = float32.vec(dtype.lanes)
    operands = [_resize_float(w, o, dtype, wide) for o in operands]
    result = w.call_same(f"{_INTRINSICS[node.op]}.{suffix_text(wide)}", type_text(wide), *operands)
    return _resize_float(w, result, wide, dtype)


def _reciprocal(w: FunctionWriter, node: UOp) -> str:
    own_dtype, x = node.dtype, w.value(node.source)
    _check_arithmetic(node, own_dtype)
    dtype = float32.vec(own_dtype.lanes) if own_dtype.scalar is float16 else own_dtype
    if dtype is not own_dtype:
        x = _resize_float(w, x, own_dtype, dtype)
    if node.op is Op.RSQRT:
        x = w.call_same(f"llvm.sqrt.{suffix_text(dtype)}", type_text(dtype), x)
    result = w.emit(f"fdiv {type_text(dtype)} {_splat_constant(dtype, 1.0)}, {x}")
    return result if dtype is own_dtype else _resize_float(w, result, dtype, own_dtype)


def _cast(w: FunctionWriter, node: UOp) -> str:
    x = node.source
    _check_arithmetic(node, x.dtype)
    _check_arithmetic(node, node.dtype)
    if x.dtype.is_float and node.dtype.is_int:
        return _float_to_integer(w, w.value(x), x.dtype, node.dtype)
    return _convert(w, w.value(x), x.dtype, node.dtype)


def _convert(w: FunctionWriter, x: str, source: DType, target: DType) -> str:
    source_type, target_type = type_text(source), type_text(target)
    if source_type == target_type:
        return x
    if target.is_bool:
        test = "fcmp une" if source.is_float else "icmp ne"
        return w.emit(
            f"{test} {source_type} {x}, zeroinitializer"
            if source.lanes > 1
            else f"{test} {source_type} {x}, {_splat_constant(source, 0)}"
        )
    if source.is_float:
        return _resize_float(w, x, source, target)
    is_unsigned = source.is_unsigned or source.is_bool
    if target.is_float:
        return w.emit(f"{'uitofp' if is_unsigned else 'sitofp'} {source_type} {x} to {target_type}")
    instruction = "trunc" if target.bits < source.bits else "zext" if is_unsigned else "sext"
    return w.emit(f"{instruction} {source_type} {x} to {target_type}")


def _float_to_integer(w: FunctionWriter, x: str, source: DType, target: DType) -> str:
    """Truncate a float; NaN gives 0, and values out of range the nearest integer.

    `llvm.fptosi.sat` is equivalent, but is scalarized on x86.
    """
    if source.scalar is float16:
        wide = float32.vec(source.lanes)
        x, source = _resize_float(w, x, source, wide), wide
    # Vector units convert floats to integers of 32 bits or more.
    carrier = target if target.bits >= 32 else int32.vec(target.lanes)
    text, condition, carrier_type = (
        type_text(source),
        type_text(bool_.vec(source.lanes)),
        type_text(carrier),
    )
    instruction = "fptoui" if carrier.is_unsigned else "fptosi"
    low, high = float(target.min), float(int(target.max) + 1)
    result = w.emit(f"{instruction} {text} {x} to {carrier_type}")
    # The selects replace the undefined result of a conversion that is out of range.
    steps = (
        (f"oge {text} {x}, {_splat_constant(source, high)}", target.max),
        (f"{'olt' if low else 'ole'} {text} {x}, {_splat_constant(source, low)}", target.min),
        (f"uno {text} {x}, {x}", 0),
    )
    for test, replacement in steps:
        test_result = w.emit(f"fcmp {test}")
        result = w.emit(
            f"select {condition} {test_result}, {carrier_type} {_splat_constant(carrier, int(replacement))},"
            f" {carrier_type} {result}"
        )
    return (
        result
        if carrier is target
        else w.emit(f"trunc {carrier_type} {result} to {type_text(target)}")
    )


def _bitcast(w: FunctionWriter, node: UOp) -> str:
    x = node.source
    source_type, target_type = type_text(x.dtype), type_text(node.dtype)
    name = w.value(x)
    if (x.dtype.is_bool and node.dtype.is_bool) or source_type == target_type:
        return name
    if x.dtype.is_bool:
        # A bool is stored as a byte of value 0 or 1.
        source_type = f"<{x.dtype.lanes} x i8>" if x.dtype.lanes > 1 else "i8"
        name = w.emit(f"zext {w.typed(x)} to {source_type}")
    if node.dtype.is_bool:
        wide = f"<{node.dtype.lanes} x i8>" if node.dtype.lanes > 1 else "i8"
        if source_type != wide:
            name = w.emit(f"bitcast {source_type} {name} to {wide}")
        return w.emit(
            f"icmp ne {wide} {name}, {'zeroinitializer' if node.dtype.lanes > 1 else '0'}"
        )
    return (
        name
        if source_type == target_type
        else w.emit(f"bitcast {source_type} {name} to {target_type}")
    )


def emit_reduce(w: FunctionWriter, node: UOp) -> str:
    """Reduce all lanes of a vector; float sums and products in arbitrary order."""
    x = node.source
    if len(node.src) > 1 or node.dtype.lanes > 1:
        raise RenderError(problem="is only rendered over all lanes of one vector", node=node)
    _check_arithmetic(node, x.dtype)
    dtype, name = x.dtype, w.value(x)
    if dtype.scalar is float16:
        wide = float32.vec(dtype.lanes)
        total = _reduce_lanes(w, node.arg, wide, _resize_float(w, name, dtype, wide), node)
        return _resize_float(w, total, float32, float16)
    return _reduce_lanes(w, node.arg, dtype, name, node)


def _fold_to_power_of_two(w: FunctionWriter, op: Op, dtype: DType, name: str) -> tuple[DType, str]:
    """Combine the lanes beyond the largest power of two with the first ones: LLVM only reduces
    vectors of such sizes.
    """
    size = 1 << (dtype.lanes.bit_length() - 1)
    if size == dtype.lanes:
        return dtype, name
    extra = dtype.lanes - size
    low = w.shuffle(dtype, name, "poison", range(size))
    # Lanes without a partner are combined with the operation's identity, from the second vector.
    identity = vector_constant_text(dtype, (_identity(op, dtype),) * dtype.lanes)
    high = w.shuffle(
        dtype, name, identity, [*range(size, dtype.lanes), *[dtype.lanes] * (size - extra)]
    )
    half = dtype.vec(size)
    return half, _combine(w, op, half, low, high)


def _combine(w: FunctionWriter, op: Op, dtype: DType, x: str, y: str) -> str:
    if op in (Op.MAX, Op.MIN) and dtype.is_float:
        return _float_extreme(w, op, dtype, x, y)
    if op in (Op.MAX, Op.MIN) and not dtype.is_bool:
        kind = ("u" if dtype.is_unsigned else "s") + op.name.lower()
        return w.call_same(f"llvm.{kind}.{suffix_text(dtype)}", type_text(dtype), x, y)
    table = _BOOL_BINARY if dtype.is_bool else _INTEGER_BINARY
    instruction = _find_float_instruction(w, op) if dtype.is_float else table[op]
    return w.emit(f"{instruction} {type_text(dtype)} {x}, {y}")


def _identity(op: Op, dtype: DType) -> bool | int | float:
    # Extra lanes must not change the result, whatever the other lanes hold.
    if op is Op.MAX:
        return dtype.min
    if op in (Op.MIN, Op.AND):
        return dtype.max if op is Op.MIN or not dtype.is_signed else -1
    return 1 if op is Op.MUL else -0.0 if dtype.is_float else 0


_REDUCED: Final = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR})
# -0.0, since 0.0 plus -0.0 is 0.0: a sum of negative zeros would change.
_FLOAT_START: Final = {Op.ADD: ("fadd", -0.0), Op.MUL: ("fmul", 1.0)}


def _reduce_lanes(w: FunctionWriter, op: Op, dtype: DType, name: str, node: UOp) -> str:
    if op not in _REDUCED:
        raise RenderError(problem=f"reduces with {op.name}", node=node)
    dtype, name = _fold_to_power_of_two(w, op, dtype, name)
    vector, element, suffix = type_text(dtype), type_text(dtype.scalar), suffix_text(dtype)
    if dtype.is_float and op in _FLOAT_START:
        # `reassoc` permits a tree of additions; without it, LLVM adds lane by lane.
        function, start = _FLOAT_START[op]
        return w.call(
            element,
            f"llvm.vector.reduce.{function}.{suffix}",
            f"{element} {constant_text(dtype.scalar, start)}, {vector} {name}",
            flags="reassoc contract " if w.target.contracts else "reassoc ",
            parameters=f"{element}, {vector}",
        )
    function = _reduce_function(op, dtype)
    if function is None:
        raise RenderError(problem=f"reduces {dtype} with {op.name}", node=node)
    flags = "nsz " if dtype.is_float else ""
    return w.call(
        element,
        f"llvm.vector.reduce.{function}.{suffix}",
        f"{vector} {name}",
        flags=flags,
        parameters=vector,
    )


def _reduce_function(op: Op, dtype: DType) -> str | None:
    if dtype.is_float:
        return {Op.MAX: "fmaximum", Op.MIN: "fminimum"}.get(op)
    if dtype.is_bool:
        return {
            Op.ADD: "or",
            Op.MAX: "or",
            Op.OR: "or",
            Op.MUL: "and",
            Op.MIN: "and",
            Op.AND: "and",
            Op.XOR: "xor",
        }.get(op)
    sign = "u" if dtype.is_unsigned else "s"
    return {
        Op.ADD: "add",
        Op.MUL: "mul",
        Op.MAX: f"{sign}max",
        Op.MIN: f"{sign}min",
        Op.AND: "and",
        Op.OR: "or",
        Op.XOR: "xor",
    }.get(op)


EMITTERS: Final[dict[Op, Emitter]] = {
    **dict.fromkeys((*_FLOAT_BINARY, *_INTEGER_BINARY, *_SIGNED_BINARY), _binary),
    **dict.fromkeys(_INTRINSICS, _intrinsic),
    Op.MAX: _minimum_or_maximum,
    Op.MIN: _minimum_or_maximum,
    Op.SHL: _shift,
    Op.SHR: _shift,
    Op.WHERE: _where,
    Op.MULACC: _multiply_add,
    Op.NEG: _negate,
    Op.NOT: _invert,
    Op.ABS: _absolute,
    Op.RECIPROCAL: _reciprocal,
    Op.RSQRT: _reciprocal,
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
}
"""Functions that emit the instructions of each elementwise op, and return the name of its value."""
