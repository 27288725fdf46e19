"""LOOP, SWITCH and repeated CALLs: bodies are evaluated on separate arrays, once per iteration."""

# Numpy arrays of any dtype and shape leave lambdas without declared types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from svod_ir._arithmetic import Values
from svod_ir._sharding import Placement, Sharding
from svod_ir.args import RepeatArg
from svod_ir.evaluate.memory import Environment
from svod_ir.loops import get_slots, read_loop
from svod_ir.ops import Op
from svod_ir.sizes import max_size
from svod_ir.uop import UOp

__all__ = ["is_repeat", "make_loop_step", "make_repeat_step", "make_switch_step"]

_Inputs = dict[UOp | int | str, Any]


def make_loop_step(node: UOp, environment: Environment) -> Callable[..., tuple[Values, ...]]:
    """The final carries, then the stacked values."""
    arg, fields, operands = node.arg, read_loop(node), node.src[1:]
    slots, n_carried, end_sliced = get_slots(operands), arg.n_carried, arg.n_carried + arg.n_sliced

    def run(count: Any, *values: Any) -> tuple[Values, ...]:
        variables = _collect_variables(environment, operands, values)
        n_iterations = max(int(count), 0)
        # Without an iteration, the results are the initial values.
        carried: list[Any] = list(values[:n_carried])
        stacked: list[list[Any]] = [[] for _ in fields.stacked]
        for t in range(n_iterations):
            index = n_iterations - 1 - t if arg.is_reversed else t
            inputs = {**variables, arg.counter: t} if arg.counter is not None else dict(variables)
            for position, (operand, slot) in enumerate(zip(operands, slots, strict=True)):
                if position < n_carried:
                    _bind_input(inputs, slot, carried[position], operand)
                elif position < end_sliced:
                    _bind_input(
                        inputs,
                        slot,
                        _take_slice(values[position], index, n_iterations),
                        operand,
                        is_slice=True,
                    )
                else:
                    _bind_input(inputs, slot, values[position], operand)
            results = environment.evaluate(arg.body, inputs)
            carried = list(results[:n_carried])
            for column, value in zip(stacked, results[n_carried:], strict=False):
                column.append(value)
            if arg.is_conditional and not results[-1]:
                break
        return (
            *carried,
            *(
                _stack(x, v[::-1] if arg.is_reversed else v, environment, variables)
                for x, v in zip(fields.stacked, stacked, strict=True)
            ),
        )

    return run


def make_switch_step(node: UOp, environment: Environment) -> Callable[..., tuple[Values, ...]]:
    """The values of the body that the clipped index selects."""
    bodies, operands = node.arg.bodies, node.src[1:]
    slots = get_slots(operands)

    def run(choice: Any, *values: Any) -> tuple[Values, ...]:
        inputs = _collect_variables(environment, operands, values)
        for operand, slot, value in zip(operands, slots, values, strict=True):
            _bind_input(inputs, slot, value, operand)
        return environment.evaluate(bodies[min(max(int(choice), 0), len(bodies) - 1)], inputs)

    return run


def is_repeat(node: UOp) -> bool:
    """True if a node is the END that repeats the CALL of a kernel graph."""
    return node.op is Op.END and node.body.op is Op.CALL and node.body.arg is not None


def make_repeat_step(end: UOp, environment: Environment) -> Callable[..., None]:
    """Fill the results of a repeated CALL from its operands; spares are not needed here."""
    call = end.body
    arg: RepeatArg = call.arg
    n_results = arg.n_carried + arg.n_stacked
    first = n_results + len(arg.spares)

    def run(stop: Any, *arrays: Any) -> None:
        operands = arrays[first : len(arrays) - arg.is_count_read]
        variables = _collect_variables(environment, (), ())
        n_iterations = max(int(arrays[-1][0]) if arg.is_count_read else int(stop), 0)
        if arg.branch is not None:
            # The count is the index of a switch here; exactly one branch equals the clipped one.
            n_iterations = int(min(n_iterations, arg.n_branches - 1) == arg.branch)
        carried: list[Any] = list(operands[: arg.n_carried])
        for t in range(n_iterations):
            index = n_iterations - 1 - t if arg.is_reversed else t
            inputs = {**variables, arg.counter: t} if arg.counter is not None else dict(variables)
            for slot, operand in enumerate(operands):
                value = carried[slot] if slot < arg.n_carried else operand
                is_sliced = arg.n_carried <= slot < arg.n_carried + arg.n_sliced
                inputs[slot] = (
                    value.reshape(n_iterations, -1)[index] if is_sliced else value
                ).copy()
            results = environment.evaluate(call.body, inputs)
            carried = list(results[: arg.n_carried])
            for filled, value in zip(
                arrays[arg.n_carried : n_results], results[arg.n_carried :], strict=False
            ):
                filled.reshape(n_iterations, -1)[index] = value
            if arg.is_conditional and not results[-1]:
                break
        for filled, value in zip(arrays, carried, strict=False):
            filled[:] = value

    return run


def _collect_variables(
    environment: Environment, operands: Sequence[UOp], values: Sequence[Any]
) -> _Inputs:
    """The variables of the caller and the variables that operands bind; no memory."""
    variables: _Inputs = {
        k: v
        for k, v in environment.given.items()
        if isinstance(k, str) or (isinstance(k, UOp) and k.op is Op.DEFINE_VAR)
    }
    for operand, value in zip(operands, values, strict=True):
        if operand.op is Op.BIND:
            variables[operand.symbol] = int(value)
    return variables


def _bind_input(
    inputs: _Inputs, slot: int, value: Any, operand: UOp, *, is_slice: bool = False
) -> None:
    """Copy a value, or each of its shards, to its slots, so that the body may write it."""
    array = np.asarray(value)
    placement = _slice_placement(operand.placement) if is_slice else operand.placement
    if not isinstance(placement, Sharding):
        # Memory is allocated for the largest values of variables, which the shape of a flat array
        # does not show.
        inputs[slot] = np.zeros(
            max(math.prod(map(max_size, operand.shape[is_slice:])), array.size), array.dtype
        )
        inputs[slot][: array.size] = array.reshape(-1)
        return
    for i in range(len(placement.devices)):
        shard = array
        if placement.axis is not None:
            shard = np.take(array, range(*placement.bounds(i)), axis=placement.axis)
        inputs[slot + i] = shard.reshape(-1).copy()


def _take_slice(value: Any, index: int, n_slices: int) -> Values:
    """Slice `index` along the first axis; a flat memory is reshaped first."""
    array = np.asarray(value)
    return (array if len(array) == n_slices else array.reshape(n_slices, -1))[index]


def _slice_placement(placement: Placement) -> Placement:
    if not isinstance(placement, Sharding) or placement.axis is None:
        return placement
    return placement._replace(axis=placement.axis - 1)


def _stack(
    source: UOp, values: Sequence[Any], environment: Environment, variables: _Inputs
) -> Values:
    if values:
        return np.stack([np.asarray(value) for value in values])
    sizes = (
        s if isinstance(s, int) else int(environment.evaluate(s, variables)) for s in source.shape
    )
    return np.zeros((0, *sizes), source.dtype.numpy)
