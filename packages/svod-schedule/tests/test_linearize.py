"""Where each node of a kernel stands: loops nest, and nothing is computed in a loop that it does
not depend on.
"""

from __future__ import annotations

import pytest

from svod_ir import Op, UOp
from svod_ir.testing import assert_same, parse_nodes
from svod_schedule.errors import LinearizeError
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, compile_kernel

NODES = """
    %out = PARAM f32 [0, 64]
    %a = PARAM f32 [1, 64]
    %other = PARAM f32 [2, 64]
    %b = PARAM f32 [3, 64]
    %rows = RANGE index 4 [0, LOOP]
    %columns = RANGE index 8 [1, LOOP]
"""


def read(text: str) -> dict[str, UOp]:
    return parse_nodes(NODES + text)


def skeleton(nodes: tuple[UOp, ...]) -> str:
    """The loops and what is done in them:

    `0(1(S))` for a STORE in loop 1 in loop 0, L for a LOAD.
    """
    parts: list[str] = []
    for node in nodes:
        if node.op is Op.RANGE:
            parts.append(f"{node.arg[0]}(")
        elif node.op is Op.END:
            parts.append(")")
        elif node.op in (Op.STORE, Op.LOAD):
            parts.append(node.op.name[0])
    return "".join(parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            """
            %store = STORE %out[%rows * 8 + %columns], load(%a[%rows * 8 + %columns])
            %end = END %store, %rows, %columns
            %sink = SINK %end
            """,
            "0(1(LS))",
            id="an end of several ranges is a nest",
        ),
        pytest.param(
            """
            %store = STORE %out[%rows], 1.0
            %end = END %store, %rows, %columns
            %sink = SINK %end
            """,
            "0(1(S))",
            id=(
                "a store that does not depend on a loop is done as often as it runs, which may be"
                " never"
            ),
        ),
        pytest.param(
            """
            %store = STORE %out[%columns], 1.0
            %inner = END %store, %columns
            %end = END %inner, %rows
            %sink = SINK %end
            """,
            "0(1(S))",
            id="so is a loop inside that does not depend on the one around it",
        ),
        pytest.param(
            """
            %x = RANGE index 2 [2, LOOP]
            %y = RANGE index 2 [3, LOOP]
            %store = STORE %out[((%rows * 8 + %columns) * 2 + %x) * 2 + %y], load(%a[0])
            %end = END %store, %rows, %columns, %x, %y
            %sink = SINK %end
            """,
            "L0(1(2(3(S))))",
            id="what no loop changes is computed before all of them",
        ),
        pytest.param(
            """
            %store1 = STORE %out[%rows], load(%a[%rows])
            %store2 = STORE %other[%columns], load(%b[%columns])
            %end1 = END %store1, %rows
            %end2 = END %store2, %columns
            %sink = SINK %end1, %end2
            """,
            "0(LS)1(LS)",
            id="independent loops stand one after the other",
        ),
        pytest.param(
            """
            %fill = STORE %out[%rows], load(%a[%rows])
            %filled = END %fill, %rows
            %copy = STORE %other[%columns], load(after(%out, %filled)[%columns])
            %copied = END %copy, %columns
            %sink = SINK %copied
            """,
            "0(LS)1(LS)",
            id="a loop that another waits for comes first",
        ),
        pytest.param(
            """
            %k = RANGE index 8 [2, REDUCE]
            %register = DEFINE_REG f32 [0, 1]
            %start = STORE after(%register, %rows)[0], 0.0
            %inside = after(%register, %start, %k)[0]
            %add = STORE %inside, load(%inside) + load(%a[%rows * 8 + %k])
            %added = END %add, %k
            %store = STORE %out[%rows], load(after(%register, %added)[0])
            %end = END %store, %rows
            %sink = SINK %end
            """,
            "0(S2(LLS)LS)",
            id="a loop inside another stands where its end is needed",
        ),
    ],
)
def test_loops_nest(text: str, expected: str) -> None:
    linear = linearize(read(text)["sink"])
    assert skeleton(linear) == expected
    assert all(len(node.src) == 2 for node in linear if node.op is Op.END)


def test_the_innermost_range_ends_first() -> None:
    nodes = read("""
        %store = STORE %out[%rows * 8 + %columns], load(%a[%rows])
        %end = END %store, %rows, %columns
    """)
    ends = [node for node in linearize(UOp.sink(nodes["end"])) if node.op is Op.END]
    assert [end.src[1] for end in ends] == [nodes["columns"], nodes["rows"]]


