"""The table of all passes in order, and the functions that run it.

`python -m svod_schedule.pipeline` prints the table. The runner does the timing, logging, dumping
and checking; a pass is a pure function from graph to graph. `with_pass` makes a table with passes
of your own, which runs if it is the `passes` of a `Context`.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, Target, UOp, make_reduce_axis, make_reshape
    >>> from svod_schedule.pipeline import PIPELINES, Context, Pass, PassTable, compile_kernel, format_table, run_pipeline
    >>> x = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU")), (3, 4))
    >>> context = Context(target=Target.generic(cores=1))
    >>> ranged = run_pipeline("rangeify", UOp.sink(make_reduce_axis(x + 1.0, Op.ADD, (1,))), context)
    >>> (call,) = run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL)
    >>> optimized, linear = compile_kernel(call.body, context)
    >>> optimized.op, len(linear) > 5
    (SINK, True)
    >>> nothing = Pass("nothing", lambda graph, _: graph, "changes nothing", stage="lowering")
    >>> table = PIPELINES.with_pass("lower", nothing, before="expand")
    >>> isinstance(table, PassTable), "expand" in format_table()
    (True, True)
    >>> shorter = table.without_pass("lower", "nothing")
    >>> [name for name, passes in shorter.items() if passes == PIPELINES[name]]
    ['rangeify', 'kernelize', 'optimize', 'lower']

    A graph of two devices has two targets:

    >>> card = Target.generic(cores=2)
    >>> both = Context(target=Target.generic(cores=8), targets={"CARD": card})
    >>> both.target_of("CARD") is card, both.count_cores("CARD"), both.count_cores("CPU")
    (True, 2, 8)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from svod_ir import IROptions, Opt, OptionError, Target, UOp, get_logger
from svod_ir.ops import STAGES
from svod_ir.uop import keep_order
from svod_schedule.errors import PassOrderError, PassResultError, UnknownPassError
from svod_schedule.kernelize.cut_kernels import cut_kernels
from svod_schedule.kernelize.join_kernels import join_kernels
from svod_schedule.kernelize.share_bodies import share_bodies
from svod_schedule.linearize import linearize
from svod_schedule.lower.accumulate import accumulate
from svod_schedule.lower.add_loads import add_loads
from svod_schedule.lower.block_sums import block_sums
from svod_schedule.lower.branch_rare import branch_rare
from svod_schedule.lower.decompose import decompose
from svod_schedule.lower.decompose_math import decompose_math
from svod_schedule.lower.expand import expand
from svod_schedule.lower.group_reduce import group_reduce
from svod_schedule.lower.narrow_sums import narrow_sums
from svod_schedule.lower.place_launch_axes import place_launch_axes
from svod_schedule.lower.simplify_indices import simplify_indices
from svod_schedule.lower.stream_rows import stream_rows
from svod_schedule.lower.type_indices import type_indices
from svod_schedule.optimize.apply_opts import apply_opts
from svod_schedule.optimize.divide_loops import divide_loops
from svod_schedule.optimize.emulate import emulate
from svod_schedule.optimize.heuristics.proposals import Reason
from svod_schedule.optimize.merge_loops import merge_loops
from svod_schedule.optimize.share_loops import share_loops
from svod_schedule.optimize.simplify_kernel import simplify_kernel
from svod_schedule.optimize.split_loops import split_loops
from svod_schedule.rangeify.all_reduce import all_reduce
from svod_schedule.rangeify.gather_sums import gather_sums
from svod_schedule.rangeify.limit_buffers import limit_buffers
from svod_schedule.rangeify.mark_results import mark_results
from svod_schedule.rangeify.permute_early import permute_early
from svod_schedule.rangeify.protect_assigned import protect_assigned
from svod_schedule.rangeify.range_values import range_values
from svod_schedule.rangeify.release_events import release_events
from svod_schedule.rangeify.reshape_late import reshape_late
from svod_schedule.rangeify.shard_values import shard_values
from svod_schedule.rangeify.simplify_loops import simplify_loops
from svod_schedule.rangeify.skip_padding import skip_padding
from svod_schedule.rangeify.split_complex import split_complex
from svod_schedule.rangeify.split_reduce import split_reduce
from svod_schedule.rangeify.store_transposed import store_transposed

if TYPE_CHECKING:
    from svod_schedule._pass_check import PassCheck

__all__ = [
    "PIPELINES",
    "Context",
    "Pass",
    "PassTable",
    "compile_kernel",
    "format_table",
    "run_pipeline",
]

_serials: Final = count(1)


@dataclass(frozen=True, slots=True)
class Pass:
    """A row of the table.

    Attributes:
        name: the name of the pass.
        run: the function from graph to graph.
        does: what the pass does, in one clause.
        stage: the stage whose specification the result satisfies.
        after: the names of passes that must come earlier.

    Raises:
        UnknownPassError: if there is no such stage.
    """

    name: str
    run: Callable[[UOp, Context], UOp]
    does: str
    stage: str
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise UnknownPassError(kind="stage", name=self.stage, known=tuple(STAGES))


@dataclass(frozen=True, slots=True, eq=False)
class PassTable:
    """The passes of each pipeline in execution order. Tables are compared by identity.

    Raises:
        PassOrderError: if a pass comes before a pass that it must come after, or two passes have
            the same name.
    """

    pipelines: Mapping[str, tuple[Pass, ...]]
    serial: int = field(default_factory=_serials.__next__, init=False)
    """Unique number in this process, for cache keys."""

    def __post_init__(self) -> None:
        for name, passes in self.pipelines.items():
            _check_order(name, passes)

    def __getitem__(self, pipeline: str) -> tuple[Pass, ...]:
        """Return the passes of a pipeline.

        Raises:
            UnknownPassError: if there is no such pipeline.
        """
        passes = self.pipelines.get(pipeline)
        if passes is None:
            raise UnknownPassError(kind="pipeline", name=pipeline, known=tuple(self.pipelines))
        return passes

    def items(self) -> Iterator[tuple[str, tuple[Pass, ...]]]:
        """Iterate over the names of the pipelines and their passes."""
        return iter(self.pipelines.items())

    def with_pass(self, pipeline: str, row: Pass, *, before: str | None = None) -> PassTable:
        """Return a table with an additional pass, before the pass `before` or at the end. Without
        `before`, a pass of the same name is replaced.

        Raises:
            UnknownPassError: if there is no such pipeline, or no pass `before` in it.
            PassOrderError: if a pass would come before a pass that it must come after.
        """
        passes = self[pipeline]
        names = [p.name for p in passes]
        if before is None and row.name in names:
            start, end = names.index(row.name), names.index(row.name) + 1
        else:
            start = end = len(passes) if before is None else self._find(pipeline, before)
        return self._with(pipeline, (*passes[:start], row, *passes[end:]))

    def without_pass(self, pipeline: str, name: str) -> PassTable:
        """Return a table without a pass, which is also removed from the `after` of other passes.

        Raises:
            UnknownPassError: if there is no such pipeline or pass.
        """
        removed = self._find(pipeline, name)
        kept = (p for i, p in enumerate(self[pipeline]) if i != removed)
        return self._with(
            pipeline, tuple(replace(p, after=tuple(a for a in p.after if a != name)) for p in kept)
        )

    def _with(self, pipeline: str, passes: tuple[Pass, ...]) -> PassTable:
        return PassTable({**self.pipelines, pipeline: passes})

    def _find(self, pipeline: str, name: str) -> int:
        names = [p.name for p in self[pipeline]]
        if name not in names:
            raise UnknownPassError(kind=f"pass of {pipeline}", name=name, known=names)
        return names.index(name)


def _check_order(pipeline: str, passes: tuple[Pass, ...]) -> None:
    seen: set[str] = set()
    for row in passes:
        missing = set(row.after) - seen
        if missing or row.name in seen:
            raise PassOrderError(pipeline=pipeline, name=row.name, missing=sorted(missing))
        seen.add(row.name)


@dataclass(frozen=True, slots=True)
class Context:
    """Inputs of the passes of one compilation, besides the graph.

    Attributes:
        target: the target of `device`.
        device: the device of values that depend on no memory.
        opts: the opts to apply, empty for none; None lets the heuristics choose.
        note_reasons: called for each kernel with the reasons for its opts.
        options: checks and dumps. A Context reads no environment; `IROptions.from_env()` does.
        observe: called after each pass with the pipeline, the pass, the graph and the elapsed
            seconds.
        targets: the targets of other devices in a graph.
        passes: the passes to run; `PIPELINES.with_pass` makes a table with others.
    """

    target: Target = field(default_factory=Target.generic)
    device: str = "CPU"
    opts: tuple[Opt, ...] | None = None
    note_reasons: Callable[[tuple[Reason, ...]], None] | None = None
    options: IROptions = field(default_factory=IROptions)
    observe: Callable[[str, str, UOp, float], None] | None = None
    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])
    passes: PassTable = field(default_factory=lambda: PIPELINES)

    def target_of(self, device: str) -> Target:
        """Return the target of a device of the graph."""
        return self.targets.get(device, self.target)

    def count_cores(self, device: str) -> int | None:
        """Return the number of cores of a device that run loops; None for a device with a launch
        grid of work-items.
        """
        target = self.target_of(device)
        return None if target.has_local else target.cores

    @property
    def max_buffers(self) -> int | None:
        """Maximum number of buffers of a kernel on all of the devices; None for no limit."""
        return min(
            (
                t.max_buffers
                for t in (self.target, *self.targets.values())
                if t.max_buffers is not None
            ),
            default=None,
        )


_RANGEIFY: Final = (
    Pass(
        "split-complex",
        lambda g, _: split_complex(g),
        "writes complex numbers as pairs of real ones",
        "graph",
    ),
    # A control dependency on a complex value becomes one on both of its components.
    Pass(
        "release-events",
        lambda g, _: release_events(g),
        "removes control dependencies on values that nothing else reads",
        "graph",
        after=("split-complex",),
    ),
    # The remaining events are computed values, which need no special case in later passes.
    Pass(
        "shard-values",
        lambda g, _: shard_values(g),
        "replaces sharded values by one value per shard",
        "graph",
        after=("release-events",),
    ),
    # Each shard of a carry is an operand of its own, which can be simplified separately.
    Pass(
        "simplify-loops",
        lambda g, _: simplify_loops(g),
        "hoists loop-invariant values, unrolls short loops, and folds constant switches",
        "graph",
        after=("shard-values",),
    ),
    # Each device reduces its own shard first. Unrolled iterations can contain ALLREDUCEs too.
    Pass(
        "all-reduce",
        lambda g, _: all_reduce(g),
        "reduces the shards of several devices by copies and ordinary ops",
        "graph",
        after=("shard-values", "simplify-loops"),
    ),
    # Each device adds its own shard to a whole result, which is then all-reduced.
    Pass(
        "gather-sums",
        lambda g, _: gather_sums(g),
        "turns scatter-adds with affine indices into reductions",
        "graph",
        after=("shard-values",),
    ),
    # Materialization, and copies before in-place writes, are decided for each device separately.
    Pass(
        "protect-assigned",
        lambda g, _: protect_assigned(g),
        "copies values that an in-place write would overwrite before they are read",
        "graph",
        after=("shard-values",),
    ),
    # Results are stored below their RESHAPEs.
    Pass(
        "reshape-late",
        lambda g, _: reshape_late(g),
        "computes the elementwise readers of reductions in the shape of the reductions",
        "graph",
        after=("gather-sums",),
    ),
    # A SCATTER is always stored, a reduction that replaces it is not.
    Pass(
        "mark-results",
        lambda g, _: mark_results(g),
        "makes each result a CONTIGUOUS node that all readers share",
        "graph",
        after=("gather-sums", "reshape-late"),
    ),
    # The mark is a reader of its result, so that results keep their axis order.
    Pass(
        "permute-early",
        lambda g, _: permute_early(g),
        "computes reductions in the axis order in which they are read",
        "graph",
        after=("mark-results",),
    ),
    # The access order of a reduction's operands is known once its axis order is. After split-reduce
    # the reduction would no longer be recognized.
    Pass(
        "store-transposed",
        lambda g, c: store_transposed(g, c.device, lambda d: not c.target_of(d).has_local),
        "copies operands that are read with large strides",
        "graph",
        after=("permute-early",),
    ),
    # store-transposed recognizes plain products, not masked ones.
    Pass(
        "skip-padding",
        lambda g, c: skip_padding(g, c.device, lambda d: not c.target_of(d).has_local),
        "masks the products with padding in convolutions",
        "graph",
        after=("store-transposed",),
    ),
    # A result that is a reduction is marked before it is split into reductions of its own.
    Pass(
        "split-reduce",
        lambda g, c: split_reduce(g, c.count_cores),
        "reduces long axes in two steps",
        "graph",
        after=("mark-results", "store-transposed"),
    ),
    # Partial results of a split reduction are materialized, which shortens expressions.
    Pass(
        "limit-buffers",
        lambda g, c: limit_buffers(g, c.max_buffers),
        "stores intermediate values where a kernel would read more buffers than it may",
        "graph",
        after=("split-reduce",),
    ),
    Pass(
        "range-values",
        lambda g, c: range_values(g, c.device, lambda d: not c.target_of(d).has_local),
        "chooses the values to materialize and writes them as expressions over loops",
        "ranged",
        after=("split-reduce", "limit-buffers"),
    ),
)

_KERNELIZE: Final = (
    Pass(
        "cut-kernels",
        lambda g, c: cut_kernels(
            g, lambda body, device: _make_body(body, device, c), c.max_buffers
        ),
        "assigns each materialized value a buffer and a kernel",
        "kernel graph",
    ),
    Pass(
        "join-kernels",
        lambda g, c: join_kernels(g, c.max_buffers),
        "fuses elementwise kernels that walk through the same memory",
        "kernel graph",
        after=("cut-kernels",),
    ),
    # join-kernels compares constant offsets, which share-bodies replaces by variables.
    Pass(
        "share-bodies",
        lambda g, _: share_bodies(g),
        "merges kernels that differ only in constant offsets of reads",
        "kernel graph",
        after=("cut-kernels", "join-kernels"),
    ),
)

_OPTIMIZE: Final = (
    Pass(
        "simplify-kernel",
        lambda g, _: simplify_kernel(g),
        "folds constants and simplifies indices and conditions",
        "kernel",
    ),
    # The number of lanes of a vector depends on the dtype that is computed in.
    Pass(
        "emulate", lambda g, c: emulate(g, c.target), "computes narrow floats in float32", "kernel"
    ),
    Pass(
        "split-loops",
        lambda g, ctx: split_loops(g, ctx.target),
        "splits loops where conditions compare their indices with constants",
        "kernel",
        after=("simplify-kernel",),
    ),
    # A simplified index shows by which constants a loop is divided.
    Pass(
        "divide-loops",
        lambda g, ctx: divide_loops(g, ctx.target),
        "divides loops over results where operands are stored in blocks",
        "kernel",
        after=("simplify-kernel",),
    ),
    # Merging compares strides, which show only in simplified indices.
    Pass(
        "merge-loops",
        lambda g, ctx: merge_loops(g, ctx.target),
        "merges nested loops over contiguous memory",
        "kernel",
        after=("simplify-kernel",),
    ),
    # Merged nests are as shallow as possible, so that equal loops are easy to find.
    Pass(
        "share-loops",
        lambda g, _: share_loops(g),
        "lets independent reductions of the same elements share loops",
        "kernel",
        after=("merge-loops",),
    ),
    Pass(
        "apply-opts",
        lambda g, c: apply_opts(g, c.target, c.opts, c.note_reasons),
        "vectorizes, unrolls and tiles loops, and splits work over threads",
        "kernel",
        after=("merge-loops", "share-loops"),
    ),
)

_LOWER: Final = (
    Pass(
        "simplify-indices",
        lambda g, _: simplify_indices(g),
        "simplifies the indices that the opts have split",
        "kernel",
    ),
    # Lanes and register copies are chosen already; the other loops are scalar until expand.
    Pass(
        "narrow-sums",
        lambda g, _: narrow_sums(g),
        "shortens loops over terms that a condition masks",
        "lowering",
        after=("simplify-indices",),
    ),
    # On scalars, before expand unrolls copies: each function is decomposed once.
    Pass(
        "decompose-math",
        lambda g, c: decompose_math(g, c.target),
        "writes transcendental functions as polynomials",
        "lowering",
    ),
    # Before expand, so that it vectorizes accesses to shared memory like any other.
    Pass(
        "group-reduce",
        lambda g, _: group_reduce(g),
        "reduces across the work-items of a workgroup in shared memory",
        "lowering",
        after=("simplify-indices",),
    ),
    Pass(
        "expand",
        lambda g, c: expand(g, c.target.tensor_cores),
        "turns UPCAST and UNROLL axes into vector lanes and register copies",
        "lowering",
        after=("simplify-indices",),
    ),
    # Lanes and copies are the tiles that each row is read in.
    Pass(
        "stream-rows",
        lambda g, c: stream_rows(g, c.target),
        "reads the rows of a large operand from beginning to end",
        "lowering",
        after=("expand",),
    ),
    # The number of additions to one accumulator depends on the lanes and copies.
    Pass(
        "block-sums",
        lambda g, _: block_sums(g),
        "splits long floating-point sums in blocks, for accuracy",
        "lowering",
        after=("expand",),
    ),
    # An accumulator has the lanes that expand gave to its reduction.
    Pass(
        "accumulate",
        lambda g, _: accumulate(g),
        "turns reductions and scans into registers that loops update",
        "lowering",
        after=("expand",),
    ),
    Pass(
        "place-launch-axes",
        lambda g, c: place_launch_axes(g, c.target),
        "replaces parallel axes by the indices of the launch",
        "lowering",
        after=("accumulate",),
    ),
    Pass(
        "add-loads",
        lambda g, _: add_loads(g),
        "makes each read of memory a LOAD",
        "lowering",
        after=("accumulate",),
    ),
    # A vector branches if one of its lanes has a rare argument, so vectors come first. The branch is
    # a loop with an index as trip count, so type-indices comes later.
    Pass(
        "branch-rare",
        lambda g, c: branch_rare(g, c.target),
        "computes rare arguments in loops that run only for these",
        "lowering",
        after=("add-loads",),
    ),
    Pass(
        "type-indices",
        lambda g, _: type_indices(g),
        "chooses 32 or 64 bits for indices",
        "lowering",
        after=("add-loads",),
    ),
    # Index divisions need a bit width to become shifts and multiplications.
    Pass(
        "decompose",
        lambda g, c: decompose(g, c.target),
        "replaces ops that the target lacks or runs slowly",
        "lowered",
        after=("type-indices", "decompose-math", "branch-rare"),
    ),
)


def _make_body(graph: UOp, device: str, context: Context) -> UOp:
    """Compile the body of a loop to a kernel graph. Values that depend on no memory are computed on
    `device`.
    """
    inside = replace(context, device=device, target=context.target_of(device))
    return run_pipeline("kernelize", run_pipeline("rangeify", graph, inside), inside)


PIPELINES: Final = PassTable(
    {"rangeify": _RANGEIFY, "kernelize": _KERNELIZE, "optimize": _OPTIMIZE, "lower": _LOWER}
)
"""The passes of svod, which a `Context` runs by default."""


def run_pipeline(name: str, graph: UOp, context: Context, *, until: str | None = None) -> UOp:
    """Run the passes of a pipeline on `graph`, up to but excluding the pass `until`.

    Raises:
        UnknownPassError: if there is no such pipeline.
        OptionError: if the options name an unknown pass.
    """
    with keep_order():
        return _run_passes(name, graph, context, until)


def _run_passes(name: str, graph: UOp, context: Context, until: str | None) -> UOp:
    log = get_logger("schedule")
    options = context.options
    if options.dump or options.stop_after:
        _check_names(options, context.passes)
    check = _make_check(name, options) if options.check else None
    for i, row in enumerate(context.passes[name]):
        if row.name == until:
            break
        started = perf_counter()
        try:
            graph = (
                _run_pass(name, row, graph, context)
                if check is None
                else check.run(
                    row.name,
                    row.stage,
                    lambda g, row=row: _run_pass(name, row, g, context),
                    graph,
                )
            )
        except Exception as error:
            error.add_note(f"in pass {name}:{row.name}")
            raise
        elapsed = perf_counter() - started
        log.debug(f"{name}.{row.name}", elapsed_us=round(elapsed * 1e6))
        if context.observe is not None:
            context.observe(name, row.name, graph, elapsed)
        if options.dump.matches(name, row.name):
            from svod_ir import print_graph

            print(f"--- {name} {i} {row.name}\n{print_graph(graph)}", file=sys.stderr)
        if options.stop_after.matches(name, row.name):
            break
    if check is not None:
        for line in check.list_skipped(graph):
            print(line, file=sys.stderr)
    log.debug(f"{name}.done", n_nodes=_NodeCount(graph))
    return graph


def _run_pass(pipeline: str, row: Pass, graph: UOp, context: Context) -> UOp:
    result = cast("object", row.run(graph, context))
    if not isinstance(result, UOp):
        raise PassResultError(pipeline=pipeline, name=row.name, result=result)
    return result


def _make_check(name: str, options: IROptions) -> PassCheck:
    from svod_schedule._pass_check import PassCheck

    return PassCheck(name, has_values=options.check == "values")


def _check_names(options: IROptions, passes: PassTable) -> None:
    known = [(pipeline, row.name) for pipeline, rows in passes.items() for row in rows]
    for variable, selector in (
        ("SVOD_DUMP", options.dump),
        ("SVOD_STOP_AFTER", options.stop_after),
    ):
        unknown = selector.find_unknown(known)
        if unknown is not None:
            expected = "a pipeline or a pass; `python -m svod_schedule.pipeline` lists them"
            raise OptionError(variable=variable, value=unknown, expected=expected)


class _NodeCount:
    """Number of nodes of a graph, counted only if the log line is formatted."""

    def __init__(self, graph: UOp) -> None:
        self.graph = graph

    def __structlog__(self) -> int:
        # structlog's JSONRenderer asks for it.
        return len(self.graph.toposort())

    def __str__(self) -> str:
        return str(self.__structlog__())

    __repr__ = __str__


def compile_kernel(kernel: UOp, context: Context) -> tuple[UOp, tuple[UOp, ...]]:
    """Optimize, lower and linearize a kernel.

    Returns:
        The optimized SINK, with the name and the opts of the kernel, and the linear program.
    """
    optimized = run_pipeline("optimize", kernel, context)
    lowered = run_pipeline("lower", optimized, context)
    return optimized, linearize(lowered)


def format_table() -> str:
    """Format the table as text."""
    lines: list[str] = []
    for name, passes in PIPELINES.items():
        lines.append(name)
        lines.extend(
            f"  {row.name:18} {row.does}"
            + (f"  (after {', '.join(row.after)})" if row.after else "")
            for row in passes
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(format_table())
