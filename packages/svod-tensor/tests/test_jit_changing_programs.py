"""Random functions that read objects, containers, globals and closures, captured and plain, on two
equal worlds that change alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies

from svod_ir.testing import count_examples
from svod_tensor import Tensor, jit, observe_attributes
from svod_tensor.capture import dependencies
from svod_tensor.capture.outside_values import Edge

KEYS = ("p", "q")


@dataclasses.dataclass
class Config:
    rate: Any
    next: Any = None


class Slots:
    __slots__ = ("rate",)

    def __init__(self, rate: Any) -> None:
        self.rate = rate


class Node:
    shared = 1

    def __init__(self, random: Random, depth: int) -> None:
        self.number = random.randint(0, 9)
        self.weight = make_tensor(random)
        self.numbers = [random.randint(0, 9) for _ in range(3)]
        self.table: dict[str, Any] = {key: random.randint(0, 9) for key in KEYS}
        self.config = Config(random.randint(0, 9), Config(random.randint(0, 9)))
        self.slots = Slots(random.randint(0, 9))
        self.nodes = [make_node(random, depth - 1) for _ in range(2)] if depth else []
        self.tensors = {key: make_tensor(random) for key in KEYS}
        self.count = 0

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.number

    def add(self, x: Tensor) -> Tensor:
        return x + self.weight + self.shared

    @property
    def double(self) -> Any:
        return self.number * 2


@observe_attributes
class Layer(Node):
    """A node whose attribute changes are counted."""


def make_node(random: Random, depth: int) -> Node:
    return random.choice((Node, Layer))(random, depth)


def make_tensor(random: Random) -> Tensor:
    return Tensor([float(random.randint(0, 9)), 1.0]).realize()


def draw_node(random: Random) -> str:
    """A path to a node."""
    root = random.choice(("root", "world['node']", "GLOBAL", "items[0]", "pick()"))
    return root + random.choice(("", ".nodes[0]", ".nodes[-1]", ".nodes[index]"))


def draw_value(random: Random) -> str:
    """An expression for a number or a tensor behind a path."""
    node = draw_node(random)
    return node + random.choice(
        (
            ".number",
            ".weight",
            ".numbers[1]",
            ".numbers[index]",
            ".table['p']",
            ".table[key]",
            ".config.rate",
            ".config.next.rate",
            ".slots.rate",
            ".tensors['q']",
            ".tensors[key]",
            ".double",
            ".shared",
            ".table.get('q')",
            ".__dict__['number']",
        )
    )


def draw_statement(random: Random) -> str:
    node, value = draw_node(random), draw_value(random)
    return random.choice(
        (
            f"x = x + {value}",
            f"x = {node}(x)",
            f"x = {node}.add(x)",
            f"x = x + sum({node}.numbers)",
            f"for one in {node}.nodes: x = x + one.number",
            f"for one in {node}.nodes: x = one(x)",
            f"x = sum([one.weight for one in {node}.nodes], x)",
            f"local = {node}.config; x = x + local.rate",
            f"local = {node}; x = x + local.table[key] + local.weight",
            f"x = x + getattr({node}, 'num' + 'ber')",
            f"x = x + vars({node})['number']",
            f"x = helper({node}, x)",
            f"x = read(lambda: {value}, x)",
            f"x = x + sum({node}.table.values())",
            f"for value in {node}.tensors.values(): x = x + value",
            f"{node}.weight.assign({node}.weight + 1)",
            f"{node}.tensors['p'][:1] = 3.0",
            f"{node}.count += 1",
            f"{node}.count += 1; x = x + {node}.count",
            "x = x + NUMBER",
            "x = x + helper_of_global(x)",
            "x = x + number",
            f"x = x + (1 if isinstance({node}.table['p'], float) else 2)",
            f"x = x + len({node}.numbers)",
        )
    )


def draw_change(random: Random) -> str:
    """A statement of the program between two calls."""
    node, new = draw_node(random), random.randint(10, 99)
    return random.choice(
        (
            f"{node}.number = {new}",
            f"{node}.number = float({node}.number)",
            f"{node}.weight = Tensor([{new}.0, 2.0])",
            f"{node}.weight.assign(Tensor([{new}.0, 3.0]))",
            f"{node}.weight[1:] = {new}.0",
            f"{node}.numbers[1] = {new}",
            f"{node}.numbers.append({new})",
            f"{node}.numbers = [{new}, 1, 2]",
            f"{node}.table['p'] = {new}",
            f"{node}.table['q'] = Tensor([{new}.0, 4.0])",
            f"{node}.table = dict({node}.table, p={new})",
            f"{node}.config.rate = {new}",
            f"{node}.config = Config({new}, {node}.config.next)",
            f"{node}.config.next.rate = {new}",
            f"{node}.slots.rate = {new}",
            f"{node}.slots = Slots({new})",
            f"{node}.tensors['q'] = Tensor([{new}.0, 5.0])",
            f"{node}.shared = {new}",
            (
                f"if {node}.nodes: {node}.nodes[0] = copy({node}.nodes[0]); {node}.nodes[0].number"
                f" = {new}"
            ),
            f"if {node}.nodes: {node}.nodes.reverse()",
            f"items[0] = copy({node}); items[0].number = {new}",
            f"world['node'] = {node}",
            "root, GLOBAL = GLOBAL, root",
            f"NUMBER = {new}",
            f"number = {new}",
            f"array[0] = {new}",
            "index = 1 - index",
            "key = 'q' if key == 'p' else 'p'",
            f"{node}.count = {new}",
        )
    )


def build(random: Random) -> str:
    """The source of a module with a function and a way to change what it reads."""
    body = [draw_statement(random) for _ in range(random.randint(1, 4))]
    if random.random() < 0.2:
        # Arrays are copied when a tensor is made of them.
        body.append("x = x + held")
    text = "\n        ".join(body)
    return f"""
