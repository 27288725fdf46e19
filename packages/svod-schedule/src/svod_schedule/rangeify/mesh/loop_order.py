"""The order of collectives in the bodies of loops and switches."""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import uint8
from svod_ir import Op, ParamArg, UOp
from svod_ir.loops import get_bodies, make_results, map_bodies
from svod_schedule.rangeify.mesh.calls import order_after
from svod_schedule.rangeify.mesh.collectives import Collectives
from svod_schedule.rangeify.mesh.join_reductions import join_reductions

__all__ = ["LoopOrder"]


class LoopOrder:
    """Order of the collectives in the bodies of a LOOP or SWITCH, and of those around it.

    A byte is passed in, and from each iteration to the next; the first collective of a body reads
    it, and what is passed on depends on the last.
    """

    def __init__(self, outer: Collectives, n_operands: int) -> None:
        self.outer = outer
        self.token = UOp(Op.PARAM, uint8, (), ParamArg(n_operands, 1))
        self.inner: list[Collectives] = []

    def enter(self) -> Collectives:
        """The collectives of the next body."""
        self.inner.append(Collectives(self.token))
        return self.inner[-1]

    @property
    def has_collectives(self) -> bool:
        """Whether a body has collectives."""
        return any(inner.count for inner in self.inner)

    def finish(self, node: UOp, control: UOp, operands: Sequence[UOp]) -> UOp:
        """The LOOP or SWITCH of the written bodies on these operands."""
        if not self.has_collectives:
            return node.with_src((control, *operands))
        self.outer.count += sum(inner.count for inner in self.inner)
        self.outer.device = next(inner.device for inner in self.inner if inner.device)
        is_loop = node.op is Op.LOOP
        # A loop passes it on as its last carry, a switch as its last result.
        slot = node.arg.n_carried if is_loop else len(operands)
        position = slot if is_loop else len(get_bodies(node)[0].src)
        remaining = iter(self.inner)
        node = map_bodies(node, lambda body: self._pass_on(body, next(remaining), slot, position))
        if is_loop:
            node = node.with_arg(node.arg._replace(n_carried=slot + 1))
        inputs = (*operands[:slot], self.outer.make_token(), *operands[slot:])
        new = node.with_src((control, *inputs))
        self.outer.continue_after(make_results(new)[position])
        return new

    def _pass_on(self, body: UOp, inner: Collectives, slot: int, position: int) -> UOp:
        token = self.token.with_arg(self.token.arg._replace(device=self.outer.device))
        images = {
            param: param.with_arg(param.arg._replace(slot=param.arg.slot + 1))
            for param in body.iter_ops(Op.PARAM)
            if param.arg.slot >= slot
        }
        images[self.token] = token.with_arg(token.arg._replace(slot=slot))
        passed = self.token if inner.last is None else order_after(self.token, inner.last)
        new = body.with_src((*body.src[:position], passed, *body.src[position:]))
        return join_reductions(new, inner.groups).substitute(images)
