"""Placement: devices are derived from memory, and shardings from the shardings of operands."""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import float32, int32
from svod_ir import DeviceMismatchError, Op, Sharding, UOp
from svod_ir._concat import make_concat
from svod_ir.build import (
    make_alu,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter,
    make_scatter_add,
    make_shrink,
)
from svod_ir.evaluate import evaluate
from svod_ir.placement import lay_out, split_evenly
from svod_ir.spec import find_violation, verify
from svod_ir.testing.nodes import buffer, select, stack

DEVICES = ("CPU", "CPU:1")
NUMBER = UOp.const(float32, 2)


def stacked(*shapes: tuple[int, ...]) -> UOp:
    shards = [
        make_reshape(buffer(n + 1, int(np.prod(shape)), device=DEVICES[n]), shape)
        for n, shape in enumerate(shapes)
    ]
    return stack(*shards)


def split(axis: int | None, *shapes: tuple[int, ...]) -> UOp:
    return UOp(Op.MULTI, float32, (stacked(*shapes),), axis)


ROWS = split(0, (3, 4), (2, 4))
COLUMNS = split(1, (5, 2), (5, 2))
WHOLE = split(None, (5, 4), (5, 4))


def on(axis: int | None = None, sizes: tuple[int, ...] = ()) -> Sharding:
    return Sharding(DEVICES, axis, sizes)


def test_a_node_is_on_the_device_of_its_memory() -> None:
    x = buffer(1, 4, device="CPU:1")
    assert (make_reshape(x, (2, 2)) * 2.0).device == "CPU:1"
    assert UOp(Op.COPY, float32, (x,), "CPU").device == "CPU"
    assert UOp(Op.ALLREDUCE, float32, (stacked((2,), (2,)),), (Op.ADD, "CPU:1")).device == "CPU:1"
    assert select(stacked((2,), (2,)), 1).device == "CPU:1"


def test_a_constant_has_no_device_and_adopts_the_device_of_other_operands() -> None:
    assert NUMBER.placement is None
    assert make_iota(3, int32).placement is None
    assert make_alu(Op.ADD, NUMBER, buffer(1, 1, device="CPU:1")).device == "CPU:1"


def test_a_value_computed_from_a_file_has_no_device_yet() -> None:
    file = buffer(1, device="DISK:/f")
    assert make_reshape(file, (2, 2)).device == "DISK:/f"
    assert (file * 2.0).device is None
    assert make_alu(Op.ADD, buffer(2, 4, device="CPU:1"), file).device == "CPU:1"


def test_operands_on_two_devices_are_an_error() -> None:
    with pytest.raises(DeviceMismatchError, match="CPU and CPU:1"):
        _ = make_alu(Op.ADD, buffer(1, 4), buffer(2, 4, device="CPU:1")).device
    with pytest.raises(DeviceMismatchError, match=r"CPU \+ CPU:1 and CPU"):
        _ = make_alu(Op.ADD, split(0, (2,), (2,)), buffer(9, 4)).device


def test_a_multi_has_the_concatenated_shape_of_its_shards() -> None:
    assert (ROWS.shape, COLUMNS.shape, WHOLE.shape) == ((5, 4), (5, 4), (5, 4))
    assert ROWS.placement == on(0, (3, 2))
    assert WHOLE.placement == on()
    assert WHOLE.device == DEVICES
    verify(ROWS, "graph")


def test_a_multi_evaluates_to_its_concatenated_shards() -> None:
    arrays = {n: np.arange(n.arg.size, dtype=np.float32) for n in ROWS.iter_ops(Op.BUFFER)}
    first, second = (a.reshape(-1, 4) for a in arrays.values())
    np.testing.assert_array_equal(evaluate(ROWS, arrays), np.concatenate([first, second]))
    full = {n: np.arange(20, dtype=np.float32) for n in WHOLE.iter_ops(Op.BUFFER)}
    np.testing.assert_array_equal(evaluate(WHOLE, full), np.arange(20).reshape(5, 4))


