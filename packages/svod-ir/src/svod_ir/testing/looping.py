"""A hypothesis strategy for graphs with loops and switches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from hypothesis import strategies as st

from svod_dtype import int32
from svod_ir.build import (
    make_alu,
    make_expand,
    make_flip,
    make_iota,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
)
from svod_ir.loops import make_counter, make_loop, make_parameter, make_switch
from svod_ir.ops import Op
from svod_ir.testing.nodes import assign, buffer
from svod_ir.uop import UOp

__all__ = ["loops"]

_SHAPE: Final = (2, 3)
_COUNTS: Final = (0, 1, 2, 3, 3, 5, 7)
_JOINS: Final = (Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.XOR)


@st.composite
def loops(draw: st.DrawFn, *, max_ops: int = 5, max_depth: int = 2) -> UOp:
    """Generate a SINK of int32 matrices from loops and switches: nested up to `max_depth`,
    reversed, conditional, with counters, with in-place updates. Bodies have at most `max_ops`
    operations.
    """
    builder = _LoopBuilder(draw, max_ops)
    values = [_shape(buffer(buffer_id, prod(_SHAPE), int32)) for buffer_id in (1, 2, 3)]
    for _ in range(draw(st.integers(1, 2))):
        values += builder.extend(values, (), max_depth)
    values.append(make_alu(Op.ADD, values[-1], draw(st.sampled_from(values))))
    return UOp.sink(
        *(UOp(Op.CONTIGUOUS, int32, (v,)) for v in dict.fromkeys(values[3:]) if v.shape == _SHAPE)
    )


class _LoopBuilder:
    def __init__(self, draw: st.DrawFn, max_ops: int) -> None:
        self.draw, self.max_ops = draw, max_ops

    def pick(self, values: Sequence[UOp], least: int, most: int) -> list[UOp]:
        return [
            self.draw(st.sampled_from(values)) for _ in range(self.draw(st.integers(least, most)))
        ]

    def flip_coin(self) -> bool:
        return self.draw(st.booleans())

    def extend(self, values: Sequence[UOp], counters: tuple[UOp, ...], depth: int) -> list[UOp]:
        """Values computed from `values`, the last ones by a loop or a switch if `depth` allows."""
        extended = list(values)
        for _ in range(self.draw(st.integers(1, self.max_ops))):
            extended.append(self.compute(extended, counters))
        if depth and self.flip_coin():
            extended += (
                self.choose(extended, counters, depth - 1)
                if self.flip_coin()
                else self.repeat(extended, counters, depth - 1)
            )
        return extended[len(values) :]

    def compute(self, values: Sequence[UOp], counters: Sequence[UOp]) -> UOp:
        x, y = self.pick(values, 2, 2)
        match self.draw(st.integers(0, 5)):
            case 0 if counters:
                return make_alu(
                    Op.ADD, x, _expand(self.draw(st.sampled_from(counters)).cast(int32))
                )
            case 1:
                return make_flip(x, [True, False])
            case 2:
                return make_expand(make_reduce_axis(x, Op.ADD, (0,)), _SHAPE)
            case 3:
                return make_reshape(make_permute(x, (1, 0)), _SHAPE)
            case 4:
                return make_alu(Op.MUL, x, _expand(UOp.const(int32, self.draw(st.integers(-2, 3)))))
            case _:
                return make_alu(self.draw(st.sampled_from(_JOINS)), x, y)

    def repeat(self, values: Sequence[UOp], counters: tuple[UOp, ...], depth: int) -> list[UOp]:
        count: int | UOp = self.draw(st.sampled_from(_COUNTS))
        carried, constants = self.pick(values, 1, 3), self.pick(values, 0, 2)
        is_conditional, is_computed = self.flip_coin(), self.flip_coin()
        sliced = [] if is_computed else [_repeat_rows(x, count) for x in self.pick(values, 0, 2)]
        operands = (*carried, *sliced, *constants)
        n_carried, end_sliced = len(carried), len(carried) + len(sliced)
        inside = [
            make_parameter(x, i, is_slice=n_carried <= i < end_sliced)
            for i, x in enumerate(operands)
        ]
        counter = make_counter(f"loop_counter_{len(counters)}", 7)
        computed = self.extend(inside, (*counters, counter), depth)
        if sliced and self.flip_coin():
            # Values that read no carry.
            independent = self.extend(inside[n_carried:], (), 0)
            computed += [*independent, make_alu(Op.ADD, independent[-1], computed[-1])]
        following = self.pick([*inside, *computed], n_carried, n_carried)
        if self.flip_coin():
            written = _write_row(inside[0], computed[-1])
            # The written value may be read without being carried, or be another carry.
            following[self.draw(st.integers(0, n_carried - 1))] = written
            computed.append(make_alu(Op.ADD, written, computed[-1]))
        stacked = [] if is_computed or is_conditional else self.pick(computed, 0, 2)
        go_on = [_sum(computed[-1]) < self.draw(st.integers(0, 40))] if is_conditional else []
        if is_computed:
            count = make_alu(
                Op.MIN,
                make_alu(Op.MAX, _sum(values[0]), UOp.const(int32, -1)),
                UOp.const(int32, count),
            )
        results = make_loop(
            UOp.sink(*following, *stacked, *go_on),
            count,
            operands,
            n_carried=n_carried,
            n_sliced=len(sliced),
            counter=counter.arg.name,
            is_reversed=self.flip_coin(),
            is_conditional=is_conditional,
        )
        return [_fold(x) for x in results]

    def choose(self, values: Sequence[UOp], counters: tuple[UOp, ...], depth: int) -> list[UOp]:
        operands = self.pick(values, 1, 3)
        inside = [make_parameter(x, i) for i, x in enumerate(operands)]
        n_results = self.draw(st.integers(1, 2))
        bodies: list[UOp] = []
        for _ in range(self.draw(st.integers(1, 3))):
            computed = self.extend(inside, counters, depth)
            bodies.append(UOp.sink(*self.pick([*inside, *computed], n_results, n_results)))
        choice = make_alu(Op.MOD, _sum(values[0]), UOp.const(int32, 3))
        if self.flip_coin():
            choice = UOp.const(int32, self.draw(st.integers(-1, 3)))
        return list(make_switch(choice, bodies, operands))


def _shape(memory: UOp) -> UOp:
    return make_reshape(memory, _SHAPE)


def _expand(x: UOp) -> UOp:
    return make_expand(make_reshape(x, (1, 1)), _SHAPE)


def _sum(x: UOp) -> UOp:
    return make_reshape(make_reduce_axis(x, Op.ADD, (0, 1)), ())


def _repeat_rows(x: UOp, count: int) -> UOp:
    """`count` matrices, each `x` plus its index."""
    indices = make_expand(make_reshape(make_iota(count, int32), (count, 1, 1)), (count, *_SHAPE))
    return make_alu(Op.ADD, make_expand(make_reshape(x, (1, *_SHAPE)), (count, *_SHAPE)), indices)


def _write_row(state: UOp, value: UOp) -> UOp:
    """Assign the first row of `value` to the memory of `state`."""
    target = make_shrink(state, [(0, 1), (0, 3)])
    written = assign(target, make_shrink(value, [(0, 1), (0, 3)]))
    return _shape(state.source.after(written))


def _fold(x: UOp) -> UOp:
    """Sum stacked matrices to one."""
    return x if x.shape == _SHAPE else make_reshape(make_reduce_axis(x, Op.ADD, (0,)), _SHAPE)
