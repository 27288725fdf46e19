"""Objects whose attributes are tensors and plain values, as arguments, results and carries."""

from __future__ import annotations

import dataclasses
import enum
import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

from svod_tensor import (
    Tensor,
    cond,
    fori_loop,
    grad,
    jit,
    register_pytree_node,
    scan,
    value_and_grad,
)
from svod_tensor._trees import flatten
from svod_tensor.errors import CaptureError, DonatedTensorError


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


class Plain:
    def __init__(
        self, low: Any, high: Any, mode: Mode = Mode.ADD, sizes: tuple[int, ...] = (1, 2)
    ) -> None:
        self.low, self.high, self.mode, self.sizes = low, high, mode, sizes

    def sum(self) -> Tensor:
        return self.low + self.high


@dataclasses.dataclass(frozen=True)
class Frozen:
    low: Tensor
    high: Tensor
    name: str = "frozen"


@dataclasses.dataclass(slots=True)
class Slotted:
    low: Tensor
    high: Tensor
    inner: Frozen | None = None


class ByHand:
    __slots__ = ("__weakref__", "high", "low")

    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.low, self.high = low, high


class Named(NamedTuple):
    low: Tensor
    high: Tensor


class Registered(list[Tensor]):
    @property
    def low(self) -> Tensor:
        return self[0]

    @property
    def high(self) -> Tensor:
        return self[1]


def _make_registered(low: Tensor, high: Tensor) -> Registered:
    return Registered([low, high])


register_pytree_node(
    Registered, lambda tree: (list(tree), "registered"), lambda _, children: Registered(children)
)

KINDS = {
    "a plain class": Plain,
    "a frozen dataclass": Frozen,
    "a dataclass with slots": Slotted,
    "a class with slots": ByHand,
    "a named tuple": Named,
    "a registered class": _make_registered,
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=list(KINDS))


def _make(make: Any, low: float, high: float) -> Any:
    return make(Tensor([low]), Tensor([high]))


@every_kind
def test_new_objects_of_one_structure_share_a_plan_and_are_not_kept(make: Any) -> None:
    captured = jit(lambda tree: tree.low - tree.high)
    for number in range(5):
        assert captured(_make(make, number, 1.0)).item() == number - 1
    assert captured.n_captures == 1
    if make not in (Named, Slotted):
        tree = _make(make, 1.0, 2.0)
        gone = weakref.ref(tree)
        captured(tree)
        del tree
        gc.collect()
        assert gone() is None


@every_kind
def test_objects_are_results(make: Any) -> None:
    captured = jit(lambda x: make(x + 1, x * 2))
    for number in (1.0, 2.0):
        result = captured(Tensor([number]))
        assert (result.low.item(), result.high.item()) == (number + 1, number * 2)
        assert type(result) is type(_make(make, 1.0, 1.0))


@every_kind
def test_objects_are_carries(make: Any) -> None:
    start = _make(make, 1.0, 2.0)
    end, _ = scan(lambda c, _: (make(c.high, c.low + c.high), None), start, length=5)
    numbers = [1.0, 2.0]
    for _ in range(5):
        numbers = [numbers[1], sum(numbers)]
    assert [end.low.item(), end.high.item()] == numbers
    end = fori_loop(0, 5, lambda _, c: make(c.high, c.low + c.high), start)
    assert [end.low.item(), end.high.item()] == numbers
    chosen = cond(Tensor(True), lambda c: make(c.high, c.low), lambda c: c, start)
    assert [chosen.low.item(), chosen.high.item()] == [2.0, 1.0]


@every_kind
def test_derivatives_have_the_structure_of_the_object(make: Any) -> None:
    value, gradient = value_and_grad(lambda tree: (tree.low * tree.high * tree.high).sum())(
        _make(make, 3.0, 5.0)
    )
    assert value.item() == 75.0
    assert type(gradient) is type(_make(make, 1.0, 1.0))
    assert (gradient.low.item(), gradient.high.item()) == (25.0, 30.0)


@every_kind
def test_writes_to_tensors_of_an_argument_are_visible_to_the_caller(make: Any) -> None:
    @jit
    def step(tree: Any) -> Tensor:
        tree.low.assign(tree.low + 1)
        tree.high[:1] = 7.0
        return tree.low * 2

    for number in (1.0, 2.0):
        tree = _make(make, number, 0.0)
        assert step(tree).item() == 2 * (number + 1)
        assert (tree.low.item(), tree.high.item()) == (number + 1, 7.0)
    assert step.n_captures == 1


@every_kind
def test_objects_are_donated(make: Any) -> None:
    step = jit(lambda tree: make(tree.low + 1, tree.high * 2), donate="tree")
    tree = _make(make, 1.0, 2.0)
    new = step(tree)
    assert (new.low.item(), new.high.item()) == (2.0, 4.0)
    with pytest.raises(DonatedTensorError):
        tree.low.item()


