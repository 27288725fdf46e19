"""Variables of a plan: variables that its ops read, except fixed variables and loop counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from svod_device import CORE_ID, Variable
from svod_ir import Op, UOp
from svod_runtime.ops.prepared import (
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedOp,
)

__all__ = ["collect_bounds", "get_initial_values"]


def get_initial_values(ops: Iterable[PreparedOp]) -> tuple[dict[str, int], set[str]]:
    """Return the initial value of each settable variable, and the names with several initial
    values.
    """
    values: dict[str, int] = {}
    uneven: set[str] = set()
    for _, own in _iter_variables(ops, frozenset()):
        # An unrolled loop may start one variable with several values. Setting it must then reach
        # every op, even if the value equals the recorded one.
        uneven.update(
            name for name, value in own.items() if values.setdefault(name, value) != value
        )
        values.update(own)
    return values, uneven


def collect_bounds(ops: Iterable[PreparedOp]) -> dict[str, set[Variable]]:
    """Return the bounds of each settable variable, as declared by the ops."""
    bounds: dict[str, set[Variable]] = {}
    for variables, _ in _iter_variables(ops, frozenset()):
        for variable in variables:
            # The launcher sets `core_id`, to another value on each core.
            if variable.name != CORE_ID:
                bounds.setdefault(variable.name, set()).add(variable)
    return bounds


def _iter_variables(
    ops: Iterable[PreparedOp], counters: frozenset[str]
) -> Iterator[tuple[list[Variable], Mapping[str, int]]]:
    """Settable variables of each op and their initial values, including ops in loops."""
    for op in ops:
        match op:
            case PreparedKernel():
                variables: Iterable[Variable] = op.kernel.spec.variables
                values: Mapping[str, int] = dict(
                    zip(op.kernel.spec.var_names, op.values, strict=True)
                )
            case PreparedCustomFunction():
                variables, values = op.variables, op.values
            case PreparedCopy() | PreparedBufferView():
                continue
            case _:
                variables = _list_variables(op.count)
                values = {
                    variable.name: op.values.get(variable.name, variable.min)
                    for variable in variables
                }
                inner = counters if op.body.counter is None else counters | {op.body.counter}
                yield from _iter_variables(op.body.ops, inner)
        # A counter is a variable only within its loop; the loop sets it.
        fixed = op.fixedvars.keys() | counters
        yield (
            [v for v in variables if v.name not in fixed],
            {n: v for n, v in values.items() if n not in fixed},
        )


def _list_variables(count: UOp | int | None) -> list[Variable]:
    return (
        [Variable(*node.arg) for node in count.iter_ops(Op.DEFINE_VAR)]
        if isinstance(count, UOp)
        else []
    )
