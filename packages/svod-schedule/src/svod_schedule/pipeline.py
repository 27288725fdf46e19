"""All passes in order: the one table that runs the compiler.

`python -m svod_schedule.pipeline` prints it. The runner does the timing, logging, dumping and checking;
a pass is a function from graph to graph and does nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from svod_ir.args import Opt
from svod_ir.log import get_logger
from svod_ir.options import IROptions
from svod_ir.rewrite import graph_rewrite
from svod_ir.target import Target
from svod_ir.uop import UOp
from svod_schedule.kernelize import cut_kernels
from svod_schedule.linearize import linearize
from svod_schedule.lower import (
    accumulate,
    add_loads,
    block_sums,
    expand,
    group_reduce,
    lower_index_dtype,
    place_launch_axes,
)
from svod_schedule.lower.branch import branch_rare
from svod_schedule.lower.decompose import make_decompositions
from svod_schedule.lower.decompose_math import decompose_math
from svod_schedule.lower.emulate import make_emulation
from svod_schedule.optimize import apply_opts, choose_and_apply, merge_loops
from svod_schedule.rangeify import (
    all_reduce,
    mark_results,
    permute_early,
    protect_assigned,
    range_values,
    shard_values,
    split_reduce,
)
from svod_schedule.symbolic import GUARDED, REDUCTIONS, SYMBOLIC

__all__ = [
    "KERNELIZE",
    "LOWER",
    "OPTIMIZE",
    "PIPELINES",
    "RANGEIFY",
    "Context",
    "Pass",
    "compile_kernel",
    "format_table",
    "run_pipeline",
]


@dataclass(frozen=True, slots=True)
class Context:
    """What the passes of one compilation may look at.

    `opts` None lets the heuristics choose; a tuple is applied as it is, the empty one meaning none.
    `observe` is called after each pass with the pipeline, the pass, the graph and the seconds it took.
    `targets` are those of the devices in a graph, where there are others than `device`.
    """

    target: Target = field(default_factory=Target.generic)
    device: str = "CPU"
    opts: tuple[Opt, ...] | None = None
    options: IROptions = field(default_factory=IROptions)
    observe: Callable[[str, str, UOp, float], None] | None = None
    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])

    def target_of(self, device: str) -> Target:
        """The target of one of the devices in a graph."""
        return self.targets.get(device, self.target)


@dataclass(frozen=True, slots=True)
class Pass:
    """A row: `run` turns a graph into a graph; `after` names the passes that must come earlier."""

    name: str
    run: Callable[[UOp, Context], UOp]
    does: str
    stage: str
    after: tuple[str, ...] = ()


def _check_order(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    seen: set[str] = set()
    for row in passes:
        missing = set(row.after) - seen
        if missing:
            raise ValueError(f"pass {row.name} must come after {', '.join(sorted(missing))}")
        seen.add(row.name)
    return passes


RANGEIFY = _check_order((
    Pass("shard-values", lambda g, _: shard_values(g), "computes what lies on several devices on each of them", "graph"),
    # Each device reduces its shards first, and then all of them meet.
    Pass("all-reduce", lambda g, _: all_reduce(g), "reduces the shards of several devices by copies and ordinary ops", "graph", after=("shard-values",)),
    # What is stored, and what must be copied before it changes, are questions of one device.
    Pass("protect-assigned", lambda g, _: protect_assigned(g), "computes what is assigned before the memory that it reads changes", "graph", after=("shard-values",)),
    Pass("mark-results", lambda g, _: mark_results(g), "makes each result a CONTIGUOUS node that all readers share", "graph"),
    # A result has a reader of its own, so that it keeps the order of axes that was asked for.
    Pass("permute-early", lambda g, _: permute_early(g), "computes reductions in the axis order in which they are read", "graph", after=("mark-results",)),
    # The parts of a split reduction are results of their own, so results are marked first.
    Pass("split-reduce", lambda g, _: split_reduce(g), "reduces long axes in two steps", "graph", after=("mark-results",)),
    Pass("range-values", lambda g, c: range_values(g, c.device, lambda d: not c.target_of(d).has_local), "chooses what is stored and writes it as expressions over loops", "ranged", after=("split-reduce",)),
))  # fmt: skip

KERNELIZE = _check_order((
    Pass("cut-kernels", lambda g, _: cut_kernels(g), "gives each stored value a buffer and a kernel", "kernel graph"),
))  # fmt: skip

_KERNEL_RULES = (SYMBOLIC + REDUCTIONS + GUARDED).renamed("symbolic-in-kernels")

OPTIMIZE = _check_order((
    Pass("simplify", lambda g, _: graph_rewrite(_KERNEL_RULES, g), "folds constants and simplifies indices and conditions", "kernel"),
    # How many elements fit a vector depends on the type that they are computed in.
    Pass("emulate", lambda g, c: graph_rewrite(make_emulation(c.target), g), "computes narrow floats in float32", "kernel"),
    # Merging compares strides, which show only in simplified indices.
    Pass("merge-loops", lambda g, _: merge_loops(g), "joins loops that walk through memory together", "kernel", after=("simplify",)),
    Pass("apply-opts", lambda g, c: choose_and_apply(g, c.target) if c.opts is None else apply_opts(g, c.target, c.opts),
         "takes several elements at a time and splits work over threads", "kernel", after=("merge-loops",)),
))  # fmt: skip

LOWER = _check_order((
    Pass("simplify", lambda g, _: graph_rewrite(SYMBOLIC, g), "simplifies what the opts made of indices", "kernel"),
    # Done on scalars, before expand writes out the copies.
    Pass("decompose-math", lambda g, c: decompose_math(g, c.target), "writes transcendental functions as polynomials", "lowering"),
    # The places in shared memory are addresses like any other, for expand to take in vectors.
    Pass("group-reduce", lambda g, _: group_reduce(g), "lets the members of a workgroup meet in shared memory", "lowering", after=("simplify",)),
    Pass("expand", lambda g, _: expand(g), "turns UPCAST and UNROLL axes into vector lanes and register copies", "lowering", after=("simplify",)),
    # How many additions go to one accumulator is known once lanes and copies are.
    Pass("block-sums", lambda g, _: block_sums(g), "splits long floating-point sums in blocks, for accuracy", "lowering", after=("expand",)),
    # An accumulator has the lanes that expand gave to its reduction.
    Pass("accumulate", lambda g, _: accumulate(g), "turns reductions and scans into registers that loops update", "lowering", after=("expand",)),
    Pass("launch-axes", lambda g, c: place_launch_axes(g, c.target), "makes parallel axes numbers that the launch gives", "lowering", after=("accumulate",)),
    Pass("add-loads", lambda g, _: add_loads(g), "makes each read of memory a LOAD", "lowering", after=("accumulate",)),
    # Whether a vector has a rare argument is known once there are vectors; the branch is a loop, whose end is an index.
    Pass("branch-rare", lambda g, c: branch_rare(g, c.target), "computes what rare arguments need in loops of at most one turn", "lowering", after=("add-loads",)),
    Pass("index-dtype", lambda g, _: lower_index_dtype(g), "gives indices 32 or 64 bits", "lowering", after=("add-loads",)),
    # Divisions of indices need a width before they can become shifts and multiplications.
    Pass("decompose", lambda g, c: graph_rewrite(make_decompositions(c.target), g), "replaces ops that the target lacks or that are slow", "lowered", after=("index-dtype", "decompose-math", "branch-rare")),
))  # fmt: skip

PIPELINES = {"rangeify": RANGEIFY, "kernelize": KERNELIZE, "optimize": OPTIMIZE, "lower": LOWER}


def run_pipeline(name: str, graph: UOp, context: Context, *, until: str | None = None) -> UOp:
    """Run the passes of one pipeline on `graph`, those before the pass `until` if it is given."""
    log = get_logger("schedule")
    options = context.options
    for number, row in enumerate(PIPELINES[name]):
        if row.name == until:
            break
        started = perf_counter()
        graph = row.run(graph, context)
        elapsed = perf_counter() - started
        log.debug(f"{name}.{row.name}", elapsed_us=round(elapsed * 1e6))
        if context.observe is not None:
            context.observe(name, row.name, graph, elapsed)
        if options.check:
            from svod_ir.spec import verify

            verify(graph, row.stage, pass_name=f"{name}:{row.name}")
        if options.dump.matches(name, row.name):
            from svod_ir.text import print_graph

            print(f"--- {name} {number} {row.name}\n{print_graph(graph)}", file=sys.stderr)
        if options.stop_after.matches(name, row.name):
            break
    log.debug(f"{name}.done", n_nodes=_NodeCount(graph))
    return graph


class _NodeCount:
    """Counts the nodes of a graph when somebody writes the log line."""

    def __init__(self, graph: UOp) -> None:
        self.graph = graph

    def __str__(self) -> str:
        return str(len(self.graph.toposort()))

    __repr__ = __str__


def compile_kernel(kernel: UOp, context: Context) -> tuple[UOp, tuple[UOp, ...]]:
    """Optimise, lower and linearise one kernel: its optimised SINK, which carries name and opts, and its linear form."""
    optimized = run_pipeline("optimize", kernel, context)
    lowered = run_pipeline("lower", optimized, context)
    return optimized, linearize(lowered)


def format_table() -> str:
    """The table as text."""
    lines: list[str] = []
    for name, passes in PIPELINES.items():
        lines.append(name)
        lines.extend(
            f"  {row.name:16} {row.does}" + (f"  (after {', '.join(row.after)})" if row.after else "") for row in passes
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(format_table())
