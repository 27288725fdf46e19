"""The derivatives of SWITCH: a SWITCH of the derivatives of its bodies, which recompute the values
that they need.
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
    # A cotangent may be a scalar constant or live on another device; operands of a SWITCH have the
    # shape and device that its bodies read.
    inner_cotangents = [make_placed(cotangents[n], results[n]) for n in cotangents]
    forms = _make_parameters(operands, inner_cotangents)
    params = group_params(bodies, operands)
    sources = [param for n in positions for param in params[n]]
    cotangents_by_body: list[list[UOp | None]] = []
    for body in bodies:
        body_cotangents = mode.derive(
            [body.src[n] for n in cotangents], forms[len(operands) :], sources
        )
        by_param = dict(zip(sources, body_cotangents, strict=True))
        cotangents_by_body.append(
            [make_view(forms[n], {p: by_param[p] for p in params[n]}) for n in positions]
        )
    # An operand that no branch depends on gets no cotangent, instead of a tensor of zeros.
    read = [
        k
        for k in range(len(positions))
        if any(body_cotangents[k] is not None for body_cotangents in cotangents_by_body)
    ]
    chosen = _choose(
        switch,
        [[body_cotangents[k] for k in read] for body_cotangents in cotangents_by_body],
        [forms[positions[k]] for k in read],
        inner_cotangents,
    )
    by_position = dict(zip((positions[k] for k in read), chosen, strict=True))
    return [None, *(by_position.get(n) for n in range(len(operands)))]


def _forward(switch: UOp, tangents: Parts, mode: Mode) -> dict[int, UOp]:
    operands, bodies = switch.src[1:], get_bodies(switch)
    positions = [n for n, tangent in enumerate(tangents[1:]) if tangent is not None]
    inner_tangents = [
        make_placed(t, operands[n]) for n, t in enumerate(tangents[1:]) if t is not None
    ]
    slots, added = get_slots([*operands, *inner_tangents]), len(operands)
    sources: list[UOp] = []
    moved: list[UOp] = []
    for k, (n, params) in enumerate((n, group_params(bodies, operands)[n]) for n in positions):
        sources += params
        # The tangent of an operand is another operand, whose slots follow the slots of all operands.
        moved += [
            p.with_arg(p.arg._replace(slot=slots[added + k] + p.arg.slot - slots[n]))
            for p in params
        ]
    tangents_by_body = [mode.derive(body.src, sources, moved) for body in bodies]
    read = [
        n
        for n in range(len(bodies[0].src))
        if any(body_tangents[n] is not None for body_tangents in tangents_by_body)
    ]
    chosen = _choose(
        switch,
        [[body_tangents[n] for n in read] for body_tangents in tangents_by_body],
        [bodies[0].src[n] for n in read],
        inner_tangents,
    )
    return dict(zip(read, chosen, strict=True))


def _make_parameters(operands: Sequence[UOp], added: Sequence[UOp]) -> list[UOp]:
    """The PARAMs that bodies read for operands, followed by the PARAMs for added operands."""
    first = sum(map(count_slots, operands))
    slots = [*get_slots(operands), *(first + slot for slot in get_slots(added))]
    return [make_parameter(o, slot) for o, slot in zip((*operands, *added), slots, strict=True)]


def _choose(
    switch: UOp, values: Sequence[Sequence[UOp | None]], likes: Sequence[UOp], added: Sequence[UOp]
) -> tuple[UOp, ...]:
    """RESULTs of a SWITCH that chooses between rows of values, each shaped as its `like`, with
    added operands.
    """
    if not likes:
        return ()
    bodies = [
        UOp.sink(
            *(
                # All branches of a SWITCH return the same number of values in the same shapes.
                make_shaped(make_zeros(like) if v is None else v, like)
                for v, like in zip(row, likes, strict=True)
            )
        )
        for row in values
    ]
    return make_switch(switch.src[0], bodies, [*switch.src[1:], *added])


SWITCH: Final = MultipleDerivative(_reverse, _forward)
