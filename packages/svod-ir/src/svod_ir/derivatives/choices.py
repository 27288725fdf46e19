"""The derivatives of SWITCH: a SWITCH of the derivatives of its bodies, which compute again what
they need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from svod_ir.derivatives.new_loop import group_params, make_placed, make_shaped, make_view
from svod_ir.derivatives.rule import Mode, MultipleDerivative, Parts, Wanted, make_zeros
from svod_ir.loops import (
    count_slots,
    get_bodies,
    get_slots,
    make_parameter,
    make_results,
    make_switch,
)
from svod_ir.uop import UOp

__all__ = ["SWITCH"]


def _reverse(switch: UOp, cotangents: Mapping[int, UOp], wanted: Wanted, mode: Mode) -> Parts:
    operands, bodies = switch.src[1:], get_bodies(switch)
    positions = [n for n, is_wanted in enumerate(wanted[1:]) if is_wanted]
    results = make_results(switch)
    given = [make_placed(cotangents[n], results[n]) for n in cotangents]
    forms = _make_forms(operands, given)
    params = group_params(bodies, operands)
    sources = [param for n in positions for param in params[n]]
    found: list[list[UOp | None]] = []
    for body in bodies:
        parts = mode.derive([body.src[n] for n in cotangents], forms[len(operands) :], sources)
        by_param = dict(zip(sources, parts, strict=True))
        found.append([make_view(forms[n], {p: by_param[p] for p in params[n]}) for n in positions])
    read = [k for k in range(len(positions)) if any(parts[k] is not None for parts in found)]
    made = _choose(
        switch,
        [[parts[k] for k in read] for parts in found],
        [forms[positions[k]] for k in read],
        given,
    )
    by_position = dict(zip((positions[k] for k in read), made, strict=True))
    return [None, *(by_position.get(n) for n in range(len(operands)))]


def _forward(switch: UOp, tangents: Parts, mode: Mode) -> dict[int, UOp]:
    operands, bodies = switch.src[1:], get_bodies(switch)
    positions = [n for n, tangent in enumerate(tangents[1:]) if tangent is not None]
    given = [make_placed(t, operands[n]) for n, t in enumerate(tangents[1:]) if t is not None]
    slots, added = get_slots([*operands, *given]), len(operands)
    sources: list[UOp] = []
    moved: list[UOp] = []
    for k, (n, params) in enumerate((n, group_params(bodies, operands)[n]) for n in positions):
        sources += params
        moved += [
            p.with_arg(p.arg._replace(slot=slots[added + k] + p.arg.slot - slots[n]))
            for p in params
        ]
    found = [mode.derive(body.src, sources, moved) for body in bodies]
    read = [n for n in range(len(bodies[0].src)) if any(parts[n] is not None for parts in found)]
    made = _choose(
        switch,
        [[parts[n] for n in read] for parts in found],
        [bodies[0].src[n] for n in read],
        given,
    )
    return dict(zip(read, made, strict=True))


def _make_forms(operands: Sequence[UOp], given: Sequence[UOp]) -> list[UOp]:
    """What bodies have for operands, and for others behind these."""
    first = sum(map(count_slots, operands))
    slots = [*get_slots(operands), *(first + slot for slot in get_slots(given))]
    return [make_parameter(o, slot) for o, slot in zip((*operands, *given), slots, strict=True)]


def _choose(
    switch: UOp, values: Sequence[Sequence[UOp | None]], likes: Sequence[UOp], given: Sequence[UOp]
) -> tuple[UOp, ...]:
    """The RESULTs of a choice between values, each as its `like`, of the operands of a SWITCH and
    what is given besides.
    """
    if not likes:
        return ()
    bodies = [
        UOp.sink(
            *(
                make_shaped(make_zeros(like) if v is None else v, like)
                for v, like in zip(row, likes, strict=True)
            )
        )
        for row in values
    ]
    return make_switch(switch.src[0], bodies, [*switch.src[1:], *given])


SWITCH: Final = MultipleDerivative(_reverse, _forward)
