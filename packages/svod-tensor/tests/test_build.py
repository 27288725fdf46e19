from __future__ import annotations

from svod_dtype import float32
from svod_ir import Op, UOp
from svod_ir.testing.nodes import bind, buffer
from svod_tensor import Tensor
from svod_tensor.engine.build import make_result, normalize_graph, normalize_results


def test_normalizing_drops_only_buffers_and_values():
    def graph(a, b, n):
        bound = bind(UOp.variable("n", 0, 9), n)
        return UOp.sink(a + b + bound.cast(float32))

    one, two = (
        normalize_graph(graph(buffer(1), buffer(2), 3)),
        normalize_graph(graph(buffer(8), buffer(9), 5)),
    )
    assert one.sink is two.sink
    assert one.params == (buffer(1), buffer(2))
    assert normalize_graph(graph(buffer(1), buffer(1), 3)).sink is not one.sink
    assert (
        normalize_graph(graph(buffer(1, device="CPU:1"), buffer(2, device="CPU:1"), 3)).sink
        is not one.sink
    )
    assert not list(one.sink.iter_ops(Op.BUFFER, Op.BIND))


def test_a_graph_lists_its_devices_with_the_device_of_values_without_memory_first():
    far, disk = buffer(1, device="CPU:1"), buffer(2, device="DISK:/tmp/data")
    nothing = UOp.const(float32, 2.0)
    for roots, devices, has_files in (
        ((far + far,), ("CPU:1",), False),
        ((far + far, nothing), ("CPU", "CPU:1"), False),
        ((nothing,), ("CPU",), False),
        ((disk + disk,), ("CPU",), True),
        ((disk + disk, far), ("CPU", "CPU:1"), True),
        ((UOp(Op.COPY, float32, (far,), "CPU:2"), far + far), ("CPU:1", "CPU:2"), False),
    ):
        found = normalize_graph(UOp.sink(*roots))
        assert (found.devices, found.has_files) == (devices, has_files)


def test_results_are_normalised_as_the_sink_that_holds_them():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    state = Tensor([5.0, 6.0])
    state.assign(x + state)
    values = [(x + 1).uop, (x + y).uop, state.uop]
    for some in (values, values[:1], values[2:]):
        found = normalize_results(some)
        expected = normalize_graph(UOp.sink(*map(make_result, some)))
        assert found.sink is expected.sink
        assert (found.params, found.values, found.devices) == (
            expected.params,
            expected.values,
            expected.devices,
        )
    assert [node.op for node in normalize_results(values[:2]).sink.src] == [Op.CONTIGUOUS] * 2
