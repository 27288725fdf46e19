"""The function of each op on the values of its operands."""

# Numpy arrays of any dtype and shape leave lambdas without declared types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from svod_ir._arithmetic import Values, apply_elementwise, choose, constant, join_parts
from svod_ir.errors import UnsupportedOpError
from svod_ir.evaluate.access import (
    is_effect,
    make_assign,
    make_load,
    make_read,
    make_store,
    view_bytes,
)
from svod_ir.evaluate.memory import Environment, Poison, checked, find_poison, is_location
from svod_ir.evaluate.movement import MOVES, fill_sizes, gather, scatter
from svod_ir.evaluate.reduction import (
    all_reduce,
    make_finish,
    multiply_tiles,
    reduce_axes,
    scan_axis,
    scatter_sums,
)
from svod_ir.evaluate.repeat import make_loop_step, make_repeat_step, make_switch_step
from svod_ir.ops import ELEMENTWISE, Op
from svod_ir.uop import UOp

__all__ = ["copy", "make_step"]


def make_step(node: UOp, environment: Environment) -> Callable[..., Any]:
    op, dtype = node.op, node.dtype
    if op in ELEMENTWISE:
        return _elementwise(node)
    if op in MOVES:
        return lambda x, *sizes: MOVES[op](x, fill_sizes(node.arg, sizes))
    match op:
        case Op.CONST | Op.VCONST:
            value = constant(node.arg, dtype)
            return lambda: value
        case Op.DEFINE_VAR | Op.SPECIAL | Op.RANGE:
            scalar = environment.scalar(node)
            return lambda: scalar
        case Op.INDEX:
            return make_read(node)
        case Op.LOAD:
            return make_load(node)
        case Op.STORE:
            return make_store(node)
        case Op.AFTER:
            return copy if is_location(node.source) else lambda x: x
        case Op.CARRY:
            return lambda initial, *_elements: initial
        case Op.ASSIGN:
            return make_assign(node)
        case Op.BUFFER_VIEW:
            offset, size = node.arg
            return lambda x: view_bytes(node, x, offset, size)
        case Op.CALL:
            return _call(node, environment)
        case Op.END:
            return make_repeat_step(node, environment)
        case Op.LOOP:
            return make_loop_step(node, environment)
        case Op.SWITCH:
            return make_switch_step(node, environment)
        case Op.RESULT:
            return lambda results: results[node.arg]
        case _:
            return _make_rare_step(node)


def copy(x: Values) -> Values:
    return x.copy()


def _make_rare_step(node: UOp) -> Callable[..., Any]:
    dtype = node.dtype
    match node.op:
        case Op.IOTA:
            return lambda *size: np.arange(int(size[0]) if size else node.arg).astype(dtype.numpy)
        case Op.GATHER:
            return lambda x, indices: gather(x, indices, node.arg)
        case Op.SCATTER if node.arg.op is None:
            return lambda x, indices, base: scatter(x, indices, base, node.arg.axis)
        case Op.SCATTER:
            return lambda x, indices, base: scatter_sums(x, indices, base, node)
        case Op.REDUCE_AXIS:
            return lambda x: reduce_axes(x, node)
        case Op.SCAN_AXIS:
            return lambda x: scan_axis(x, node)
        case Op.REDUCE:
            return make_finish(node)
        case Op.BIND:
            return lambda value: value
        # Nodes about devices, memory and derivatives have the value of their operand.
        case Op.COPY | Op.DETACH | Op.CONTIGUOUS | Op.TRACED | Op.RESHARD:
            return lambda x: x
        case Op.GRADIENT | Op.CONTROL_DEPENDENCY:
            return lambda x, *_others: x
        case Op.CHECK:
            return lambda x, *_size: x
        case Op.COMPLEX:
            return lambda real, imag: join_parts(real, imag, dtype)
        case Op.REAL:
            return lambda x: x.real.copy()
        case Op.IMAG:
            return lambda x: x.imag.copy()
        case Op.AS_COMPLEX:
            return lambda x: join_parts(x[..., 0], x[..., 1], dtype)
        case Op.AS_REAL:
            return lambda x: np.stack([x.real, x.imag], -1)
        case Op.MSTACK:
            return lambda *shards: shards
        case Op.MSELECT:
            return lambda stack: stack[node.arg]
        case Op.MULTI:
            return lambda shards: (
                shards[0] if node.arg is None else np.concatenate(shards, axis=node.arg)
            )
        case Op.ALLREDUCE:
            return lambda x: all_reduce(x, node)
        case Op.VECTORIZE:
            return lambda *lanes: (
                checked(np.array(lanes, dtype=dtype.numpy))
                if not find_poison(lanes)
                else find_poison(lanes)
            )
        case Op.BROADCAST:
            return lambda x: (
                x if isinstance(x, Poison) else np.tile(x, dtype.lanes // node.source.dtype.lanes)
            )
        case Op.GEP:
            lanes = list(node.arg) if len(node.arg) > 1 else node.arg[0]
            return lambda x: x if isinstance(x, Poison) else x[lanes] if np.ndim(x) else x
        case Op.CAT:
            return lambda *parts: (
                find_poison(parts) or np.concatenate([np.atleast_1d(p) for p in parts])
            )
        case Op.WMMA:
            return lambda *tiles: find_poison(tiles) or multiply_tiles(node.arg, *tiles)
        case _:
            raise UnsupportedOpError(
                problem=f"{node.op.name} has no reference semantics", node=node
            )


def _elementwise(node: UOp) -> Callable[..., Any]:
    op, result = node.op, node.dtype
    source = node.src[1].dtype if op is Op.WHERE else node.src[0].dtype
    if op is Op.WHERE:
        return _select

    def run(*operands: Any) -> Any:
        try:
            return apply_elementwise(op, source, result, operands)
        except (AttributeError, TypeError, np.exceptions.DTypePromotionError):
            # Looked for only after a failure: poison is rare, and a test would slow down each
            # operation.
            poison = find_poison(operands)
            if poison is None:
                raise
            return poison

    return run


def _select(condition: Any, x: Any, y: Any) -> Any:
    if isinstance(condition, Poison):
        return condition
    if isinstance(x, Poison) or isinstance(y, Poison):
        # Poison is discarded only if no lane selects it.
        if np.all(condition):
            return x
        if not np.any(condition):
            return y
        return x if isinstance(x, Poison) else y
    return choose(condition, x, y)


def _call(node: UOp, environment: Environment) -> Callable[..., Any]:
    body, arguments = node.body, [s for s in node.arguments if not is_effect(s)]

    def run(*operands: Any) -> None:
        # PARAMs of a body are the arguments of this call, even if the caller has equal PARAM nodes.
        inputs: dict[UOp | int | str, Any] = {
            k: v
            for k, v in environment.given.items()
            if not (isinstance(k, UOp) and k.op is Op.PARAM)
        }
        for slot, (argument, value) in enumerate(zip(arguments, operands, strict=True)):
            if argument.op is Op.BIND:
                inputs[argument.symbol] = int(value)
            else:
                inputs[slot] = value
        if body.op not in (Op.SINK, Op.COPY, Op.BUFFER_VIEW):
            raise UnsupportedOpError(
                problem=f"a CALL of {body.op.name} has no reference semantics", node=node
            )
        value = environment.run_body(body, inputs)
        if value is not None:
            operands[0].reshape(-1)[:] = value.reshape(-1)

    return run
