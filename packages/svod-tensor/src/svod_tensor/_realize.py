"""realize: compute tensors, and prepare plans that compute them repeatedly.

Decide what to compute (`cells.work`), make its plan and execute it (`engine.compute`), and bind the
tensors to the results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import TYPE_CHECKING

from svod_ir import UOp, get_logger
from svod_runtime import InterruptDelay
from svod_tensor._random_keys import resample_on_execution
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
    tensors: Sequence[Live], config: PrepareConfig, *, is_segment: bool = False
) -> None:
    """Compute all tensors and cells together; common subgraphs are computed once. Realized and
    empty tensors are skipped.

    Args:
        tensors: the tensors to compute.
        config: how.
        is_segment: whether the graphs write no memory and the caller rebinds other graphs to the
            results.

    Raises:
        VariableConflictError: if a variable is bound to two values.
        BoundsConflictError: if two variables have one name.
    """
    check_not_capturing("reads values")
    started = perf_counter()
    if (
        # A small graph of a known structure takes a tenth of the time of the general path.
        len(tensors) == 1
        and not is_segment
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
            plan = make_plan(work.job, config, may_resize=True)
            # Delay Ctrl-C: between the execution of a write and its commit, the write would happen
            # twice.
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
                    # Tensors that got another value from another thread meanwhile are computed
                    # again.
                    nodes = work.computation.nodes
                    usable = [t for t, *_ in work.requests if not t.cell.is_donated]
                    tensors = [
                        t for t in usable if t.node is not nodes[id(t)] and not t.is_realized
                    ]
                    # Before the commit, which rebinds graphs to the memory that the tensors have
                    # now.
                    adopted = adopt_outputs(work, plan, range(len(work.results)))
                    if not is_segment:
                        overwriting.commit_writes(
                            work.job.graph.written, adopted.values, work.new_buffers, adopted.copies
                        )
                if len(work.results) > 1 or not keep_known_plan(work.results[0], plan, config):
                    plan.recycle()
        finally:
            registry.end_computation(work.computation)


def _compute_outgrown(cell: Cell) -> None:
    """Compute the graph of a new cell if it has outgrown one program."""
    compute_outgrown(cell, realize_tensors)


tables.set_growth_check(_compute_outgrown)


def _get_microseconds(start: float) -> int:
    return round((perf_counter() - start) * 1e6)


def prepare_tensors(
    tensors: Sequence[Live], config: PrepareConfig, donated: Collection[UOp] = ()
) -> ExecutionPlan:
    """The plan that computes all tensors, which are bound to its outputs: they read the results of
    the last `plan.execute()`.

    It may overwrite the BUFFERs in `donated`. The outputs are the shards of each tensor in order.
    The output of a realized tensor is its memory, of an empty tensor an empty buffer.

    Writes that the tensors depend on are part of the plan. Other readers of the overwritten
    versions are computed now.

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
            for request in work.requests:
                if request.missing and not all(isinstance(s, int) for s in request.node.shape):
                    # From now on its symbolic size is the size at the plan's last execution.
                    request.tensor.adopt(
                        request.tensor.node, bind_to_plan(request.tensor.node, plan.variables)
                    )
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
    """Register the computation of a plan for `tensors`, after computing other readers of the
    versions that it overwrites; add their values to `kept`.
    """
    while True:
        with registry.lock:
            registry.wait_for_capture()
            known = set(map(id, tensors))
            hazards = overwriting.list_readers_of_overwritten(
                list_results(map(make_request, tensors))
            )
            readers = [cell for cell in hazards if id(cell) not in known]
            # A reader between two writes can only be computed by the plan itself.
            tensors += [cell for cell in readers if versions.get_pending_versions(cell.node)]
            separate = [cell for cell in readers if not versions.get_pending_versions(cell.node)]
            if not separate:
                resample_on_execution(tensors)
                return start_plan(tensors, config)
        # Without the lock, since it compiles and runs kernels; then the readers are listed again.
        for cell in separate:
            _compute_separately(cell, config, kept)


def keep_values(
    readers: Sequence[Cell], config: PrepareConfig, kept: Replacements | None = None
) -> Replacements:
    """Compute readers of memory that is about to be overwritten; return their new nodes, added to
    `kept`.
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


def _compute_separately(cell: Cell, config: PrepareConfig, kept: Replacements) -> None:
    """Compute `cell` now, while graphs that contain it still compute its value at each execution of
    a plan.
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
