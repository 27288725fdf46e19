"""What a kernel's body says about its arguments."""

from __future__ import annotations

from svod_dtype import float32, index
from svod_ir import Op, ParamArg, UOp
from svod_ir.testing import nodes
from svod_tensor.engine.arguments import has_partial_store, iter_arguments
from svod_tensor.engine.instantiate import ScheduleItem

ZERO = UOp.const(index, 0)
FIRST, SECOND = (UOp(Op.PARAM, float32, (), ParamArg(slot, 4)) for slot in range(2))
ONE = UOp.const(float32, 1.0)


def test_a_bound_variable_takes_a_slot_and_is_no_memory():
    body = UOp.sink(SECOND.index(ZERO).store(FIRST.index(ZERO).load()))
    memory = [nodes.buffer(number, 4) for number in (-1, -2)]
    bind = UOp(Op.BIND, index, (UOp.variable("n", 0, 9), UOp.const(index, 3)))
    for sources, expected in [
        (memory, [(0, -1, False), (1, -2, True)]),
        ([bind, *memory], [(1, -1, True), (2, -2, False)]),
    ]:
        item = ScheduleItem(0, nodes.call(body, *sources), body, (None, None), (-1, -2))
        assert [(a.slot, a.id, a.is_written) for a in iter_arguments(item)] == expected


def test_one_gated_store_of_several_preserves_old_data():
    gate = UOp.variable("n", 0, 3).alu(Op.LT, UOp.const(index, 2))
    stores = [FIRST.index(ZERO), SECOND.index(ZERO), SECOND.index(ZERO, gate=gate)]
    one, two, gated = (place.store(ONE) for place in stores)
    assert not has_partial_store(UOp.sink(one, two))
    assert has_partial_store(UOp.sink(one, gated))
