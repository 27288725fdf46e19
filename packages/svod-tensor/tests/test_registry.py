from __future__ import annotations

import gc
import threading

from svod_device import Buffer, get_allocator
from svod_dtype import float32
from svod_ir import Op, UOp
from svod_ir.testing import run_in_threads
from svod_tensor import Tensor
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.recording import Capture
from svod_tensor.engine import memory_nodes
from svod_tensor.ops.core import base


def make_node():
    return memory_nodes.make_memory(float32, 2, "CPU", Buffer(get_allocator("CPU"), float32, 2))


def test_a_buffer_lives_as_long_as_its_node():
    node = make_node()
    number = node.arg
    assert memory_nodes.find_buffer(node) is not None
    user = node + node
    del node
    gc.collect()
    (found,) = user.iter_ops(Op.BUFFER)
    assert memory_nodes.find_buffer(found) is not None
    del found, user
    gc.collect()
    assert memory_nodes.find_buffer(UOp(Op.BUFFER, float32, (), number)) is None


def test_ids_are_never_reused():
    ids = [memory_nodes.make_memory(float32, 2, "CPU").arg.id for _ in range(100)]
    assert len(set(ids)) == 100
    assert min(ids) > 0


def test_tensors_are_freed_with_their_last_reference():
    gc.collect()
    before = len(list(registry.iter_live()))
    x = Tensor([1.0])
    y = x + 1
    assert len(list(registry.iter_live())) == before + 2
    del x, y
    gc.collect()
    assert len(list(registry.iter_live())) == before


def test_a_write_after_clearing_makes_a_tensor_live_again():
    x = Tensor([1.0, 2.0]).clone().realize()
    registry.clear()
    x.assign(x + 1)
    y = x * 2
    assert x.realize().content.is_realized
    assert y.tolist() == [4.0, 6.0]


def test_replacing_rewrites_every_graph_in_one_walk_and_not_the_replacements():
    x, y = Tensor([1.0, 2.0]), Tensor([5.0, 6.0])
    total = (x + 1) * 2
    inner = x + 1
    registry.replace_nodes({inner.uop: y.uop + inner.uop})
    assert total.tolist() == [14.0, 18.0]
    assert inner.tolist() == [7.0, 9.0]
    registry.replace_nodes({})


def test_an_overwritten_version_leads_to_the_latest_one():
    first, second, third = make_node(), make_node(), make_node()
    registry.invalidate({first: second}, {})
    registry.invalidate({second: third}, {})
    assert registry.get_latest_version(first) is third
    assert registry.get_successors()[first] is third


def test_computations_conflict_over_memory_that_one_of_them_writes():
    reader, writer, other = (
        registry.Computation([1, 2], [], {}),
        registry.Computation([1], [1], {}),
        registry.Computation([2, 3], [3], {}),
    )
    assert reader.conflicts_with(writer)
    assert writer.conflicts_with(reader)
    assert not reader.conflicts_with(other)
    assert not other.conflicts_with(writer)


def test_a_computation_inside_another_one_of_its_thread_is_not_refused():
    with registry.lock:
        outer = registry.start_computation([-1], [-1], {})
        inner = registry.start_computation([-1], [-1], {})
    assert outer is not None
    assert inner is not None
    refused: list[bool] = []

    def start() -> None:
        with registry.lock:
            refused.append(registry.start_computation([-1], [-1], {}) is None)
            registry.wait_if_refused()

    thread = threading.Thread(target=start)
    thread.start()
    while thread.is_alive() and not registry.count_waiting():
        thread.join(0.001)
    for computation in (inner, outer):
        registry.end_computation(computation)
    thread.join()
    assert refused == [True]


def test_a_nested_computation_is_not_refused_while_other_threads_compute():
    elsewhere: list[registry.Computation | None] = []

    def start() -> None:
        with registry.lock:
            elsewhere.append(registry.start_computation([-2], [-2], {}))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with registry.lock:
        outer = registry.start_computation([-1], [-1], {})
        inner = registry.start_computation([-1, -2], [-1], {})
    running = [c for c in (*elsewhere, outer, inner) if c is not None]
    for computation in running:
        registry.end_computation(computation)
    assert len(running) == 3


def test_a_thread_waits_only_if_its_last_computation_was_refused(monkeypatch):
    waited: list[int] = []
    monkeypatch.setattr(registry, "_wait", waited.append)

    def start() -> None:
        with registry.lock:
            assert registry.start_computation([-1], [-1], {}) is None
            computation = registry.start_computation([-2], [-2], {})
            registry.wait_if_refused()
        assert computation is not None
        registry.end_computation(computation)

    with registry.lock:
        running = registry.start_computation([-1], [-1], {})
    assert running is not None
    run_in_threads(start)
    registry.end_computation(running)
    assert waited == []


def test_a_read_in_nested_captures_is_recorded_in_the_outermost_if_the_tensor_is_older():
    outer, inner = Capture("f"), Capture("g")
    tensors = [Tensor([1.0])]
    for capture in (outer, inner):
        with registry.lock:
            registry.start_capture(capture)
        tensors.append(Tensor([1.0]))
    try:
        for tensor in tensors:
            registry.record_read_of(tensor.content)
    finally:
        for _ in (inner, outer):
            registry.end_capture()
    assert list(outer.reads) == [id(tensors[0].content)]
    assert inner.reads == {}


def test_tensors_on_placeholders_are_not_live_after_a_capture():
    capture = Capture("f")
    with registry.lock:
        registry.start_capture(capture)
    try:
        x = Tensor([1.0])
        dependent, independent = x + 1, x + 2
        capture.drop_dependents(lambda node: node is dependent.uop)
    finally:
        registry.end_capture()
    live = {id(tensor) for tensor in registry.iter_live()}
    assert id(independent.content) in live
    assert id(dependent.content) not in live


def test_the_base_of_a_tensor_is_its_whole_buffer():
    node = make_node()
    assert memory_nodes.find_base(node) is node
    assert memory_nodes.find_base(Tensor.from_uop(node).reshape(1, 2).uop) is node
    assert memory_nodes.find_base(Tensor.from_uop(node)[:1].uop) is None
    assert memory_nodes.find_base(Tensor.from_uop(node).flip().uop) is None
    assert not memory_nodes.is_buffer_identity(UOp.const(float32, 1.0))


def test_realize_visits_no_computed_tensor(monkeypatch):
    looked: list[Cell] = []

    class Watched(Cell):
        __slots__ = ()

        @property
        def has_memory(self):
            looked.append(self)
            return super().has_memory

    monkeypatch.setattr(base, "Cell", Watched)
    weights = [Tensor([float(n)]).realize() for n in range(5)]
    monkeypatch.undo()
    x = Tensor([1.0, 2.0]).realize()
    (x + 1).realize()
    looked.clear()
    y, z = x * 2, x * 2 + 1
    y.realize()
    assert looked == []
    assert z.uop.src[0] is y.uop

    weights[0].assign(weights[0] + 1)
    user = weights[0] * 3
    weights[0].realize()
    assert user.tolist() == [3.0]
    assert len({node for node in user.uop.toposort() if node.op is Op.ADD}) == 0