def test_plain_attributes_are_a_part_of_the_signature() -> None:
    @jit
    def run(tree: Plain) -> Tensor:
        result = tree.low + tree.high if tree.mode is Mode.ADD else tree.low * tree.high
        return result * len(tree.sizes)

    x, y = Tensor([3.0]), Tensor([5.0])
    assert run(Plain(x, y)).item() == 16
    assert run(Plain(x, y, Mode.MULTIPLY)).item() == 30
    assert run(Plain(x, y, sizes=(1,))).item() == 8
    assert run(Plain(y, x)).item() == 16
    assert run.n_captures == 3
    assert "args[0].low: float32 (1,) on CPU" in run.explain()
    tree = Plain(x, y)
    tree.low = Tensor([4.0])
    assert run(tree).item() == 18
    tree.low = 4.0
    assert run(tree).item() == 18
    assert run.n_captures == 4


def test_arrays_and_nested_objects_and_containers_are_items() -> None:
    captured = jit(lambda tree: tree.low["a"].sum() + tree.high[0].low + tree.high[0].high)
    for number in (1.0, 2.0):
        tree = Plain({"a": np.array([number, number])}, [Plain(Tensor(number), 1.0)])
        assert captured(tree).item() == 3 * number + 1
    assert captured.n_captures == 1


def test_methods_of_an_argument_read_globals() -> None:
    captured = jit(lambda tree: tree.sum())
    assert [captured(Plain(Tensor([number]), 1.0)).item() for number in (1.0, 2.0)] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda tree: setattr(tree, "low", tree.low + 1),
            "it sets the attribute `low` of a Plain that is an argument",
        ),
        (
            lambda tree: setattr(tree, "new", tree.low + 1),
            "it sets the attribute `new` of a Plain that is an argument",
        ),
        (
            lambda tree: setattr(tree, "mode", Mode.MULTIPLY),
            "it sets the attribute `mode` of a Plain that is an argument",
        ),
        (
            lambda tree: delattr(tree, "high"),
            "it sets the attribute `high` of a Plain that is an argument",
        ),
    ],
)
def test_a_function_that_sets_attributes_of_an_argument_is_an_error(
    change: Any, problem: str
) -> None:
    def run(tree: Plain) -> Tensor:
        x = tree.low * 2
        change(tree)
        return x

    with pytest.raises(CaptureError, match=problem):
        jit(run)(Plain(Tensor([1.0]), Tensor([2.0])))


def test_one_tensor_in_two_trees_is_one_input() -> None:
    @jit
    def step(tree: Plain, other: dict[str, Any]) -> None:
        tree.low.assign(tree.low + other["x"])

    shared = Tensor([1.0])
    for _ in range(2):
        step(Plain(shared, 0.0), {"x": shared})
    assert shared.item() == 4.0
    assert step.n_captures == 1
    step(Plain(shared, 0.0), {"x": Tensor([1.0])})
    assert shared.item() == 5.0
    assert step.n_captures == 2


def test_a_captured_tensor_that_is_also_an_argument_is_captured() -> None:
    tree = Plain(Tensor([1.0]), 2.0)
    weights = [tree.low]

    @jit
    def step(tree: Plain) -> Tensor:
        weights[0].assign(weights[0] * tree.high)
        return tree.low + 0

    assert [step(tree).item() for _ in range(3)] == [2.0, 4.0, 8.0]
    assert step.n_captures == 1
    assert tree.low.item() == 8.0


def test_an_object_with_a_cycle_or_an_unknown_type_is_no_tree() -> None:
    cyclic = Plain(Tensor(1.0), None)
    cyclic.high = cyclic
    unknown = Plain(Tensor(1.0), object())
    for tree in (cyclic, unknown):
        leaves, structure = flatten(tree)
        assert leaves == [tree] and str(structure) == "*"
        captured = jit(lambda tree: tree.low * 2)
        assert captured(tree).item() == 2.0
        tree.low = Tensor(3.0)
        assert captured(tree).item() == 6.0


def test_a_structure_shows_the_class_and_its_attributes() -> None:
    _, structure = flatten(Plain(Tensor(1.0), [Tensor(2.0)]))
    assert str(structure) == "Plain(low=*, high=[*])"
    assert structure.paths == (".low", ".high[0]")
    assert flatten(Plain(Tensor(3.0), [Tensor(2.0)]))[1] == structure
    assert flatten(Plain(Tensor(3.0), [Tensor(2.0)], Mode.MULTIPLY))[1] != structure
    assert grad(lambda tree: tree.low * tree.low)(Plain(Tensor(3.0), 1.0)).low.item() == 6.0


def test_a_long_chain_of_objects_is_static() -> None:
    chain = Plain(Tensor(1.0), None)
    for _ in range(2000):
        chain = Plain(chain, None)

    def find_end(tree: Plain) -> Tensor:
        while isinstance(tree.low, Plain):
            tree = tree.low
        return tree.low

    captured = jit(lambda tree: find_end(tree) * 2)
    assert captured(chain).item() == 2.0
