"""Native functions: custom functions that plans run as kernels, in batches and loops, without Python.

    custom function (out, x, y)   ->   start (out, x); ...; wait (out, x)

A function may be split in two: `start` begins work that goes on beside the plan, such as a message
to another process, and `wait` ends it. A plan starts as early and waits as late as it can: no op
touches the memory of the two in between, since both count as writing `out` and reading `x`.
Where nothing else can run in between, `blocking` replaces the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from svod_device import Buffer, ProgramSpec, Variable
from svod_runtime.ops.custom_functions import BoundProgram, NativeCall, find_native_call
from svod_runtime.ops.prepared import (
    CachedKernel,
    Phase,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
)

__all__ = ["use_native_functions"]


def use_native_functions(
    ops: Sequence[PreparedOp],
    dependencies: Sequence[Sequence[int]],
    buffers: Sequence[Buffer],
) -> tuple[list[PreparedOp], list[Sequence[int]]]:
    """Replace custom functions by their native form, in loops too.

    Args:
        ops: ops of a plan.
        dependencies: for each op, indices of ops that must run before.
        buffers: buffers that the ops index.

    Returns:
        Ops, and the dependencies of each. An op that depends on a call now depends on its start;
        if it reads the output, it also has to wait, by the order of accesses to memory.
    """
    new_ids = count(1 + max((op.id for op in ops), default=0))
    new: list[PreparedOp] = []
    indices: list[int] = []
    declared: list[Sequence[int]] = []
    for op, needed in zip(ops, dependencies, strict=True):
        indices.append(len(new))
        new += _replace(op, buffers, new_ids)
        declared.append(needed)
        declared += [(len(declared) - 1,)] * (len(new) - len(declared))
    if len(new) == len(ops):
        return new, declared
    starts = set(indices)
    return new, [
        [indices[n] for n in needed] if position in starts else needed
        for position, needed in enumerate(declared)
    ]


def _replace(
    op: PreparedOp, buffers: Sequence[Buffer], new_ids: Iterator[int]
) -> Sequence[PreparedOp]:
    match op:
        case PreparedLoop(body=body):
            inner_ids = count(1 + max((inner.id for inner in body.ops), default=0))
            inner = [new for old in body.ops for new in _replace(old, body.buffers, inner_ids)]
            is_same = all(new is old for new, old in zip(inner, body.ops, strict=False))
            return [op if is_same else replace(op, body=replace(body, ops=tuple(inner)))]
        case PreparedCustomFunction():
            call = find_native_call(op.kind, op.attrs)
            return [op] if call is None else list(_make_kernels(op, call, buffers, new_ids))
        case _:
            return [op]


def _make_kernels(
    op: PreparedCustomFunction,
    call: NativeCall,
    buffers: Sequence[Buffer],
    new_ids: Iterator[int],
) -> Iterable[PreparedKernel]:
    indices = op.buffer_indices[: 1 + call.n_inputs]
    device = buffers[indices[0]].device

    def make(
        program: BoundProgram, op_id: int, dependencies: tuple[int, ...], phase: Phase | None
    ) -> PreparedKernel:
        names = tuple(f"argument{n}" for n in range(len(program.values)))
        slots = tuple(range(len(indices)))
        spec = ProgramSpec(
            program.name,
            f"native function {program.name}",
            device,
            variables=tuple(Variable(n, v, v) for n, v in zip(names, program.values, strict=True)),
            var_names=names,
            globals=slots,
            outs=(0,),
            ins=slots if phase == "wait" else slots[1:],
        )
        kernel = CachedKernel(program, spec, call.launcher, is_host_parallel_safe=False)
        return PreparedKernel(
            op_id,
            kernel,
            device,
            indices,
            (0,),
            tuple(program.values),
            dict(zip(names, program.values, strict=True)),
            dependencies,
            phase=phase,
        )

    if call.wait is None:
        yield make(call.start, op.id, op.dependencies, None)
        return
    start = make(call.start, op.id, op.dependencies, "start")
    blocking = None if call.blocking is None else make(call.blocking, op.id, op.dependencies, None)
    yield replace(start, blocking=blocking)
    yield make(call.wait, next(new_ids), (op.id,), "wait")
