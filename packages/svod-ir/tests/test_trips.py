"""Trip counts of loops, and fresh ids of a kernel."""

from __future__ import annotations

from svod_dtype import float32
from svod_ir import AxisType, UOp
from svod_ir._fresh_ids import FreshIds
from svod_ir._trips import exact_trips, max_trips, typical_trips

N = UOp.variable("n", 2, 9)
EIGHT, VARYING = UOp.range(8, 3, AxisType.LOOP), UOp.range(N, 5, AxisType.REDUCE)


def test_the_trip_count_of_a_constant_loop_is_an_int() -> None:
    assert (exact_trips(EIGHT), max_trips(EIGHT), typical_trips(EIGHT)) == (8, 8, 8)


def test_trip_counts_of_a_varying_loop() -> None:
    assert exact_trips(VARYING) is N
    assert (max_trips(VARYING), typical_trips(VARYING)) == (9, 5)


def test_trip_counts_of_nested_loops_multiply() -> None:
    assert (max_trips(EIGHT, VARYING), typical_trips(EIGHT, VARYING)) == (72, 40)
    assert max_trips() == typical_trips() == 1


def test_fresh_ids_start_after_the_largest_of_their_op() -> None:
    register, local = FreshIds().make_register(float32, 4), FreshIds().make_local(float32, 2)
    fresh = FreshIds(UOp.sink(register, local, EIGHT, VARYING))
    assert [fresh.make_range(4, AxisType.LOOP).arg.id for _ in range(2)] == [6, 7]
    assert fresh.make_register(float32).arg == (1, 1)
    assert fresh.make_local(float32, 3).arg == (1, 3)