def test_operands_stand_before_their_readers() -> None:
    text = """
        %store = STORE %out[%rows * 8 + %columns], load(%a[%rows * 8 + %columns]) + load(%other[%rows]) * 3
        %end = END %store, %rows, %columns
        %sink = SINK %end
    """
    nodes = linearize(read(text)["sink"])
    place = {n: i for i, n in enumerate(nodes)}
    for node in nodes:
        assert all(place[s] < place[node] for s in node.src if node.op is not Op.END)
    assert len(place) == len(nodes)


def test_structural_nodes_are_not_listed() -> None:
    text = """
        %store = STORE %out[%rows], load(%a[%rows])
        %nothing = NOOP
        %group = GROUP %store, %nothing
        %end = END %group, %rows
        %sink = SINK %end
    """
    nodes = linearize(read(text)["sink"])
    assert not [n for n in nodes if n.op in (Op.SINK, Op.GROUP, Op.NOOP)]


@pytest.mark.parametrize(
    ("value", "rest", "order"),
    [
        ("load(%a[0]) * 2", "", ("value", "rows", "columns")),
        ("load(%a[%rows]) * 2", " + load(%b[%columns])", ("rows", "value", "columns")),
        ("load(%a[%columns]) * 2", "", ("rows", "columns", "value")),
    ],
    ids=["by no loop", "by the outer loop", "by the inner loop"],
)
def test_a_value_is_computed_in_the_innermost_loop_that_changes_it(
    value: str, rest: str, order: tuple[str, ...]
) -> None:
    nodes = read(f"""
        %value = {value}
        %store = STORE %out[%rows * 8 + %columns], %value{rest}
        %end = END %store, %rows, %columns
    """)
    linear = linearize(UOp.sink(nodes["end"]))
    assert sorted(order, key=lambda name: linear.index(nodes[name])) == list(order)


SIBLINGS = """
    %store1 = STORE %out[%rows], load(%a[%rows])
    %store2 = STORE %other[%columns], load(%b[%columns])
    %end1 = END %store1, %rows
    %end2 = END %store2, %columns
"""


@pytest.mark.parametrize(
    ("text", "problem", "culprit"),
    [
        (
            SIBLINGS + "%again = END %store2, %columns, %rows\n%sink = SINK %end1, %again",
            "two ENDs close one range",
            "rows",
        ),
        (
            "%place = %out[%rows]\n%store = STORE %place, 1.0\n%sink = SINK %store",
            "no END closes RANGE",
            "place",
        ),
        (
            SIBLINGS
            + "%both = STORE %out[%rows], load(%b[%columns])\n%sink = SINK %end1, %end2, %both",
            "a node depends on two loops of which neither encloses the other",
            "both",
        ),
    ],
)
def test_loops_that_do_not_nest_are_refused_with_the_problem_and_the_node(
    text: str, problem: str, culprit: str
) -> None:
    nodes = read(text)
    with pytest.raises(LinearizeError) as error:
        linearize(nodes["sink"])
    assert error.value.problem.startswith(problem) and str(error.value).startswith(problem)
    assert error.value.node is nodes[culprit]


def test_a_body_of_100000_nodes_needs_no_deep_stack() -> None:
    nodes = read("%place = %out[%rows]\n%value = load(%a[%rows])")
    value = nodes["value"]
    for _ in range(50_000):
        value = -value.alu(Op.SQRT)
    linear = linearize(UOp.sink(nodes["place"].store(value).end(nodes["rows"])))
    assert len(linear) > 100_000
    assert linear[-1].op is Op.END


def test_the_order_is_the_same_every_time() -> None:
    text = (
        "%store = STORE %out[%rows], load(%a[%rows])\n%end = END %store, %rows\n%sink = SINK %end"
    )
    once = linearize(read(text)["sink"])
    names = ["PARAM", "CONST", "PARAM", "RANGE", "INDEX", "INDEX", "LOAD", "STORE", "END"]
    assert [n.op.name for n in once] == names
    assert linearize(read(text)["sink"]) == once


def test_each_kernel_nests_its_loops_and_means_what_it_did(kernel: UOp) -> None:
    _, nodes = compile_kernel(kernel, Context())
    open_loops: list[UOp] = []
    for node in nodes:
        if node.op is Op.RANGE:
            open_loops.append(node)
        elif node.op is Op.END:
            assert open_loops.pop() is node.src[1]
        else:
            assert node.ranges <= set(open_loops)
    assert not open_loops
    assert_same(kernel, nodes)
