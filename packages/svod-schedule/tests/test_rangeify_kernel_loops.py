"""The loops of a kernel: how they are numbered, and that nothing outlives the kernel for their
sake.
"""

from __future__ import annotations

import gc
import weakref

from svod_ir import AxisType, Op, make_reduce_axis
from svod_ir.testing.programs import tensor
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops


def test_loops_of_a_body_continue_the_numbers_and_its_reductions_have_loops_of_their_own() -> None:
    total = make_reduce_axis(tensor(0, 2, 3, 4), Op.ADD, [0, 2])
    kernel = KernelLoops()
    opened = kernel.open(total)
    body = KernelLoops(kernel)
    assert [loop.op for loop in opened] == [Op.CONST, Op.RANGE, Op.CONST]
    assert opened[1].arg.id == 1
    reduced = kernel.open_reduced(total, opened)
    assert {axis: loop.arg.id for axis, loop in reduced.items()} == {0: 3, 2: 4}
    assert kernel.open_reduced(total, opened) is reduced
    assert [loop.arg.id for loop in body.open_reduced(total, opened).values()] == [5, 6]
    assert kernel.make(5, AxisType.LOOP).arg.id == 7


def test_the_nodes_of_a_kernel_are_freed_without_the_garbage_collector() -> None:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        kernel = KernelLoops()
        total = make_reduce_axis(tensor(0, 2, 3), Op.ADD, [1])
        kernel.open_reduced(total, kernel.open(total))
        node = weakref.ref(total)
        del kernel, total
        assert node() is None
    finally:
        if was_enabled:
            gc.enable()
