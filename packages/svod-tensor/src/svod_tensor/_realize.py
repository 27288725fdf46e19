"""realize: from tensors to filled buffers, and to plans that fill them again.

Decide what to compute (`cells.work`), make its plan and execute it (`engine.compute`), and let the
tensors stand for what it wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import TYPE_CHECKING

from svod_ir import UOp, get_logger
from svod_runtime import InterruptDelay
from svod_tensor._draws import sample_again
from svod_tensor.cells import overwriting, registry, tables
from svod_tensor.cells.growth import compute_outgrown, compute_repeated, list_kept
from svod_tensor.cells.known_work import compute_known
from svod_tensor.cells.registry import check_not_capturing
from svod_tensor.cells.work import (
    Replacements,
    Work,
    adopt_outputs,
    get_copies,
    list_results,
    make_request,
    start_plan,
    start_work,
)
from svod_tensor.engine import versions
from svod_tensor.engine.bindings import bind_to_plan
from svod_tensor.engine.compute import execute, make_plan
from svod_tensor.engine.known_plans import keep_known_plan
from svod_tensor.host_functions.register import register_built_in
from svod_tensor.options import PrepareConfig

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.cells.cell import Cell, Live

__all__ = ["keep_values", "prepare_tensors", "realize_tensors"]

_log = get_logger("tensor")

register_built_in()


def realize_tensors(
    tensors: Sequence[Live], config: PrepareConfig, *, is_apart: bool = False
) -> None:
    """Compute all tensors and cells in one go; what they share is computed once. Nothing is done
    for realized or empty ones.

    Args:
        tensors: what to compute.
        config: how.
        is_apart: whether the caller tells others of the results, whose graphs write to no memory.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    check_not_capturing("reads values")
    started = perf_counter()
    if (
        len(tensors) == 1
        and not is_apart
        and (known := compute_known(tensors[0], config)) is not None
    ):
        _log.info(
            "realize.done",
            outputs=1,
            kernels=known.plan.num_kernels,
            execute_us=_get_microseconds(started),
        )
        return
    compute_repeated(tensors, config, realize_tensors)
    tensors = [*tensors, *list_kept(tensors)]
    while tensors:
        started = perf_counter()
        work = start_work(tensors, config)
        if work is None:
            return
        try:
            plan = make_plan(work.job, config, is_for_once=True)
            # Ctrl-C between an assignment and the note that it is done would do it twice.
            with InterruptDelay() if work.job.graph.written else nullcontext():
                prepared = perf_counter()
                execute(plan)
                _log.info(
                    "realize.done",
                    outputs=len(work.results),
                    kernels=plan.num_kernels,
                    prepare_us=round((prepared - started) * 1e6),
                    execute_us=_get_microseconds(prepared),
                )
                with registry.lock:
                    # What another thread gave another value meanwhile is computed again.
                    nodes = work.computation.nodes
                    there = [t for t, *_ in work.requests if not t.cell.is_donated]
                    tensors = [t for t in there if t.node is not nodes[id(t)] and not t.is_realized]
                    adopted = adopt_outputs(work, plan, range(len(work.results)))
                    if not is_apart:
                        overwriting.commit_writes(
                            work.job.graph.written, adopted.values, work.new_buffers, adopted.copies
                        )
                if len(work.results) > 1 or not keep_known_plan(work.results[0], plan, config):
                    plan.recycle()
        finally:
            registry.end_computation(work.computation)


def _compute_grown(cell: Cell) -> None:
    """Compute the graph of a new cell if it has outgrown one program."""
    compute_outgrown(cell, realize_tensors)


tables.set_growth_check(_compute_grown)


def _get_microseconds(start: float) -> int:
    return round((perf_counter() - start) * 1e6)


def prepare_tensors(
    tensors: Sequence[Live], config: PrepareConfig, donated: Collection[UOp] = ()
) -> ExecutionPlan:
    """The plan that computes all tensors, which are wired to its outputs: they read what
    `plan.execute()` last wrote.

    It may overwrite the BUFFERs in `donated`. The outputs are the parts of each tensor in order:
    one, or one for each shard. Of a tensor that is realized already it is its memory, of one
    without elements an empty buffer.

    Assignments that the tensors depend on are part of the plan. What reads the old elements and is
    none of the tensors is computed now.

    Raises:
        EmptyScheduleError: if no tensor needs computing.
    """
    check_not_capturing("prepares a plan")
    kept = Replacements({}, {})
    work, order = _start_plan(list(tensors), config, kept)
    try:
        plan = make_plan(work.job._replace(donated=donated), config)
        with registry.lock:
            copies = adopt_outputs(work, plan, order).copies
            for one in work.requests:
                if one.missing and not all(isinstance(s, int) for s in one.node.shape):
                    # From now on its size is that of the last execution.
                    one.tensor.adopt(one.tensor.node, bind_to_plan(one.tensor.node, plan.variables))
            overwriting.commit_writes(
                versions.get_pending_versions(*work.results),
                kept.values,
                work.new_buffers,
                {**copies, **kept.copies},
            )
        registry.add_plan(plan)
    finally:
        registry.end_computation(work.computation)
    return plan


def _start_plan(
    tensors: list[Live], config: PrepareConfig, kept: Replacements
) -> tuple[Work, list[int]]:
    """Decide what a plan for `tensors` computes, once all else that reads what it overwrites is
    computed, which `kept` gets.
    """
    while True:
        with registry.lock:
            registry.wait_for_capture()
            known = set(map(id, tensors))
            overtaken = overwriting.list_readers_of_overwritten(
                list_results(map(make_request, tensors))
            )
            readers = [cell for cell in overtaken if id(cell) not in known]
            # What stands between two assignments can be computed by the plan alone.
            tensors += [cell for cell in readers if versions.get_pending_versions(cell.node)]
            aside = [cell for cell in readers if not versions.get_pending_versions(cell.node)]
            if not aside:
                sample_again(tensors)
                return start_plan(tensors, config)
        for cell in aside:
            _compute_aside(cell, config, kept)


def keep_values(
    readers: Sequence[Cell], config: PrepareConfig, kept: Replacements | None = None
) -> Replacements:
    """Compute what reads memory that is about to be overwritten; return what it became, besides
    what `kept` has.
    """
    old = [cell.node for cell in readers]
    realize_tensors(readers, config)
    kept = kept or Replacements({}, {})
    with registry.lock:
        for cell, node in zip(readers, old, strict=True):
            if cell.is_donated or not cell.is_realized:
                continue
            if versions.is_memory(node):
                kept.copies.update(get_copies(node, cell.node))
            else:
                kept.values[node] = cell.node
    return kept


def _compute_aside(cell: Cell, config: PrepareConfig, kept: Replacements) -> None:
    """Give `cell` its value while graphs that contain it keep computing theirs, at each execution
    of a plan.
    """
    work = start_work([cell], config)
    if work is None:
        return
    try:
        plan = make_plan(work.job, config)
        execute(plan)
        with registry.lock:
            adopted = adopt_outputs(work, plan, range(len(work.results)))
            kept.values.update(adopted.values)
            kept.copies.update(adopted.copies)
    finally:
        registry.end_computation(work.computation)
