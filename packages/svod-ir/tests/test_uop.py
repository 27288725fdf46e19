"""Nodes: identity, interning, derived properties, and deep graphs."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from svod_dtype import bool_, float32, float64, index, int8, int32, void
from svod_ir import AxisType, GraphError, Op, OperandError, UOp, parse_graph, print_graph
from svod_ir.args import BufferArg, ParamArg
from svod_ir.ops import TABLE
from svod_ir.testing import run_in_threads
from svod_ir.uop import count_interned, keep_order

DEPTH = 100_000


def _chain(depth: int = DEPTH) -> UOp:
    x = UOp.variable("x", 0, 10, int32)
    node = x
    for _ in range(depth):
        node = UOp(Op.XOR, int32, (node, x))
    return node


def test_equal_construction_gives_the_identical_node() -> None:
    x = UOp.variable("x", 0, 9)
    assert UOp(Op.ADD, index, (x, x)) is UOp(Op.ADD, index, (x, x))
    assert UOp.const(index, 3) is UOp.const(index, 3)
    assert UOp(Op.ADD, index, (x, x)) is not UOp(Op.MUL, index, (x, x))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (UOp.const(float32, 0.0), UOp.const(float32, -0.0)),
        (UOp.const(int32, 1), UOp.const(bool_, True)),
        (UOp.const(int32, 1), UOp.const(float32, 1.0)),
        (UOp.const(int32, 1), UOp.const(int8, 1)),
        (UOp(Op.CONST, int32, (), 1), UOp(Op.CONST, int32, (), True)),
        (UOp.const(float64, math.nan), UOp.const(float64, -math.nan)),
        (UOp.variable("x", 0, 1), UOp.variable("x", 0, 2)),
    ],
    ids=[
        "signed zero",
        "1 and True",
        "1 and 1.0",
        "dtypes",
        "1 and True of one dtype",
        "signed nan",
        "bounds",
    ],
)
def test_equal_python_values_may_be_distinct_nodes(left: UOp, right: UOp) -> None:
    assert left is not right


def test_equal_nans_are_one_node() -> None:
    assert UOp.const(float32, math.nan) is UOp.const(float32, math.nan)
    assert UOp.const(float32.vec(2), math.nan) is UOp(
        Op.VCONST, float32.vec(2), (), (math.nan, math.nan)
    )


def test_vector_constants_are_keyed_by_bits() -> None:
    plus = UOp(Op.VCONST, float32.vec(2), (), (0.0, 0.0))
    minus = UOp(Op.VCONST, float32.vec(2), (), (0.0, -0.0))
    assert plus is not minus
    assert struct.pack("d", minus.arg[1]) == struct.pack("d", -0.0)


def test_a_bare_tuple_becomes_an_arg_with_named_fields() -> None:
    bare = UOp(Op.RANGE, index, (UOp.const(index, 4),), (7531, AxisType.LOOP))
    assert (bare.arg.id, bare.arg.kind) == (7531, AxisType.LOOP)
    assert UOp.range(4, 7531, AxisType.LOOP) is bare
    assert UOp(Op.SHRINK, float32, (UOp(Op.PARAM, float32, (), (0, 8)),), (0, 3)).src[
        0
    ].arg == ParamArg(0, 8, None)
    with pytest.raises(TypeError, match="RangeArg"):
        UOp(Op.RANGE, index, (UOp.const(index, 4),), (7531, AxisType.LOOP, 2))


@pytest.mark.parametrize("op", [op for op, row in TABLE.items() if row.operands], ids=str)
def test_an_operand_has_the_name_of_the_table(op: Op) -> None:
    operands = tuple(UOp.const(int32, n) for n in range(4))
    node = UOp(op, float32, operands, "names")
    for position, name in enumerate(TABLE[op].operands.split()):
        if isinstance(getattr(UOp, name.rstrip("?*"), None), property) and name != "gate?":
            assert getattr(node, name.rstrip("?*")) == (
                operands[position:] if name.endswith("s*") else operands[position]
            )


def test_strip_goes_down_first_operands_to_another_op() -> None:
    x = UOp.variable("x", 0, 9)
    node = (-x + 1).cast(float32)
    assert node.strip({Op.CAST, Op.ADD}) is -x
    assert node.strip({Op.CAST, Op.ADD, Op.NEG}) is x
    assert node.strip({Op.NEG}) is node


def test_a_loop_gets_other_operands_and_keeps_its_count() -> None:
    count, first, second = (UOp.const(int32, n) for n in range(3))
    loop = UOp(Op.LOOP, void, (count, first), "names").with_operands((second, first))
    assert (loop.count, loop.operands) == (count, (second, first))


def test_a_comparison_tells_the_dtype_of_its_operands() -> None:
    assert UOp.variable("x", 0, 9).cast(int8).alu(Op.LT, 3).operand_dtype is int8


def test_constants_are_wrapped_or_rounded_to_their_dtype() -> None:
    assert UOp.const(int8, 300).arg == 44
    assert UOp.const(float32, 0.1).arg == struct.unpack("f", struct.pack("f", 0.1))[0]
    assert UOp.const(float32, 3).arg == 3.0
    assert isinstance(UOp.const(float32, 3).arg, float)


def test_copies_and_pickles_are_the_same_node() -> None:
    x = UOp.range(4, 0, AxisType.LOOP) * 3 + 1
    assert pickle.loads(pickle.dumps(x)) is x
    assert copy.deepcopy(x) is x
    assert copy.copy(x) is x


def test_a_node_that_nothing_refers_to_is_freed() -> None:
    gc.collect()
    before = count_interned()
    x = UOp.variable("freed", 0, 9)
    y = x * 7
    assert count_interned() > before
    del x, y
    gc.collect()
    assert count_interned() == before


def test_threads_that_build_the_same_graph_get_the_same_nodes() -> None:
    actual: list[list[UOp]] = []

    def build() -> None:
        x = UOp.variable("shared", 0, 9)
        nodes = [x]
        for i in range(500):
            nodes.append(UOp(Op.ADD, index, (nodes[-1], UOp.const(index, i))))
        actual.append(nodes)

    run_in_threads(*[build] * 8, switching_often=True)
    assert len(actual) == 8
    for nodes in actual[1:]:
        assert all(a is b for a, b in zip(nodes, actual[0], strict=True))


class _Interrupting:
    """An arg that lets something happen in the middle of each look-up of its node, as another
    thread would.
    """

    def __init__(self) -> None:
        self.interrupt: Callable[[], None] | None = None

    def __hash__(self) -> int:
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return 1


def test_a_node_built_while_its_equal_dies_is_interned() -> None:
    arg = _Interrupting()
    built: list[UOp] = []
    dying = UOp(Op.NOOP, void, (), arg)
    arg.interrupt = lambda: built.append(UOp(Op.NOOP, void, (), arg))
    del dying
    assert len(built) == 1
    assert UOp(Op.NOOP, void, (), arg) is built[0]
    gc.collect()
    before = count_interned()
    built.clear()
    assert count_interned() == before - 1


def test_a_node_built_concurrently_is_the_same_node() -> None:
    arg = _Interrupting()
    built: list[UOp] = []
    arg.interrupt = lambda: built.append(UOp(Op.NOOP, void, (), arg))
    assert UOp(Op.NOOP, void, (), arg) is built[0]


def test_threads_that_build_and_drop_nodes_share_them() -> None:
    twins: list[UOp] = []

    def build() -> None:
        for i in range(4000):
            x = UOp.variable("dropped", 0, i % 3)
            y = UOp(Op.NEG, index, (x,))
            if UOp.variable("dropped", 0, i % 3) is not x or UOp(Op.NEG, index, (x,)) is not y:
                twins.append(y)

    gc.collect()
    before = count_interned()
    run_in_threads(*[build] * 4, switching_often=True)
    assert twins == []
    assert count_interned() == before


def test_a_changed_copy_that_changes_nothing_is_the_node() -> None:
    x = UOp.variable("x", 0, 9)
    y = x + x
    assert y.with_src((x, x)) is y
    assert y.with_dtype(index) is y
    assert y.with_arg(None) is y


def test_substitute_replaces_once_and_keeps_the_rest() -> None:
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
    kept = y * 5
    node = (x * 2).alu(Op.ADD, kept)
    # The value contains the key, and is not substituted again.
    replaced = node.substitute({x: x + 1})
    assert replaced is UOp(Op.ADD, index, (UOp(Op.MUL, index, (x + 1, UOp.const(index, 2))), kept))
    assert node.substitute({}) is node
    assert node.substitute({UOp.variable("z", 0, 1): x}) is node


def test_toposort_lists_operands_first_and_does_not_enter_stop() -> None:
    x = UOp.variable("x", 0, 9)
    y = x * 2
    z = UOp(Op.ADD, index, (y, x))
    order = z.toposort()
    assert order.index(x) < order.index(y) < order.index(z)
    assert len(order) == len(set(order)) == 4
    assert z.toposort(stop={y}) == [y, x, z]
    assert next(z.iter_toposort()) is order[0]


def test_toposort_can_leave_out_the_bodies_of_calls() -> None:
    x = UOp.variable("x", 0, 9)
    body = UOp.sink(x * 2)
    call = UOp(Op.CALL, void, (body, x + 1))
    assert call.toposort(enter_calls=False) == [*(x + 1).toposort(), call]
    assert body in call.toposort()


def make_long_graph(start: int) -> UOp:
    """Long enough for its order to be kept."""
    node = UOp.variable("x", 0, 10)
    for i in range(200):
        node = node * 3 + (start + i)
    return node


def test_a_kept_order_is_that_of_the_same_graph() -> None:
    first, second = make_long_graph(1000), make_long_graph(2000)
    expected = {graph: graph.toposort() for graph in (first, second)}
    with keep_order():
        for graph in (first, first, second, second, first, first.src[0], first):
            assert graph.toposort() == list(graph.iter_toposort())
        # Each caller gets its own copy of the list.
        first.toposort().clear()
        first.toposort().clear()
        assert first.toposort() == expected[first]
        # Nodes in `stop` are not entered.
        assert first.toposort(stop={first.src[0]}) == [
            *first.src[0].toposort(stop={first.src[0]}),
            *first.src[1:],
            first,
        ]
        with keep_order():
            assert second.toposort() == second.toposort() == expected[second]
        assert first.toposort() == expected[first]


def test_a_graph_is_kept_until_its_order_is_not() -> None:
    before = count_interned()
    with keep_order():
        make_long_graph(3000).toposort()
        with keep_order():
            make_long_graph(4000).toposort()
            assert count_interned() - before > 1000
        assert 400 < count_interned() - before < 1000
    assert count_interned() == before
    with pytest.raises(ValueError, match="stop"), keep_order():
        make_long_graph(5000).toposort()
        raise ValueError("stop")
    gc.collect()
    assert count_interned() == before
    # No order is cached outside of `keep_order`.
    make_long_graph(6000).toposort()
    assert count_interned() == before


def test_each_thread_keeps_an_order_of_its_own() -> None:
    graphs = [make_long_graph(10_000 * i) for i in range(1, 5)]
    expected = [graph.toposort() for graph in graphs]
    before = count_interned()

    def run(number: int) -> None:
        with keep_order():
            for i in range(40):
                chosen = (number + i // 2) % len(graphs)
                assert graphs[chosen].toposort() == expected[chosen]
                make_long_graph(100_000 * (number + 1)).toposort()

    run_in_threads(*(partial(run, i) for i in range(4)))
    assert count_interned() == before


def test_effects_have_no_shape() -> None:
    with pytest.raises(GraphError, match="SINK has no shape"):
        _ = UOp.sink().shape
    assert UOp.sink().find_shape() is None


def test_ranges_in_scope_end_where_they_are_closed() -> None:
    i, j = UOp.range(4, 0, AxisType.LOOP), UOp.range(8, 1, AxisType.REDUCE)
    memory = UOp(Op.PARAM, float32, (), ParamArg(0, 32))
    read = memory.index(i * 8 + j)
    assert read.ranges == {i, j}
    total = UOp(Op.REDUCE, float32, (read, j), Op.ADD)
    assert total.ranges == {i}
    store = UOp(Op.PARAM, float32, (), ParamArg(1, 4)).index(i).store(total)
    assert store.ranges == {i}
    assert store.end(i).ranges == frozenset()


def test_the_device_is_that_of_the_first_buffer() -> None:
    buffer = UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU"))
    assert (buffer + 1.0).device == "CPU"
    assert UOp(Op.COPY, float32, (buffer,), "CUDA:1").device == "CUDA:1"
    assert UOp.const(float32, 1).device is None


def test_a_gate_is_the_last_operand_of_bool() -> None:
    memory = UOp(Op.PARAM, float32, (), ParamArg(0, 32))
    flags = UOp(Op.PARAM, bool_, (), ParamArg(1, 32))
    i = UOp.range(4, 0, AxisType.LOOP)
    gate = i < 3
    assert memory.index(i, gate=gate).gate is gate
    assert memory.index(i).gate is None
    assert flags.index().gate is None


def test_a_chain_of_100000_nodes_builds_prints_hashes_and_dies_without_recursion() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        gc.collect()
        before = count_interned()
        chain = _chain()
        assert chain.shape == ()
        assert chain.ranges == frozenset()
        assert len(chain.content_hash) == 32
        assert len(chain.toposort()) == DEPTH + 1
        assert print_graph(chain, limit=2).splitlines()[0] == '%0 = DEFINE_VAR i32 ["x", 0, 10]'
        part = chain.toposort()[DEPTH // 10]
        assert parse_graph(print_graph(part)) is part
        x = UOp.variable("x", 0, 10, int32)
        other = chain.substitute({x: UOp.variable("y", 0, 10, int32)})
        assert other is not chain
        assert other.substitute({UOp.variable("y", 0, 10, int32): x}) is chain
        del chain, other, part, x
        gc.collect()
        assert count_interned() == before
    finally:
        sys.setrecursionlimit(limit)


def test_bounds_of_a_deep_chain_need_no_recursion() -> None:
    node = UOp.variable("x", 0, 10)
    for i in range(5000):
        node = UOp(Op.ADD if i % 2 else Op.SUB, index, (node, UOp.const(index, 1)))
    assert node.bounds == (0, 10)


_HASH_PROGRAM = """
import math
from svod_dtype import float32, index, int32, bool_, void, AddressSpace
from svod_ir import *
memory = UOp(Op.PARAM, float32, (), ParamArg(0, 64))
i, j = UOp.range(8, 0, AxisType.LOOP), UOp.range(8, 1, AxisType.REDUCE)
value = UOp(Op.REDUCE, float32, (memory.index(i * 8 + j), j), Op.ADD) + math.inf
store = UOp(Op.PARAM, float32, (), ParamArg(1, 8)).index(i, gate=i < 7).store(value * -0.0)
info = KernelInfo("k", (Opt(OptOp.UPCAST, 0, 4), Opt(OptOp.NOLOCALS)))
buffer = UOp(Op.BUFFERIZE, float32, (value, i), BufferizeArg("CPU", AddressSpace.LOCAL))
extra = UOp(Op.CUSTOM, void, (store,), "text {0}")
print(UOp.sink(store.end(i), buffer, extra, UOp(Op.PROGRAM_BINARY, void, (), b"\\x00\\xff"), arg=info).content_hash)
"""


def test_the_content_hash_is_the_same_in_every_process() -> None:
    actual = {_run_with_seed(seed) for seed in ("0", "1", "12345")}
    assert len(actual) == 1
    assert len(actual.pop()) == 32


def _run_with_seed(seed: str) -> str:
    env = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, "-c", _HASH_PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_different_graphs_have_different_hashes() -> None:
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
    nodes = [
        x,
        y,
        x + y,
        y + x,
        x * y,
        x + 1,
        x + 2,
        UOp.const(float32, 0.0),
        UOp.const(float32, -0.0),
        UOp.sink(x),
        UOp.sink(y),
    ]
    assert len({n.content_hash for n in nodes}) == len(nodes)


def test_an_arg_without_a_text_form_cannot_be_hashed() -> None:
    node = UOp(Op.CUSTOM, void, (), frozenset({"a", "b"}))
    with pytest.raises(GraphError, match="frozenset"):
        _ = node.content_hash


def test_attached_data_is_not_part_of_a_node() -> None:
    node = UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU"))
    assert node.attached is None
    digest, text = node.content_hash, repr(node)
    node.attached = [1]
    assert UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU")) is node
    assert (node.content_hash, repr(node)) == (digest, text)


def test_a_number_that_the_dtype_would_truncate_is_an_error() -> None:
    v = UOp.variable("v", 0, 9)
    for mistake in (
        lambda: v * 1.5,
        lambda: 1.0 - v,
        lambda: v > 0.5,
        lambda: v.eq(0).where(v, 2.0),
    ):
        with pytest.raises(
            OperandError, match=r"arithmetic on index: expected an int or a bool, got \d\.\d"
        ):
            mistake()
    assert (v + True) is v + 1


def test_lanes_that_are_equal_numbers_of_other_types_are_other_nodes() -> None:
    ints = UOp(Op.VCONST, int32.vec(2), (), (1, 2))
    assert UOp(Op.VCONST, int32.vec(2), (), (1.0, 2.0)) is not ints
    assert UOp(Op.VCONST, int32.vec(2), (), (True, 2)) is not ints
    assert UOp(Op.VCONST, int32.vec(2), (), (1, 2)) is ints
