"""Print the artifacts of a tensor program after each of the fourteen words.

    python -m svod_tensor.explain script.py            every artifact
    python -m svod_tensor.explain script.py lower      only the artifacts of `lower`

The script is run with its tensors, and every computation, by `realize`, `prepare` or `jit`, is
printed when it is compiled. Long artifacts are cut after `--lines` lines.

Example:
    >>> from svod_tensor import PrepareConfig, Tensor
    >>> from svod_tensor.explain import Artifact, explain
    >>> artifacts = list(explain([Tensor([1.0, 2.0]) + 1], PrepareConfig()))
    >>> all(isinstance(artifact, Artifact) for artifact in artifacts)
    True
    >>> [artifact.word for artifact in artifacts][:4]
    ['build', 'rangeify', 'kernelize', 'preschedule']
    >>> from svod_tensor.explain import WORDS
    >>> {artifact.word for artifact in artifacts} <= set(WORDS), WORDS[-1]
    (True, 'execute')
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final, TextIO

from svod_ir import Op, UOp
from svod_runtime import (
    ExecutionPlan,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    describe_op,
)
from svod_tensor.engine.observe import Observer, observing

if TYPE_CHECKING:
    from svod_device import CompiledSpec
    from svod_ir.origins import Origin
    from svod_runtime import CachedKernel, ExecutionPlanBuilder, PlannedKernel, PreparedOp
    from svod_schedule.steps import OptimizedKernel
    from svod_tensor.engine.preschedule import PreSchedule
    from svod_tensor.engine.schedule import Schedule
    from svod_tensor.options import AnyConfig
    from svod_tensor.tensor import Tensor

__all__ = ["WORDS", "Artifact", "explain", "main"]

_BROKEN_PIPE: Final = 141
"""Exit status 128 plus the number of SIGPIPE, as shells report it."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Textual form of the result of one compilation step.

    Attributes:
        word: name of the step, one of `WORDS`.
        subject: name of the graph or kernel that was compiled.
        text: the textual form: IR, source text, or one line for each operation.
    """

    word: str
    subject: str
    text: str


def explain(tensors: Sequence[Tensor], config: AnyConfig | None = None) -> Iterator[Artifact]:
    """Compile `tensors`, and yield the result of each step in order.

    The caches of schedules and kernels are not used, and the tensors are not realized."""
    from svod_tensor.cells.work import make_job
    from svod_tensor.engine.compute import make_plan
    from svod_tensor.options import resolve_config

    resolved = resolve_config(config)
    # Collected before the first is yielded: an observer sees all threads, so it must not stay while
    # the caller computes.
    artifacts: list[Artifact] = []
    with observing(_make_observer(artifacts.append)):
        # New nodes, so that the tensors are not bound to the results.
        nodes = [UOp(Op.CONTIGUOUS, t.dtype, (t.uop,)) for t in tensors]
        make_plan(make_job(nodes, resolved), resolved)
    yield from artifacts


def _make_observer(show: Callable[[Artifact], None]) -> Observer:
    def observe(word: str, subject: str, artifact: object) -> None:
        show(Artifact(word, subject, _SHOW[word](artifact)))
        if isinstance(artifact, ExecutionPlan):
            # The operations of each execution are known now.
            show(Artifact("execute", subject, _SHOW["execute"](artifact)))

    return observe


def _show_graph(graph: UOp) -> str:
    from svod_ir import print_graph

    return print_graph(graph)


def _show_optimized(kernel: OptimizedKernel) -> str:
    return "".join(f"# {reason}\n" for reason in kernel.reasons) + _show_graph(kernel.sink)


def _show_pre_schedule(pre: PreSchedule) -> str:
    lines: list[str] = []
    for item in pre.items:
        kind = "kernel" if item.body is None else "loop"
        after = [pre.first + id_ for id_ in item.dependencies]
        lines.append(
            f"{kind} {pre.first + item.id} on {[_format_memory(m) for m in item.memory]} after {after}"
        )
        if item.body is not None:
            lines.append(indent(_show_pre_schedule(item.body), "    "))
    runs = [
        f"run {pre.first + i.kernel_id}" + (f" with {dict(i.fixedvars)}" if i.fixedvars else "")
        for i in pre.invocations
    ]
    return "\n".join([*lines, *runs, f"outputs {[_format_memory(o) for o in pre.outputs]}"])


def _format_memory(node: UOp) -> str:
    return f"{node.op.name} {node.arg.slot if node.op is Op.PARAM else node.arg.id}"


def _show_schedule(schedule: Schedule) -> str:
    lines: list[str] = []
    for item in schedule.items:
        kind = "kernel" if item.body is None else "loop"
        memory = dict(zip(item.buffer_ids, item.buffers, strict=True))
        lines.append(f"{kind} {item.kernel_id}: {memory}{_show_lines(item.origins)}")
        if item.body is not None:
            lines.append(indent(_show_schedule(item.body), "    "))
    return "\n".join([*lines, f"outputs {list(schedule.output_ids)}"])


def _show_lines(origins: Sequence[Origin]) -> str:
    """The source lines of a kernel; all of them, since the first is not always the most relevant."""
    return "".join(f"\n    from {o}" + (f" in {o.scope}" if o.scope else "") for o in origins)


def _show_code(compiled: CompiledSpec) -> str:
    n_bytes = len(compiled.binary)
    return f"{n_bytes} bytes of object code" if n_bytes else "source, compiled when it is loaded"


def _show_kernel(kernel: CachedKernel) -> str:
    spec = kernel.spec
    takes = (
        f"buffers {list(spec.globals)}, variables {list(spec.var_names)}, launch {spec.global_size}"
    )
    return f"{type(kernel.program).__name__} {kernel.name}: {takes}"


def _show_ops(builder: ExecutionPlanBuilder) -> str:
    return "\n".join(f"{i}: {_show_op(op)}" for i, op in enumerate(builder.ops))


def _show_op(op: PreparedOp) -> str:
    if isinstance(op, PreparedLoop):
        inner = "".join(f"\n    {i}: {_show_op(o)}" for i, o in enumerate(op.body.ops))
        return (
            f"{describe_op(op)} on buffers {op.buffer_indices}, carrying"
            f" {list(op.body.carried)}{inner}"
        )
    match op:
        case PreparedKernel():
            name = f" {op.kernel.name}"
        case PreparedCustomFunction():
            name = f" {op.kind}"
        case _:
            name = ""
    return f"{type(op).__name__}{name} on buffers {op.buffer_indices}"


def _show_plan(plan: ExecutionPlan) -> str:
    levels = "\n".join(
        f"level {i}: ops {', '.join(map(str, ops))}" for i, ops in enumerate(plan.levels)
    )
    return f"{plan!r}\nmemory: {plan.memory_report}\n{levels}"


def _show_execution(plan: ExecutionPlan) -> str:
    kernels = {kernel.op.id: kernel for kernel in plan.kernels()}
    ops = plan.prepared_ops
    order = [ops[index] for level in plan.levels for index in level]
    return "\n".join(describe_op(op) + _show_launch(kernels.get(op.id)) for op in order)


def _show_launch(kernel: PlannedKernel | None) -> str:
    return (
        ""
        if kernel is None
        else f" on {kernel.op.device}, {kernel.global_size}{_show_lines(kernel.origins)}"
    )


_SHOW: Final[Mapping[str, Callable[[Any], str]]] = {
    "build": lambda graph: _show_graph(graph.sink),
    "rangeify": _show_graph,
    "kernelize": _show_graph,
    "preschedule": _show_pre_schedule,
    "instantiate": _show_schedule,
    "optimize": _show_optimized,
    "lower": _show_graph,
    "linearize": lambda program: _show_graph(program.linear),
    "render": lambda source: source.source,
    "compile": _show_code,
    "load": _show_kernel,
    "prepare": _show_ops,
    "plan": _show_plan,
    "execute": _show_execution,
}
WORDS: Final = tuple(_SHOW)
"""The fourteen words, in the order of the pipeline."""


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run a script and write the artifacts of its computations."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_tensor.explain",
        description="Show the artifact after each step.",
        epilog=(
            "For the time of each kernel, call plan.profile() of x.prepare() or f.plans()[0];"
            " plan.profile().save_trace('step.json') writes a trace for chrome://tracing or"
            " ui.perfetto.dev."
        ),
    )
    parser.add_argument("script", help="a Python file that computes tensors")
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="word",
        help=f"words to show: {', '.join(WORDS)}; all by default",
    )
    parser.add_argument(
        "--lines", type=int, default=60, help="maximum number of lines of an artifact (0: no limit)"
    )
    options = parser.parse_args(arguments)
    unknown = [word for word in options.words if word not in WORDS]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a step; use {', '.join(WORDS)}")
    target = out or sys.stdout
    try:
        _run_observed(
            options.script,
            lambda artifact: _write(artifact, options.words or WORDS, options.lines, target),
        )
        target.flush()
    except BrokenPipeError:
        # The reader, `head` for example, closed the pipe. Redirect stdout, so that Python does not
        # flush buffered output at exit and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return 0


def _run_observed(script: str, show: Callable[[Artifact], None]) -> None:
    """Run `script` and show each computation when it happens."""
    from svod_tensor._origins import track_origins

    with track_origins(), observing(_make_observer(show)):
        runpy.run_path(script, run_name="__main__")


def _write(artifact: Artifact, words: Sequence[str], n_lines: int, out: TextIO) -> None:
    if artifact.word not in words:
        return
    lines = artifact.text.rstrip("\n").split("\n")
    cut = lines[:n_lines] if n_lines else lines
    position = WORDS.index(artifact.word) + 1
    out.write(f"== {position:2} {artifact.word}: {artifact.subject}\n")
    out.writelines(f"{line}\n" for line in cut)
    if len(cut) < len(lines):
        out.write(f"... {len(lines) - len(cut)} more lines\n")
    out.write("\n")


if __name__ == "__main__":
    raise SystemExit(main())
