"""Padding of slices of symbolic size to their maximum size: the runtime finds the slices of an
iteration at a constant stride.

before → after, for a loop that stacks values of n elements, n at most 8:

    RESULT[0](LOOP(4), its body SINK(x))     SHRINK(RESULT[0](LOOP(4), its body SINK(PAD(x, (0, 8 - n)))), (0, 4), (0, n))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svod_ir import Op, SInt, UOp, make_pad, make_reshape, make_shrink
from svod_ir.sizes import max_size
from svod_schedule.rangeify.loops.loop_draft import LoopDraft, has_known_sizes

__all__ = ["crop_results", "widen_slices"]

_STORED: Final = frozenset(
    {Op.BUFFER, Op.PARAM, Op.CONTIGUOUS, Op.COPY, Op.LOOP, Op.SCAN_AXIS, Op.SCATTER, Op.ASSIGN}
)
"""Ops whose results are in memory."""


def widen_slices(draft: LoopDraft) -> Mapping[int, tuple[SInt, ...]]:
    """Pad sliced operands and stacked values to constant sizes. Returns the original shapes of the
    results that are padded, by position.
    """
    for slot in list(draft.sliced):
        parameter = draft.parameter(slot)
        if has_known_sizes(parameter.shape):
            continue
        # A new operand beside the old one, which `drop_operands` removes if the body no longer
        # reads it.
        wide = draft.add_operand(_pad(_store_sums(draft.operands[slot]), 1), is_sliced=True)
        _replace_slice(
            draft, slot, parameter, make_shrink(wide, [(0, size) for size in parameter.shape])
        )
    draft.drop_operands()
    shapes: dict[int, tuple[SInt, ...]] = {}
    for position, value in draft.values.items():
        if position not in draft.carried and not has_known_sizes(value.shape):
            shapes[position] = UOp(Op.RESULT, value.dtype, (draft.loop,), position).shape
            draft.values[position] = _pad(value, 0)
    return shapes


def crop_results(
    results: Mapping[int, UOp], shapes: Mapping[int, tuple[SInt, ...]]
) -> dict[int, UOp]:
    """Crop padded results to their original shapes."""
    return {
        p: make_shrink(r, [(0, size) for size in shapes[p]]) if p in shapes else r
        for p, r in results.items()
    }


def _replace_slice(draft: LoopDraft, slot: int, parameter: UOp, value: UOp) -> None:
    """Replace the parameter of a slice by `value`, in each shape in which the body reads it."""
    elements = parameter
    while elements.op is Op.RESHAPE:
        elements = elements.source
    row = make_reshape(value, elements.shape)
    body = draft.body.substitute({elements: row})
    # The remaining PARAMs read the memory of the slice, which is allocated for the maximum size.
    params = [param for param in body.iter_ops(Op.PARAM) if param.arg.slot == slot]
    draft.set_body(body.substitute({param: _pad_to(row, param.arg.size) for param in params}))


def _store_sums(x: UOp) -> UOp:
    """Store `x` in its own size if it has a sum, which a kernel with the padding would compute for the
    padded elements as well.
    """
    stack, seen = [x], {x}
    while stack:
        node = stack.pop()
        if node.op is Op.REDUCE_AXIS:
            return UOp(Op.CONTIGUOUS, x.dtype, (x,))
        sources = () if node.op in _STORED else node.src
        stack += [source for source in sources if source not in seen]
        seen.update(sources)
    return x


def _pad_to(row: UOp, size: int) -> UOp:
    return make_pad(row, [(0, size - row.shape[0])])


def _pad(x: UOp, first: int) -> UOp:
    """Pad the axes of `x` from `first` on to their maximum sizes."""
    return make_pad(
        x, [(0, 0 if i < first else max_size(size) - size) for i, size in enumerate(x.shape)]
    )
