"""Checks of `SVOD_CHECK` around each pass: the specification, dtypes and shapes of results, and with
`values` the computed values.

Each match of a rule is compared with its replacement, so that a wrong rule is named at its first
wrong match, and each graph with the result of the pass. Both are evaluated on random inputs, unless
that takes too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from svod_ir import (
    KernelInfo,
    Match,
    MiscompilationError,
    Op,
    SInt,
    SpecError,
    UnsupportedOpError,
    UOp,
    format_expression,
    format_shape,
    print_graph,
    verify,
    watch_matches,
)
from svod_ir.spec import find_violation

if TYPE_CHECKING:
    from svod_ir.compare import Change

__all__ = ["MAX_FIRING_NODES", "MAX_FIRING_STEPS", "MAX_GRAPH_STEPS", "PassCheck"]

MAX_GRAPH_STEPS: Final = 100_000
"""Maximum number of evaluation steps of a graph before and after a pass, as `count_steps` counts
them: about half a second.
"""

MAX_FIRING_STEPS: Final = 4_000
"""Maximum number of evaluation steps of a match of a rule: there are thousands of matches."""

MAX_FIRING_NODES: Final = 200
"""Maximum number of nodes of a match and its replacement, down to the operands that both share."""

_FAILURES: Final = (ValueError, TypeError, IndexError)
"""Exceptions of an evaluation: EvaluationError, or an error of numpy if a rule or a pass broke the
graph.
"""

_N_SAMPLES: Final = 128
_N_SINGLE: Final = 6
_ROUNDINGS: Final = 8


class PassCheck:
    """The checks of one run of a pipeline. `list_skipped` reports the comparisons that were skipped."""

    def __init__(self, pipeline: str, *, has_values: bool) -> None:
        self.pipeline, self.has_values = pipeline, has_values
        self.compared: set[Match] = set()
        self.n_passes = self.n_firings = 0
        self.skipped_passes: dict[str, str] = {}
        self.n_skipped_firings = 0

    def run(self, name: str, stage: str, run: Callable[[UOp], UOp], graph: UOp) -> UOp:
        """Run a pass on `graph`, and check its result.

        Raises:
            SpecError: if the result violates the specification of `stage`, or changes the shape or
                dtype of a result of the graph.
            MiscompilationError: if the result computes different values.
        """
        pass_name = f"{self.pipeline}:{name}"
        matches: list[Match] = []

        def check_match(match: Match) -> None:
            matches.append(match)
            _check_dtype_and_shape(match, pass_name, stage)
            if self.has_values and match not in self.compared:
                self.compared.add(match)
                self._compare_firing(match, pass_name)

        with watch_matches(check_match):
            result = run(graph)
        try:
            verify(result, stage, pass_name)
        except SpecError as error:
            raise _name_rule(error, matches) from error
        _check_results(graph, result, pass_name, stage)
        if self.has_values and result is not graph:
            self._compare_graphs(graph, result, pass_name)
        return result

    def list_skipped(self, graph: UOp) -> list[str]:
        """Describe, in a line each, the comparisons that were skipped, and why."""
        of = f" of {graph.arg.name}" if isinstance(graph.arg, KernelInfo) else ""
        reasons: dict[str, list[str]] = {}
        for name, why in self.skipped_passes.items():
            reasons.setdefault(why, []).append(name)
        lines = [f"{', '.join(names)}{of}: {why}" for why, names in reasons.items()]
        if self.n_skipped_firings:
            skipped = (
                f"{self.n_skipped_firings} of {self.n_firings} matches of rules in"
                f" {self.pipeline}{of}"
            )
            lines.append(f"{skipped}: too large, or without reference semantics")
        return [f"SVOD_CHECK=values: not compared: {line}" for line in lines]

    def _compare_firing(self, match: Match, pass_name: str) -> None:
        from svod_ir.compare import count_steps, find_difference, hide_reads

        self.n_firings += 1
        hidden = hide_reads(match.before, match.after, MAX_FIRING_NODES)
        if hidden is None or sum(map(count_steps, hidden)) > MAX_FIRING_STEPS:
            self.n_skipped_firings += 1
            return
        before, after = hidden
        try:
            values = find_difference(
                before, after, self.n_firings, _N_SAMPLES, _ROUNDINGS, _N_SINGLE
            )
        except _FAILURES:
            self.n_skipped_firings += 1
            return
        if values is not None:
            raise MiscompilationError(
                pass_name=pass_name,
                rule=f"{match.rule} of {match.ruleset}",
                node=format_expression(match.before),
                problem=_describe_change(before, after, values),
                values=_name_values(values),
                notes=(f"it became {format_expression(match.after)}",),
            )

    def _compare_graphs(self, before: UOp, after: UOp, pass_name: str) -> None:
        from svod_ir.compare import count_steps, find_change

        self.n_passes += 1
        if _is_unordered(before) or _is_unordered(after):
            self.skipped_passes[pass_name] = (
                "memory is written more than once, in an order that only cut-kernels fixes"
            )
            return
        steps = count_steps(before) + count_steps(after)
        if steps > MAX_GRAPH_STEPS:
            self.skipped_passes[pass_name] = (
                f"about {steps:,} steps of evaluation, more than {MAX_GRAPH_STEPS:,}"
            )
            return
        try:
            change = find_change(before, after)
        except _FAILURES:
            change = self._compare_smallest(before, after, pass_name)
        if change is not None:
            raise MiscompilationError(
                pass_name=pass_name,
                rule=None,
                node=format_expression(change.node),
                problem=change.problem,
                notes=_format_graphs(before, after),
            )

    def _compare_smallest(self, before: UOp, after: UOp, pass_name: str) -> Change | None:
        """Compare graphs that cannot be evaluated with random values of the variables.

        A graph that can be evaluated only before the pass counts as changed."""
        from svod_ir.compare import Change, find_change

        # Values of variables may depend on each other, such as an offset and a size. The minima of
        # all of them are valid together.
        variables = (*before.iter_ops(Op.DEFINE_VAR), *after.iter_ops(Op.DEFINE_VAR))
        smallest = {n: n.arg.low for n in variables if n.arg.name != "core_id"}
        try:
            find_change(before, before, inputs=smallest)
        except _FAILURES as cause:
            self.skipped_passes[pass_name] = str(cause)
            return None
        try:
            return find_change(before, after, inputs=smallest)
        except UnsupportedOpError as cause:
            self.skipped_passes[pass_name] = cause.problem
            return None
        except _FAILURES as cause:
            return Change(before, f"it can no longer be evaluated: {cause}")


def _is_unordered(graph: UOp) -> bool:
    """Whether a ranged graph writes some memory more than once: kernelize decides the order."""
    if isinstance(graph.arg, KernelInfo):
        return False
    from svod_ir.evaluate import memory_of

    written = [memory_of(n.location) for n in graph.toposort(enter_calls=False) if n.op is Op.STORE]
    return len(set(written)) < len(written)


def _describe_change(before: UOp, after: UOp, values: dict[UOp, Any]) -> str:
    from svod_ir.evaluate import evaluate

    if before.op in (Op.STORE, Op.END):
        return "it writes different values"
    return f"{evaluate(before, {**values})} became {evaluate(after, {**values})}"


def _name_values(values: dict[UOp, Any]) -> dict[str, object]:
    named: dict[str, object] = {}
    for leaf, value in values.items():
        match leaf.op:
            case Op.DEFINE_VAR:
                named[leaf.arg.name] = value
            case Op.RANGE:
                named[f"r{leaf.arg.id}"] = value
            case Op.SPECIAL:
                named[leaf.arg] = value
            case _:
                named[format_expression(leaf)] = value
    return named


def _format_graphs(before: UOp, after: UOp) -> tuple[str, ...]:
    return tuple(
        f"{when}:\n{print_graph(graph, limit=200)}"
        for when, graph in (("before", before), ("after", after))
    )


def _check_dtype_and_shape(match: Match, pass_name: str, stage: str) -> None:
    before, after = match.before, match.after
    problem = None
    if after.dtype is not before.dtype:
        problem = f"a rule keeps the dtype, which became {after.dtype}"
    elif after.find_shape() != before.find_shape():
        problem = (
            f"a rule keeps the shape {_format(before.find_shape())}, which became"
            f" {_format(after.find_shape())}"
        )
    if problem is not None:
        notes = (f"it became {format_expression(after)}",)
        raise SpecError(
            pass_name=pass_name,
            stage=stage,
            rule=problem,
            node=format_expression(before),
            made_by=f"{match.rule} of {match.ruleset}",
            notes=notes,
        )


def _format(shape: tuple[SInt, ...] | None) -> str:
    return "no shape" if shape is None else format_shape(shape)


def _name_rule(error: SpecError, matches: list[Match]) -> SpecError:
    """Add to `error` the first rule that built a node with the same violation."""
    for match in matches:
        known = set(match.before.toposort())
        for node in match.after.toposort():
            if node not in known and (node is error.node or _breaks(node, error)):
                return SpecError(
                    pass_name=error.pass_name,
                    stage=error.stage,
                    rule=error.rule,
                    node=error.node,
                    made_by=f"{match.rule} of {match.ruleset}",
                    notes=error.notes,
                )
    return error


def _breaks(node: UOp, error: SpecError) -> bool:
    try:
        return find_violation(node, error.stage) == error.rule
    # The node belongs to a broken graph: another failure must not hide the one that is reported.
    except Exception:
        return False


def _check_results(before: UOp, after: UOp, pass_name: str, stage: str) -> None:
    """Check that each result keeps its dtype, and its shape or, as memory, its number of elements."""
    old_results, new_results = (
        graph.src if graph.op is Op.SINK else (graph,) for graph in (before, after)
    )
    if len(new_results) != len(old_results):
        return
    for old, new in zip(old_results, new_results, strict=True):
        shapes = old.find_shape(), new.find_shape()
        if shapes[0] is None or shapes[1] is None:
            continue
        counts = _count(shapes[0]), _count(shapes[1])
        if new.dtype is not old.dtype:
            problem = f"a pass keeps the dtype of results, {old.dtype}, which became {new.dtype}"
        elif old.op is not Op.ASSIGN and None not in counts and counts[0] != counts[1]:
            problem = (
                f"a pass keeps the shape of results, {_format(shapes[0])}, which became"
                f" {_format(shapes[1])}"
            )
        else:
            continue
        raise SpecError(pass_name=pass_name, stage=stage, rule=problem, node=format_expression(old))


def _count(shape: tuple[SInt, ...]) -> int | None:
    """Return the number of elements; None for a symbolic shape, whose memory has the maximum size."""
    n_elements = 1
    for size in shape:
        if isinstance(size, UOp):
            return None
        n_elements *= size
    return n_elements
