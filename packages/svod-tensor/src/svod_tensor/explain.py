"""Show what becomes of a tensor program: the artifact after each of the fourteen words.

    python -m svod_tensor.explain script.py            every artifact
    python -m svod_tensor.explain script.py lower      only what `lower` made

The script is run with its tensors; whatever it computes is explained as it is computed. Long artifacts
are cut after `--lines` lines.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from svod_dtype import void
from svod_ir.ops import Op
from svod_ir.uop import UOp

if TYPE_CHECKING:
    from svod_ir.origins import Origin
    from svod_tensor.cells.registry import Live
    from svod_tensor.engine.instantiate import ScheduleResult
    from svod_tensor.engine.preschedule import PreSchedule
    from svod_tensor.options import AnyConfig, PrepareConfig
    from svod_tensor.tensor import Tensor

__all__ = ["WORDS", "Artifact", "explain", "main"]

WORDS: Final = (
    "build", "rangeify", "kernelize", "preschedule", "instantiate", "optimize", "lower", "linearize", "render", "compile",
    "load", "prepare", "plan", "execute",
)  # fmt: skip

_BROKEN_PIPE: Final = 141
"""128 and the number of SIGPIPE, as shells report it."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What one word made, as text; `subject` says of what: the whole graph, or one kernel."""

    word: str
    subject: str
    text: str


def explain(tensors: Sequence[Tensor], config: AnyConfig | None = None) -> Iterator[Artifact]:
    """The artifacts of computing `tensors`, in the order in which they are made.

    Nothing is taken from the caches of schedules and kernels, and the tensors stay as they are.
    """
    from svod_tensor.options import resolve_config

    yield from _explain_nodes([t.uop for t in tensors], resolve_config(config))


def _explain_nodes(nodes: Sequence[UOp], config: PrepareConfig) -> Iterator[Artifact]:
    from svod_schedule.pipeline import run_pipeline
    from svod_tensor.engine.build import normalize_graph
    from svod_tensor.engine.compute import make_graph_context
    from svod_tensor.engine.preschedule import create_pre_schedule
    from svod_tensor.engine.separate_results import separate_results

    sink = UOp.sink(*(UOp(Op.CONTIGUOUS, node.dtype, (node,)) for node in nodes))
    yield Artifact("build", "graph", _show_graph(sink))
    normalized = normalize_graph(sink)
    context = make_graph_context(normalized.devices, config)
    ranged = run_pipeline("rangeify", normalized.graph, context)
    yield Artifact("rangeify", "graph", _show_graph(ranged))
    kernel_graph = run_pipeline("kernelize", ranged, context)
    yield Artifact("kernelize", "graph", _show_graph(kernel_graph))
    pre = create_pre_schedule(separate_results(kernel_graph, normalized.graph))
    yield Artifact("preschedule", "graph", _show_pre_schedule(pre))
    yield from _explain_execution(sink, config)


def _explain_execution(sink: UOp, config: PrepareConfig) -> Iterator[Artifact]:
    from svod_tensor.engine.compute import make_schedule
    from svod_tensor.engine.prepare import device_of, is_kernel, prepare_plan

    schedule = make_schedule(sink, config)
    yield Artifact("instantiate", "graph", _show_schedule(schedule))
    shown: dict[UOp, str] = {}
    for item in schedule.items:
        if is_kernel(item.ast) and item.ast not in shown:
            shown[item.ast] = f"kernel {item.kernel_id}"
            yield from _explain_kernel(item.ast, device_of(item.buffers), shown[item.ast], config)
    plan = prepare_plan(schedule, config)
    yield Artifact("prepare", "graph", "\n".join(f"{i}: {_show_op(op)}" for i, op in enumerate(plan.prepared_ops)))
    levels = "\n".join(f"level {i}: ops {', '.join(map(str, ops))}" for i, ops in enumerate(plan.levels))
    yield Artifact("plan", "graph", f"{plan!r}\nmemory: {plan.memory_report}\n{levels}")
    profiles = plan.execute_profiled()
    yield Artifact("execute", "graph", "\n".join(f"{p.name} on {p.device}{_show_lines(p.origins)}" for p in profiles))


