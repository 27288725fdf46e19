"""The derivatives of LOOP.

    forward: one loop that carries values and tangents
    reverse: the loop again, which also stacks its residuals, then a reversed loop that carries cotangents

The first loop of reverse mode has the operands and results of the loop itself, and replaces it when
graphs are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from svod_ir.args import LoopArg
from svod_ir.build import make_alu, make_as_complex, make_as_real, make_cast, make_reshape
from svod_ir.derivatives.joint import list_operands
from svod_ir.derivatives.memory import update_values
from svod_ir.derivatives.new_loop import (
    NewLoop,
    group_params,
    make_placed,
    make_shaped,
    make_view,
    number_back,
)
from svod_ir.derivatives.residuals import choose_kept, list_depending
from svod_ir.derivatives.rule import (
    Dependence,
    Mode,
    MultipleDerivative,
    Parts,
    Wanted,
    make_refusal,
    make_zeros,
    widen,
)
from svod_ir.derivatives.sums import StackedSums
from svod_ir.loops import (
    count_results,
    find_count,
    get_slots,
    iter_nodes,
    make_parameter,
    make_results,
    rename_inner_counters,
)
from svod_ir.ops import Op
from svod_ir.origins import make_images
from svod_ir.sizes import normalize_size, product, unbind
from svod_ir.uop import SInt, UOp, to_node

__all__ = ["LOOP"]


_Replace: TypeAlias = Callable[[Sequence[UOp]], list[UOp]]
"""Maps nodes of the body to their values in the reversed loop."""


class _Activity(NamedTuple):
    """Activity of the operands of a LOOP: the operands that a derivative flows through.

    Attributes:
        params: for each operand, the PARAMs of the body that read it.
        active: the indices of the operands through which a derivative may flow.
        dependence: the dependence of the body's results on the PARAMs of active operands.
    """

    params: list[list[UOp]]
    active: set[int]
    dependence: Dependence

    def list_sources(self, indices: Sequence[int]) -> list[UOp]:
        """The PARAMs of some operands."""
        return [param for n in indices for param in self.params[n]]


def _get_activity(loop: UOp, wanted: Sequence[bool], mode: Mode) -> _Activity:
    arg: LoopArg = loop.arg
    params = group_params([arg.body], loop.src[1:])
    values = arg.body.src[: count_results(loop)]
    active = {
        n for n, is_wanted in enumerate(wanted) if is_wanted and loop.src[1 + n].dtype.is_inexact
    }
    # A carry becomes active if its next value depends on an active operand, which may activate
    # others: iterate to a fixed point.
    while True:
        dependence = mode.get_dependence(values, [p for n in active for p in params[n]])
        more = {n for n in range(arg.n_carried) if values[n] in dependence.active} - active
        if not more:
            return _Activity(params, active, dependence)
        active |= more


# Forward.


def _forward(loop: UOp, tangents: Parts, mode: Mode) -> dict[int, UOp]:
    arg: LoopArg = loop.arg
    operands, body = loop.src[1:], arg.body
    activity = _get_activity(loop, [t is not None for t in tangents[1:]], mode)
    new = NewLoop(loop)
    # First, so that the body's PARAMs of carries keep their slots.
    new.keep_carried()
    sources: list[UOp] = []
    inner_tangents: list[UOp] = []
    slots = get_slots(operands)
    carried = [n for n in sorted(activity.active) if n < arg.n_carried]
    for index in sorted(activity.active):
        operand, tangent = operands[index], tangents[1 + index]
        # A carry that starts without a tangent may get one in the first iteration.
        tangent = make_zeros(operand) if tangent is None else tangent
        is_slice = arg.n_carried <= index < arg.n_carried + arg.n_sliced
        first = new.n_slots
        add = new.carry if index < arg.n_carried else new.slice if is_slice else new.read
        add(make_placed(tangent, operand))
        for param in activity.params[index]:
            sources.append(param)
            inner_tangents.append(
                param.with_arg(param.arg._replace(slot=first + param.arg.slot - slots[index]))
            )
    values = body.src[: count_results(loop)]
    stacked = [
        n for n in range(arg.n_carried, len(values)) if values[n] in activity.dependence.active
    ]
    derived = mode.derive([values[n] for n in (*carried, *stacked)], sources, inner_tangents)
    filled = [
        make_shaped(make_zeros(values[n]) if value is None else value, values[n])
        for n, value in zip((*carried, *stacked), derived, strict=True)
    ]
    results = new.make(
        [*values[: arg.n_carried], *filled[: len(carried)]],
        filled[len(carried) :],
        body.src[-1] if arg.is_conditional else None,
        is_reversed=arg.is_reversed,
    )
    return dict(zip((*carried, *stacked), results[arg.n_carried :], strict=True))


# Reverse.

_HINT: Final = (
    "give the loop a trip count that is known, or a variable, as scan(..., length=n)"
    " does, or use jvp, or detach() the loop's inputs"
)


def _reverse(loop: UOp, cotangents: Mapping[int, UOp], wanted: Wanted, mode: Mode) -> Parts:
    activity = _get_activity(loop, wanted[1:], mode)
    values = loop.arg.body.src
    # Before the refusal below: a loop that no derivative flows through needs no trip count.
    if not any(n in activity.active or values[n] in activity.dependence.active for n in cotangents):
        return [None] * len(loop.src)
    count = find_count(loop)
    if loop.arg.is_conditional or count is None:
        raise make_refusal(
            loop,
            "its trip count is only known at run time, so its residuals cannot be allocated",
            _HINT,
        )
    return _Reverse(loop, count, cotangents, wanted, activity, mode).make()


class _Reverse:
    """The reverse mode of one LOOP."""

    def __init__(
        self,
        loop: UOp,
        count: SInt,
        cotangents: Mapping[int, UOp],
        wanted: Wanted,
        activity: _Activity,
        mode: Mode,
    ) -> None:
        self.loop, self.count, self.cotangents, self.wanted, self.mode = (
            loop,
            count,
            cotangents,
            wanted[1:],
            mode,
        )
        self.arg: LoopArg = loop.arg
        self.operands = loop.src[1:]
        self.values: tuple[UOp, ...] = self.arg.body.src
        self.results = make_results(loop)
        self.activity = activity
        self.n_carried, self.end_sliced = self.arg.n_carried, self.arg.n_carried + self.arg.n_sliced
        self.new = NewLoop(loop)

    def make(self) -> Parts:
        """The cotangents of the operands."""
        operand_cotangents: list[UOp | None] = [None] * len(self.loop.src)
        carried = self._list_carried()
        outputs = [*carried, *(n for n in sorted(self.cotangents) if n >= self.n_carried)]
        inner_cotangents = [self._enter(n) for n in outputs]
        is_read = [
            n in carried if n < self.n_carried else self.wanted[n]
            for n in range(len(self.operands))
        ]
        indices = [n for n in sorted(self.activity.active) if is_read[n]]
        sources = self.activity.list_sources(indices)
        by_param = dict(
            zip(
                sources,
                self.mode.derive([self.values[n] for n in outputs], inner_cotangents, sources),
                strict=True,
            )
        )
        shown = {n: self._show(n, by_param) for n in indices}
        next_values = [self._fill(shown[n], self._get_parameter(n)) for n in carried]
        slices = [
            n for n in indices if self.n_carried <= n < self.end_sliced and shown[n] is not None
        ]
        stacked = [self._fill(shown[n], self._get_parameter(n)) for n in slices]
        constants = {
            n: value for n in indices if n >= self.end_sliced and (value := shown[n]) is not None
        }
        sums = self._make_sums(constants)
        makers = {
            n: make
            for n, value in sorted(constants.items(), key=_order)
            if (make := sums.take(value)) is not None
        }
        added = [n for n in constants if n not in makers]
        for n in added:
            next_values.append(self._accumulate(n, constants[n]))
        replace = self._keep([*next_values, *stacked, *sums.stacked], [*sums.terms])
        roots = replace([*next_values, *stacked, *sums.stacked])
        n_next, n_slices = len(next_values), len(slices)
        looped = self.new.make(roots[:n_next], roots[n_next:], is_reversed=not self.arg.is_reversed)
        for n, result in zip((*carried, *added), looped, strict=False):
            operand_cotangents[1 + n] = make_cast(result, self.operands[n].dtype)
        for n, result in zip(slices, looped[n_next:], strict=False):
            operand_cotangents[1 + n] = result
        terms = self._stack_terms(
            sums, dict(zip(sums.stacked, looped[n_next + n_slices :], strict=True)), replace
        )
        for n, make in makers.items():
            operand_cotangents[1 + n] = make_reshape(
                make(terms.__getitem__), self.operands[n].shape
            )
        return [
            operand_cotangent if is_wanted else None
            for operand_cotangent, is_wanted in zip(
                operand_cotangents, (False, *self.wanted), strict=True
            )
        ]

    def _list_carried(self) -> list[int]:
        """Indices of the carries whose cotangents are carried back: active ones that a result with
        a cotangent depends on.
        """
        active = [n for n in sorted(self.activity.active) if n < self.n_carried]
        carried = {n for n in active if n in self.cotangents}
        stack = [
            self.values[n] for n in (*carried, *(n for n in self.cotangents if n >= self.n_carried))
        ]
        owners = {param: n for n in active for param in self.activity.params[n]}
        seen = set(stack)
        while stack:
            node = stack.pop()
            owner = owners.get(node)
            below = [*self.activity.dependence.inputs.get(node, ())]
            if owner is not None and owner not in carried:
                carried.add(owner)
                below.append(self.values[owner])
            # A LOOP or SWITCH is visited even if only some of its results are active: activity is
            # recorded for each result.
            new = [s for s in below if s not in seen and s in self.activity.dependence.active]
            seen.update(new)
            stack.extend(new)
        return sorted(carried)

    def _enter(self, position: int) -> UOp:
        """Pass the cotangent of a result into the reversed loop; return its value in the body."""
        result, cotangent = self.results[position], self.cotangents.get(position)
        if position >= self.n_carried:
            assert cotangent is not None
            return self.new.slice(make_placed(cotangent, result))
        return self.new.carry(
            make_placed(make_zeros(result) if cotangent is None else cotangent, result)
        )

    def _get_parameter(self, index: int) -> UOp:
        is_slice = self.n_carried <= index < self.end_sliced
        return make_parameter(
            self.operands[index], get_slots(self.operands)[index], is_slice=is_slice
        )

    def _show(self, index: int, by_param: Mapping[UOp, UOp | None]) -> UOp | None:
        return make_view(
            self._get_parameter(index),
            {param: by_param[param] for param in self.activity.params[index]},
        )

    def _fill(self, value: UOp | None, like: UOp) -> UOp:
        return make_shaped(make_zeros(like) if value is None else value, like)

    def _accumulate(self, index: int, value: UOp) -> UOp:
        """Accumulate the cotangent of an operand over the iterations in a new carry."""
        operand = self.operands[index]
        # One rounding for each iteration would lose small terms of a narrow dtype.
        wide = widen(operand.dtype)
        total = self.new.carry(make_placed(UOp.const(wide, 0), operand))
        return make_alu(Op.ADD, total, make_cast(value, wide))

    def _list_entered(self, order: Sequence[UOp]) -> set[UOp]:
        """The PARAMs of the reversed loop that the body of the LOOP does not have."""
        return {
            node for node in order if node.op is Op.PARAM and node.arg.slot >= self.new.first_slot
        }

    def _make_sums(self, constants: Mapping[int, UOp]) -> StackedSums:
        order = UOp.sink(*constants.values()).toposort()[:-1]
        return StackedSums(list_depending(order, self._list_entered(order)), self.arg.counter)

    def _keep(self, roots: Sequence[UOp], terms: Sequence[UOp]) -> _Replace:
        """Stack the residuals that these nodes need; return the mapping of nodes into the reversed
        loop.
        """
        order = UOp.sink(*roots, *terms).toposort()[:-1]
        varying = list_depending(order, self._list_entered(order))
        needed = {
            s: None
            for node in order
            if node in varying
            for s in _list_read(node)
            if s not in varying
        }
        needed.update((root, None) for root in (*roots, *terms) if root not in varying)
        carried = {p for group in self.activity.params[: self.n_carried] for p in group}
        changing = carried.union(*self.activity.params[self.n_carried : self.end_sliced])
        counter = _find_counter(self.arg)
        # Recomputed loops store only the carries; others store a minimum cut.
        if self.arg.is_recomputed:
            kept = [node for node in UOp.sink(*needed).toposort()[:-1] if node in carried]
        else:
            changing = changing if counter is None else {*changing, counter}
            kept = choose_kept(list(needed), carried, changing, set(self.values[self.n_carried :]))
        stacks = self._stack(kept)
        images = {node: self.new.slice(stack) for node, stack in stacks.items()}
        memory = {param for image in images.values() for param in image.iter_ops(Op.PARAM)}

        def replace(nodes: Sequence[UOp]) -> list[UOp]:
            sink = _drop_events(_read_stored(UOp.sink(*nodes), images))
            # A recomputed iteration must not write memory that the first loop wrote: its
            # assignments become values.
            sink = update_values(sink, memory)
            if counter is not None:
                sink = number_back(sink, counter, to_node(normalize_size(_unbind(self.count) - 1)))
            return list(sink.src)

        return replace

    def _stack(self, kept: Sequence[UOp]) -> dict[UOp, UOp]:
        """The values of some nodes of the body, stacked over all iterations."""
        known = {self.values[n]: n for n in range(self.n_carried, len(self.values))}
        missing = [node for node in kept if node not in known]
        results = self.results
        if missing:
            known.update((node, len(self.values) + n) for n, node in enumerate(missing))
            # A loop stacks complex values as pairs of real numbers.
            added = [make_as_real(node) if node.dtype.is_complex else node for node in missing]
            # The added values may contain loops whose counters clash with this loop's counter.
            body = rename_inner_counters(UOp.sink(*self.values, *added), self.arg.counter)
            arg = self.arg._replace(body=body)
            results = make_results(self.loop.with_arg(arg))
        stacks = {node: results[known[node]] for node in kept}
        return {
            node: make_as_complex(stack) if node.dtype.is_complex else stack
            for node, stack in stacks.items()
        }

    def _stack_terms(
        self, sums: StackedSums, stacks: Mapping[UOp, UOp], replace: _Replace
    ) -> dict[UOp, UOp]:
        """The terms of the sums, stacked over all iterations."""
        if not sums.terms:
            return {}
        images = zip(sums.stacked, replace([*sums.stacked]), strict=True)
        shown = {image: self.new.slice(stacks[node]) for node, image in images}
        roots = _read_stored(UOp.sink(*replace([*sums.terms])), shown).src
        looped = self.new.make([], roots, is_reversed=not self.arg.is_reversed)
        return dict(zip(sums.terms, looped, strict=True))


def _list_read(node: UOp) -> tuple[UOp, ...]:
    """Operands that a node reads. Events of a control dependency are not read: another loop computed them."""
    return node.src[:1] if node.op is Op.CONTROL_DEPENDENCY else node.src


def _read_stored(sink: UOp, images: Mapping[UOp, UOp]) -> UOp:
    """`sink` with stored values for the nodes of `images`.

    A rule that differentiates the nodes of its value needs all nodes from its operands on. Where a
    stored value replaces one of them, the nodes themselves are differentiated."""
    done = make_images()
    done.update(images)
    for node in sink.toposort(stop=images):
        if node not in images:
            is_cut = (
                node.op is Op.GRADIENT
                and node.arg.rule.differentiates_value
                and not images.keys().isdisjoint(_list_computed(node))
            )
            done[node] = done[node.src[0]] if is_cut else node.with_images(done)
    return done[sink]


def _list_computed(marked: UOp) -> set[UOp]:
    """The nodes from which a GRADIENT computes its first value, without its operands."""
    operands = list_operands(marked)
    # An element of a joint GRADIENT has that one as its operand.
    if len(operands) == 1 and operands[0].op is Op.GRADIENT and operands[0].arg.n_values > 1:
        operands = list_operands(operands[0])
    return set(marked.src[0].toposort(stop=set(operands))).difference(operands)


def _drop_events(sink: UOp) -> UOp:
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        done[node] = (
            done[node.source] if node.op is Op.CONTROL_DEPENDENCY else node.with_images(done)
        )
    return done[sink]


def _find_counter(arg: LoopArg) -> UOp | None:
    nodes = iter_nodes(arg.body) if arg.counter is not None else ()
    return next(
        (node for node in nodes if node.op is Op.DEFINE_VAR and node.arg.name == arg.counter), None
    )


def _unbind(size: SInt) -> SInt:
    return size if isinstance(size, int) else normalize_size(unbind(size))


def _order(item: tuple[int, UOp]) -> tuple[int, int]:
    """Sort key, largest first: the values stacked for a large operand may serve smaller ones."""
    index, value = item
    size = product(value.shape)
    return (-size if isinstance(size, int) else 0, index)


LOOP: Final = MultipleDerivative(_reverse, _forward)
