"""What `SVOD_CHECK` looks at around each pass: the specification, the form of results, and with
`values` what is computed.

A rule that fires is held against its own replacement, so that a wrong one is named at its first
wrong firing; the whole graph against what the pass made of it. Both are evaluated on random inputs,
and only where that is not too long."""

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
"""How much work evaluating a graph before and after a pass may be, as `count_steps` counts it:
about half a second.
"""

MAX_FIRING_STEPS: Final = 4_000
"""The same for the firing of a rule, of which there are thousands."""

MAX_FIRING_NODES: Final = 200
"""How large what matched and its replacement may be, down to what both read or reduce alike."""

_FAILURES: Final = (ValueError, TypeError, IndexError)
"""What an evaluation raises: an EvaluationError, or an error of numpy where a rule or a pass broke
the graph.
"""

_N_SAMPLES: Final = 128
_N_SINGLE: Final = 6
_ROUNDINGS: Final = 8


class PassCheck:
    """The checks of one run of a pipeline; `report` says what was too large for them."""

    def __init__(self, pipeline: str, *, has_values: bool) -> None:
        self.pipeline, self.has_values = pipeline, has_values
        self.compared: set[Match] = set()
        self.n_passes = self.n_firings = 0
        self.skipped_passes: dict[str, str] = {}
        self.n_skipped_firings = 0

    def run(self, name: str, stage: str, run: Callable[[UOp], UOp], graph: UOp) -> UOp:
        """What `run` makes of `graph`.

        Raises:
            SpecError: if that breaks the specification of `stage`, or has results of another shape
                or dtype.
            MiscompilationError: if it computes something else.
        """
        pass_name = f"{self.pipeline}:{name}"
        matches: list[Match] = []

        def see(match: Match) -> None:
            matches.append(match)
            _check_form(match, pass_name, stage)
            if self.has_values and match not in self.compared:
                self.compared.add(match)
                self._compare_firing(match, pass_name)

        with watch_matches(see):
            made = run(graph)
        try:
            verify(made, stage, pass_name)
        except SpecError as error:
            raise _name_maker(error, matches) from error
        _check_results(graph, made, pass_name, stage)
        if self.has_values and made is not graph:
            self._compare_graphs(graph, made, pass_name)
        return made

    def list_skipped(self, graph: UOp) -> list[str]:
        """Lines that say what was not compared on the way to `graph`, and why."""
        of = f" of {graph.arg.name}" if isinstance(graph.arg, KernelInfo) else ""
        reasons: dict[str, list[str]] = {}
        for name, why in self.skipped_passes.items():
            reasons.setdefault(why, []).append(name)
        lines = [f"{', '.join(names)}{of}: {why}" for why, names in reasons.items()]
        if self.n_skipped_firings:
            what = (
                f"{self.n_skipped_firings} of {self.n_firings} firings of rules in"
                f" {self.pipeline}{of}"
            )
            lines.append(f"{what}: too large, or without reference semantics")
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
                problem=_tell(before, after, values),
                values=_name_values(values),
                notes=(f"it became {format_expression(match.after)}",),
            )

    def _compare_graphs(self, before: UOp, after: UOp, pass_name: str) -> None:
        from svod_ir.compare import count_steps, find_change

        self.n_passes += 1
        if _is_unordered(before) or _is_unordered(after):
            self.skipped_passes[pass_name] = (
                "memory is written more than once, in an order that cut-kernels makes"
            )
            return
        steps = count_steps(before) + count_steps(after)
        if steps > MAX_GRAPH_STEPS:
            self.skipped_passes[pass_name] = (
                f"about {steps:,} steps of evaluation, more than {MAX_GRAPH_STEPS:,}"
            )
            return
        try:
            found = find_change(before, after)
        except _FAILURES:
            found = self._judge(before, after, pass_name)
        if found is not None:
            raise MiscompilationError(
                pass_name=pass_name,
                rule=None,
                node=format_expression(found.node),
                problem=found.problem,
                notes=_show(before, after),
            )

    def _judge(self, before: UOp, after: UOp, pass_name: str) -> Change | None:
        """The change in what cannot be evaluated with random variables; that it cannot at all is
        one where the pass made it so.
        """
        from svod_ir.compare import Change, find_change

        # Variables may belong together: a place where a kernel begins to read, and how much it
        # reads.
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
            return Change(before, f"it cannot be evaluated any more: {cause}")


def _is_unordered(graph: UOp) -> bool:
    """Whether loops over tensors write some memory more than once: which of them is first is
    decided with their kernels.
    """
    if isinstance(graph.arg, KernelInfo):
        return False
    from svod_ir.evaluate import memory_of

    written = [memory_of(n.location) for n in graph.toposort(enter_calls=False) if n.op is Op.STORE]
    return len(set(written)) < len(written)


def _tell(before: UOp, after: UOp, values: dict[UOp, Any]) -> str:
    from svod_ir.evaluate import evaluate

    if before.op in (Op.STORE, Op.END):
        return "it writes something else"
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


def _show(before: UOp, after: UOp) -> tuple[str, ...]:
    return tuple(
        f"{when}:\n{print_graph(graph, limit=200)}"
        for when, graph in (("before", before), ("after", after))
    )


# What needs no values.


def _check_form(match: Match, pass_name: str, stage: str) -> None:
    before, after = match.before, match.after
    broken = None
    if after.dtype is not before.dtype:
        broken = f"a rule keeps the dtype, which became {after.dtype}"
    elif after.find_shape() != before.find_shape():
        broken = (
            f"a rule keeps the shape {_format(before.find_shape())}, which became"
            f" {_format(after.find_shape())}"
        )
    if broken is not None:
        notes = (f"it became {format_expression(after)}",)
        raise SpecError(
            pass_name=pass_name,
            stage=stage,
            rule=broken,
            node=format_expression(before),
            made_by=f"{match.rule} of {match.ruleset}",
            notes=notes,
        )


def _format(shape: tuple[SInt, ...] | None) -> str:
    return "no shape" if shape is None else format_shape(shape)


def _name_maker(error: SpecError, matches: list[Match]) -> SpecError:
    """`error` with the rule that first made a node which breaks the same rule of the stage of what
    did not.
    """
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
    except Exception:
        return False


def _check_results(before: UOp, after: UOp, pass_name: str, stage: str) -> None:
    """Each result keeps its dtype, and its shape, or the number of its elements where it became
    memory.
    """
    results, made = (graph.src if graph.op is Op.SINK else (graph,) for graph in (before, after))
    if len(made) != len(results):
        return
    for old, new in zip(results, made, strict=True):
        shapes = old.find_shape(), new.find_shape()
        if shapes[0] is None or shapes[1] is None:
            continue
        counts = _count(shapes[0]), _count(shapes[1])
        if new.dtype is not old.dtype:
            broken = f"a pass keeps the dtype of results, {old.dtype}, which became {new.dtype}"
        elif old.op is not Op.ASSIGN and None not in counts and counts[0] != counts[1]:
            broken = (
                f"a pass keeps the shape of results, {_format(shapes[0])}, which became"
                f" {_format(shapes[1])}"
            )
        else:
            continue
        raise SpecError(pass_name=pass_name, stage=stage, rule=broken, node=format_expression(old))


def _count(shape: tuple[SInt, ...]) -> int | None:
    """How many elements there are, None where it depends on variables, for which there is memory
    for the most.
    """
    n_elements = 1
    for size in shape:
        if isinstance(size, UOp):
            return None
        n_elements *= size
    return n_elements
