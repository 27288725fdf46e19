"""Removal of SWITCHes whose choice is constant, whose branches are equal, or whose branches are
cheap.

SWITCH(1, x), its bodies f(PARAM 0) and g(PARAM 0)     g(x)
SWITCH(i, x), its bodies f(PARAM 0) and g(PARAM 0)     WHERE(i < 1, f(x), g(x)), if f and g are cheap
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from svod_ir import Op, UOp, make_alu, make_empty
from svod_ir.args import SwitchArg
from svod_ir.loops import iter_nodes, make_parameter
from svod_ir.sizes import max_size
from svod_schedule.rangeify.loops.body_costs import count_nodes, is_cheap, is_cheap_constant
from svod_schedule.rangeify.loops.functional_writes import write_as_values
from svod_schedule.rangeify.loops.loop_draft import (
    bind_operands,
    can_bind,
    is_named,
    list_slots,
    list_written_slots,
    renumber,
    replace_parameter,
)

__all__ = ["simplify_choice"]

MAX_SELECTED: Final = 1 << 12
"""Maximum number of elements of the values of a SWITCH that becomes a WHERE."""

MAX_SELECTED_NODES: Final = 8
"""Maximum number of computed nodes per branch of a SWITCH that becomes a WHERE."""


def simplify_choice(switch: UOp, read: Sequence[int], bodies: list[UOp]) -> Mapping[int, UOp]:
    """Simplify a SWITCH. Returns the replacements of the results at the positions in `read`.

    Args:
        bodies: its bodies, with only the values that are read.
    """
    operands = dict(enumerate(switch.operands))
    parameters = {slot: make_parameter(operand, slot) for slot, operand in operands.items()}
    low, high = (min(max(int(bound), 0), len(bodies) - 1) for bound in switch.choice.bounds)
    # The branch becomes a part of the graph around it, in which writes are values.
    if low == high:
        bodies = [write_as_values(bodies[low], list_written_slots(bodies[low]))]
    results: dict[int, UOp] = {}
    for k, position in enumerate(read):
        # A value that is the same in all branches does not depend on the choice.
        same = bodies[0].src[k]
        shared = None
        if all(body.src[k] is same for body in bodies) and not list_written_slots(UOp.sink(same)):
            shared = bind_operands(UOp.sink(same), parameters, operands)
        if shared is not None:
            (results[position],) = shared.src
        elif 0 in same.shape:
            results[position] = make_empty(same.dtype, same.shape)
    remaining = {position: k for k, position in enumerate(read) if position not in results}
    bodies = [UOp.sink(*(body.src[k] for k in remaining.values())) for body in bodies]
    if (
        remaining
        and _is_selected(switch.choice, bodies)
        and can_bind(UOp.sink(*bodies), parameters)
    ):
        return {
            **results,
            **dict(
                zip(remaining, _select(switch.choice, bodies, parameters, operands), strict=True)
            ),
        }
    for slot, operand in operands.items():
        written = set[int]().union(*map(list_written_slots, bodies))
        # Memory for such an operand would be filled before every run.
        if slot not in written and (is_cheap_constant(operand) or 0 in operand.shape):
            bodies = [replace_parameter(body, parameters[slot], slot, operand) for body in bodies]
    return {**results, **_make_switch(switch.choice, bodies, operands, list(remaining))}


def _is_selected(choice: UOp, bodies: Sequence[UOp]) -> bool:
    """Whether computing all branches costs less than branching between kernels at run time."""
    values = [value for body in bodies for value in body.src]
    devices = {p for p in (x.placement for x in (choice, *values)) if p is not None}
    return (
        all(is_cheap(body) and count_nodes(body) <= MAX_SELECTED_NODES for body in bodies)
        and all(prod(map(max_size, value.shape)) <= MAX_SELECTED for value in values)
        and len(devices) < 2
    )


def _select(
    choice: UOp, bodies: list[UOp], parameters: Mapping[int, UOp], operands: Mapping[int, UOp]
) -> tuple[UOp, ...]:
    """Compute the values of all branches, and select the branch `choice` by WHEREs."""
    bound = [bind_operands(body, parameters, operands) for body in bodies]
    values = [body.src for body in bound if body is not None]
    selected = values[-1]
    for i, branch in reversed(list(enumerate(values[:-1]))):
        is_taken = make_alu(Op.LT, choice, UOp.const(choice.dtype, i + 1))
        selected = tuple(
            make_alu(Op.WHERE, is_taken, x, y) for x, y in zip(branch, selected, strict=True)
        )
    return selected


def _make_switch(
    choice: UOp, bodies: list[UOp], operands: Mapping[int, UOp], read: list[int]
) -> dict[int, UOp]:
    slots = set[int]().union(*map(list_slots, bodies))
    names = {n.arg.name for body in bodies for n in iter_nodes(body) if n.op is Op.DEFINE_VAR}
    kept = [slot for slot, operand in operands.items() if slot in slots or is_named(operand, names)]
    bodies = [renumber(body, kept) for body in bodies]
    switch = UOp(
        Op.SWITCH, bodies[0].dtype, (choice, *(operands[s] for s in kept)), SwitchArg(tuple(bodies))
    )
    return {p: UOp(Op.RESULT, bodies[0].src[k].dtype, (switch,), k) for k, p in enumerate(read)}