def _explain_kernel(ast: UOp, device_name: str, subject: str, config: PrepareConfig) -> Iterator[Artifact]:
    from svod_tensor.engine.prepare import find_device, make_context, render_kernel

    device = find_device(device_name, config)
    made = render_kernel(ast, device, make_context(device, config))
    yield Artifact("optimize", subject, _show_graph(made.optimized))
    yield Artifact("lower", subject, _show_graph(made.lowered))
    yield Artifact("linearize", subject, _show_graph(UOp(Op.LINEAR, void, made.linear)))
    yield Artifact("render", subject, made.spec.source)
    compiled = device.compile(made.spec)
    code = f"{len(compiled.binary)} bytes of object code" if compiled.binary else "source, compiled when it is loaded"
    yield Artifact("compile", subject, code)
    program = device.loader(compiled)
    takes = f"buffers {list(made.spec.globals)}, variables {list(made.spec.var_names)}, launch {made.spec.global_size}"
    yield Artifact("load", subject, f"{type(program).__name__} {program.name}: {takes}")


def _show_graph(graph: UOp) -> str:
    from svod_ir.text import print_graph

    return print_graph(graph)


def _show_pre_schedule(pre: PreSchedule) -> str:
    lines = [f"kernel {i.id} on {[_number(m) for m in i.memory]} after {list(i.dependencies)}" for i in pre.items]
    runs = [
        f"run kernel {i.kernel_id}" + (f" with {dict(i.fixedvars)}" if i.fixedvars else "") for i in pre.invocations
    ]
    return "\n".join([*lines, *runs, f"outputs {[_number(o) for o in pre.outputs]}"])


def _number(node: UOp) -> str:
    return f"{node.op.name} {node.arg.slot if node.op is Op.PARAM else node.arg.id}"


def _show_schedule(schedule: ScheduleResult) -> str:
    lines = [
        f"kernel {item.kernel_id}: {dict(zip(item.buffer_ids, item.buffers, strict=True))}{_show_lines(item.origins)}"
        for item in schedule.items
    ]
    return "\n".join([*lines, f"outputs {list(schedule.output_ids)}"])


def _show_lines(origins: Sequence[Origin]) -> str:
    """Where a kernel comes from; the first is not always what matters most, so that all are named."""
    return "".join(f"\n    from {o}" + (f" in {o.scope}" if o.scope else "") for o in origins)


def _show_op(op: object) -> str:
    kernel = getattr(op, "kernel", None)
    name = "" if kernel is None else f" {kernel.name}"
    return f"{type(op).__name__}{name} on buffers {getattr(op, 'buffer_indices', ())}"


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run a script and write the artifacts of all that it computes."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_tensor.explain", description="Show the artifact after each step."
    )
    parser.add_argument("script", help="a Python file that computes tensors")
    parser.add_argument(
        "words", nargs="*", default=[], metavar="word", help=f"what to show: {', '.join(WORDS)}; by default everything"
    )
    parser.add_argument("--lines", type=int, default=60, help="show at most so many lines of an artifact (0: all)")
    given = parser.parse_args(arguments)
    unknown = [word for word in given.words if word not in WORDS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no step; use {', '.join(WORDS)}")
    target = out or sys.stdout
    try:
        _run_observed(given.script, lambda artifact: _write(artifact, given.words or WORDS, given.lines, target))
        target.flush()
    except BrokenPipeError:
        # The reader, `head` perhaps, has seen enough. What is buffered must not be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return 0


def _run_observed(script: str, show: Callable[[Artifact], None]) -> None:
    """Run `script`; explain each computation just before it happens."""
    from svod_tensor import realize
    from svod_tensor.origins import track_origins

    original = realize.realize_tensors

    def observed(wanted: Sequence[Live], config: PrepareConfig) -> None:
        pending = [one.node for one in wanted if not one.is_realized and 0 not in one.node.shape]
        if pending:
            for artifact in _explain_nodes(pending, config):
                show(artifact)
        original(wanted, config)

    realize.realize_tensors = observed  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with track_origins():
            runpy.run_path(script, run_name="__main__")
    finally:
        realize.realize_tensors = original


def _write(artifact: Artifact, words: Sequence[str], n_lines: int, out: TextIO) -> None:
    if artifact.word not in words:
        return
    lines = artifact.text.rstrip("\n").split("\n")
    cut = lines[:n_lines] if n_lines else lines
    number = WORDS.index(artifact.word) + 1
    out.write(f"== {number:2} {artifact.word}: {artifact.subject}\n")
    out.writelines(f"{line}\n" for line in cut)
    if len(cut) < len(lines):
        out.write(f"... {len(lines) - len(cut)} more lines\n")
    out.write("\n")


if __name__ == "__main__":
    raise SystemExit(main())