@pytest.mark.parametrize(
    ("node", "result", "wanted"),
    [
        (make_alu(Op.ADD, WHOLE, COLUMNS), on(1, (2, 2)), (on(1, (2, 2)),) * 2),
        (make_alu(Op.ADD, ROWS, COLUMNS), on(0, (3, 2)), (on(0, (3, 2)),) * 2),
        (make_alu(Op.MUL, ROWS, NUMBER), on(0, (3, 2)), (on(0, (3, 2)), on())),
        (make_permute(ROWS, (1, 0)), on(1, (3, 2)), (on(0, (3, 2)),)),
        (make_reshape(ROWS, (20,)), on(0, (12, 8)), (on(0, (3, 2)),)),
        (make_reshape(ROWS, (5, 1, 2, 2)), on(0, (3, 2)), (on(0, (3, 2)),)),
        (make_reshape(ROWS, (1, 5, 4)), on(1, (3, 2)), (on(0, (3, 2)),)),
        (make_reshape(ROWS, (10, 2)), on(0, (6, 4)), (on(0, (3, 2)),)),
        (make_reshape(ROWS, (2, 10)), on(), (on(),)),
        (make_reshape(COLUMNS, (20,)), on(), (on(),)),
        (make_reshape(COLUMNS, (5, 2, 2)), on(1, (1, 1)), (on(1, (2, 2)),)),
        (make_expand(make_reshape(ROWS, (5, 1, 4)), (5, 3, 4)), on(0, (3, 2)), (on(0, (3, 2)),)),
        (make_pad(ROWS, ((1, 2), (0, 0))), on(0, (4, 4)), (on(0, (3, 2)),)),
        (make_shrink(ROWS, ((1, 4), (0, 4))), on(0, (2, 1)), (on(0, (3, 2)),)),
        (make_shrink(ROWS, ((0, 2), (0, 4))), on(0, (2, 0)), (on(0, (3, 2)),)),
        (make_flip(ROWS, (True, False)), on(0, (2, 3)), (on(0, (3, 2)),)),
        (make_reduce_axis(ROWS, Op.ADD, (1,)), on(0, (3, 2)), (on(0, (3, 2)),)),
        (make_reduce_axis(ROWS, Op.ADD, (0, 1)), on(), (on(0, (3, 2)),)),
        (make_scan_axis(ROWS, Op.ADD, 1), on(0, (3, 2)), (on(0, (3, 2)),)),
        (make_scan_axis(ROWS, Op.ADD, 0), on(), (on(),)),
        (make_gather(ROWS, make_iota(3, int32), 1), on(0, (3, 2)), (on(0, (3, 2)), on())),
        (make_gather(ROWS, make_iota(3, int32), 0), on(), (on(), on())),
        (
            make_gather(COLUMNS, make_reshape(make_iota(6, int32), (2, 3)), 0),
            on(2, (2, 2)),
            (on(1, (2, 2)), on()),
        ),
        (
            make_scatter_add(ROWS, make_iota(4, int32), 1, 9),
            on(0, (3, 2)),
            (on(0, (3, 2)), on(), on(0, (3, 2))),
        ),
        (
            make_scatter(ROWS, make_iota(4, int32), WHOLE, 1),
            on(0, (3, 2)),
            (on(0, (3, 2)), on(), on(0, (3, 2))),
        ),
        (make_scatter(ROWS, make_iota(5, int32), WHOLE, 0), on(), (on(), on(), on())),
        (make_scatter(WHOLE, make_iota(5, int32), ROWS, 0, op=Op.ADD), on(), (on(), on(), on())),
        (
            make_scatter_add(COLUMNS, make_iota(5, int32), 0, 9),
            on(1, (2, 2)),
            (on(1, (2, 2)), on(), on(1, (2, 2))),
        ),
        (
            make_scatter_add(ROWS, make_iota(5, int32), 0, 9),
            on(),
            (on(0, (3, 2)), on(0, (3, 2)), on()),
        ),
        (
            make_scatter_add(WHOLE, make_reshape(make_iota(20, int32), (5, 4)), 0, 9),
            on(),
            (on(), on(), on()),
        ),
    ],
)
def test_a_layout_follows_the_split_axis(
    node: UOp, result: Sharding, wanted: tuple[Sharding, ...]
) -> None:
    assert lay_out(node) == (result, wanted)
    assert node.placement == result


def test_uneven_splits_make_the_first_shards_larger() -> None:
    assert split_evenly(7, 3) == (3, 2, 2)
    assert split_evenly(2, 3) == (1, 1, 0)
    assert [Sharding(("a", "b", "c"), 0, (3, 2, 2)).bounds(i) for i in range(3)] == [
        (0, 3),
        (3, 5),
        (5, 7),
    ]


@pytest.mark.parametrize(
    ("node", "rule"),
    [
        (UOp(Op.MULTI, float32, (buffer(1, 4),), 0), "takes an MSTACK"),
        (
            UOp(Op.MULTI, float32, (stacked((2, 3), (2, 4)),), 0),
            "equal sizes except along its axis",
        ),
        (stack(NUMBER), "is on a device"),
        (select(stacked((2,), (2,)), 2), "holds the index"),
        (UOp(Op.ALLREDUCE, float32, (stacked((2,), (2,)),), (Op.SUB, "CPU")), "holds a reduction"),
    ],
)
def test_the_specification_knows_the_ops_of_several_devices(node: UOp, rule: str) -> None:
    assert rule in (find_violation(node, "graph") or "")


def test_concatenation_of_tensors() -> None:
    pieces = [make_reshape(buffer(n, 2 * n), (2, n)) for n in (1, 2, 3)]
    arrays = {
        n: np.arange(n.arg.size, dtype=np.float32) for p in pieces for n in p.iter_ops(Op.BUFFER)
    }
    expected = np.concatenate([a.reshape(2, -1) for a in arrays.values()], 1)
    np.testing.assert_array_equal(evaluate(make_concat(pieces, 1), arrays), expected)