def make_function(root, items, index, key, number, held, array):
    def function(x):
        {text}
        return x
    def change(text):
        nonlocal root, items, index, key, number
        names = dict(root=root, items=items, index=index, key=key, number=number, array=array)
        exec(text, globals(), names)
        globals().update({{name: names[name] for name in ("GLOBAL", "NUMBER") if name in names}})
        root, items, index, key, number = (names[name] for name in ("root", "items", "index", "key", "number"))
    return function, change

def pick():
    return world["node"]

def helper(node, x):
    return x + node.number + node.config.rate

def helper_of_global(x):
    return GLOBAL.slots.rate + NUMBER * 2

def read(function, x):
    return x + function()
"""


def make_world(seed: int, source: str) -> tuple[Callable[[Tensor], Tensor], Callable[[str], None]]:
    random = Random(seed)
    nodes = [make_node(random, 1) for _ in range(4)]
    array = np.array([1.0, 2.0], np.float32)
    names: dict[str, Any] = {
        "GLOBAL": nodes[0],
        "NUMBER": 1,
        "world": {"node": nodes[1]},
        "Tensor": Tensor,
        "Config": Config,
        "Slots": Slots,
        "copy": _copy,
        "__name__": "drawn",
    }
    exec(compile(source, "drawn", "exec"), names)
    return names["make_function"](nodes[2], [nodes[3]], 0, "p", 1, Tensor(array), array)


def _copy(node: Node) -> Node:
    new = object.__new__(type(node))
    vars(new).update(vars(node))
    return new


def compare(seed: int) -> None:
    random = Random(seed)
    source = build(random)
    (function, change_plain), (other, change_captured) = (
        make_world(seed, source),
        make_world(seed, source),
    )
    captured, done = jit(other), list[str]()
    for _ in range(random.randint(2, 6)):
        x = Tensor([float(random.randint(0, 3)), 0.0])
        try:
            expected = function(x).tolist()
        except (IndexError, TypeError) as error:
            # A change has taken away what the function reads.
            with pytest.raises(type(error)):
                captured(x)
            return
        result = captured(x).tolist()
        assert result == expected, f"seed {seed}, after {done}:\n{source}"
        change = draw_change(random)
        done.append(change)
        try:
            change_plain(change)
        except IndexError:
            return
        change_captured(change)


@pytest.mark.filterwarnings("ignore:.*was captured 32 times")
@given(seed=strategies.integers(0, 2**40))
@example(seed=3018)  # an item of an object's `__dict__`
@settings(max_examples=count_examples(400), deadline=None)
def test_a_captured_function_agrees_with_the_plain_function_after_random_changes(
    seed: int,
) -> None:
    compare(seed)


@pytest.mark.parametrize("fault", ["elements", "observed", "attribute", "global"])
def test_a_missing_guard_is_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = dependencies.Guards.__init__

    def is_kept(edge: Edge) -> bool:
        return edge.kind != fault and not (fault == "observed" and isinstance(edge.owner, Layer))

    def forget(self: dependencies.Guards, edges: Iterable[Edge], reads: Any) -> None:
        original(self, filter(is_kept, edges), reads)

    monkeypatch.setattr(dependencies.Guards, "__init__", forget)
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(400):
            compare(seed)
