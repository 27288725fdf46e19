"""Captured functions beside the plain ones, where Python values that they read outside of their
arguments change between calls.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import cached_property, partial
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from svod_tensor import Tensor, grad, jit, observe_attributes, scan
from svod_tensor.errors import StaleCaptureError

X = Tensor([1.0, 2.0]).realize()
SCALE = 2.0
WEIGHTS: dict[str, Any] = {}
SETTINGS = ModuleType("settings")


class Layer:
    """A plain object with a tensor, which a program replaces."""

    kind = 1.0

    def __init__(self, weight: float) -> None:
        self.weight = Tensor(weight)
        self.rate = weight
        self.lock = object()

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.weight

    def run(self, x: Tensor) -> Tensor:
        return x * self.rate * self.kind

    @property
    def double(self) -> float:
        return 2 * self.rate

    @cached_property
    def cached(self) -> float:
        return self.rate


class Slots:
    __slots__ = ("rate",)

    def __init__(self, rate: float) -> None:
        self.rate = rate


@dataclasses.dataclass
class Inner:
    rate: float
    call: Callable[[], None] = print


@dataclasses.dataclass
class Outer:
    inner: Inner


class Model:
    shared: ClassVar[list[float]] = [1.0]

    def __init__(self) -> None:
        self.layers = [Layer(2.0), Layer(3.0)]
        self.named = {"a": Layer(4.0), "b": 5.0}
        self.config = Outer(Inner(6.0))
        self.slots = Slots(7.0)
        self.rates = [8.0]
        self.function = _double


def _double(x: Tensor) -> Tensor:
    return x * 2


def _read_global(x: Tensor) -> Tensor:
    return x * SCALE


def _read_parameter(layer: Any, x: Tensor) -> Tensor:
    return x * layer.rate


def _get_layer(model: Model) -> Layer:
    return model.layers[0]


def _sum_rates(model: Model, x: Tensor) -> Tensor:
    for layer in model.layers:
        x = x * layer.rate
    return x


def _read_alias(model: Model, x: Tensor) -> Tensor:
    inner = model.config.inner
    return x * inner.rate


def _set(target: Any, name: str, value: object) -> None:
    setattr(target, name, value)


class Descriptor:
    """A descriptor of the program's own, which reads another attribute."""

    def __get__(self, owner: Layer, kind: type) -> float:
        return owner.rate * 3


class Pair(NamedTuple):
    first: Layer
    second: float


def _multiply_by(name: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    def decorate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(self: Any, x: Tensor) -> Tensor:
            return function(self, x) * getattr(self, name, 1.0)

        return call

    return decorate


class Base:
    def __init__(self) -> None:
        self.rate = 2.0
        self.scale = 3.0
        self.lock = object()

    def run(self, x: Tensor) -> Tensor:
        return x * self.rate

    triple = Descriptor()

    @_multiply_by("rate")
    def by_rate(self, x: Tensor) -> Tensor:
        return x + 1

    @_multiply_by("scale")
    def by_scale(self, x: Tensor) -> Tensor:
        return x + 2


class Derived(Base):
    def run(self, x: Tensor) -> Tensor:
        return super().run(x) + 1


READS: dict[str, Callable[[Model, Tensor], Tensor]] = {
    "an attribute": lambda m, x: x * m.slots.rate,
    "an element of a list": lambda m, x: m.layers[1](x),
    "an element at a computed index": lambda m, x: m.layers[len("a")](x),
    "a negative index": lambda m, x: m.layers[-1].run(x),
    "a slice": lambda m, x: sum((layer(x) for layer in m.layers[:1]), Tensor(0.0)),
    "an item of a dict": lambda m, x: x * m.named["b"],
    "a method of a dict": lambda m, x: x * m.named.get("b", 1.0),
    "an object in a dict": lambda m, x: m.named["a"].run(x),
    "a loop over objects": lambda m, x: _sum_rates(m, x),
    "a comprehension": lambda m, x: x * sum([layer.rate for layer in m.layers]),
    "a nested dataclass": lambda m, x: x * m.config.inner.rate,
    "a local alias": lambda m, x: _read_alias(m, x),
    "a property": lambda m, x: x * m.layers[0].double,
    "a function that is an attribute": lambda m, x: m.function(x),
    "a parameter of another function": lambda m, x: _read_parameter(m.layers[0], x),
    "a result of another function": lambda m, x: x * _get_layer(m).rate,
    "a global of another function": lambda m, x: _read_global(x),
    "getattr with a computed name": lambda m, x: x * getattr(m.layers[0], "".join(["ra", "te"])),
    "vars": lambda m, x: x * vars(m.layers[0])["rate"],
    "a number in a list": lambda m, x: x * m.rates[0],
    "a sum of numbers": lambda m, x: x * sum(m.rates),
    "a class attribute": lambda m, x: x * Layer.kind,
    "a class attribute of an object": lambda m, x: x * m.layers[0].kind,
    "an item of a list of the class": lambda m, x: x * m.shared[0],
    "a global dict": lambda m, x: x * WEIGHTS["w"],
    "a module": lambda m, x: x * SETTINGS.scale,
    "isinstance of an element": lambda m, x: x * (2.0 if isinstance(m.named["b"], float) else 3.0),
    "in a loop's body": lambda m, x: scan(lambda c, _: (c * m.layers[0].rate, c), x, length=2)[0],
    "in a derivative": lambda m, x: grad(lambda v: (v * v * m.layers[0].weight).sum())(x),
    "a partial": lambda m, x: partial(_read_parameter, m.layers[1])(x),
}

CHANGES: dict[str, Callable[[Model], object]] = {
    "slot": lambda m: _set(m.slots, "rate", 9.0),
    "layer": lambda m: m.layers.__setitem__(1, Layer(5.0)),
    "first layer": lambda m: m.layers.__setitem__(0, Layer(6.0)),
    "more layers": lambda m: m.layers.append(Layer(7.0)),
    "weight": lambda m: _set(m.layers[0], "weight", Tensor(11.0)),
    "assigned weight": lambda m: m.layers[0].weight.assign(Tensor(13.0)),
    "rate": lambda m: _set(m.layers[0], "rate", 17.0),
    "rates": lambda m: [_set(layer, "rate", 18.0) for layer in m.layers],
    "dict": lambda m: m.named.update(b=19.0),
    "integer": lambda m: m.named.update(b=5),
    "object in dict": lambda m: _set(m.named["a"], "rate", 23.0),
    "config": lambda m: _set(m.config.inner, "rate", 29.0),
    "inner": lambda m: _set(m.config, "inner", Inner(31.0)),
    "function": lambda m: _set(m, "function", lambda x: x * 37.0),
    "global": lambda m: globals().update(SCALE=41.0),
    "number in list": lambda m: m.rates.__setitem__(0, 43.0),
    "class": lambda m: _set(Layer, "kind", 47.0),
    "own attribute in place of the class's": lambda m: _set(m.layers[0], "kind", 53.0),
    "class list": lambda m: m.shared.__setitem__(0, 59.0),
    "global dict": lambda m: WEIGHTS.update(w=Tensor(61.0)),
    "module": lambda m: _set(SETTINGS, "scale", 67.0),
}


@pytest.fixture(autouse=True)
def _initial_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layer, "kind", 1.0)
    monkeypatch.setattr(Model, "shared", [1.0])
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    monkeypatch.setitem(WEIGHTS, "w", Tensor(3.0))
    monkeypatch.setattr(SETTINGS, "scale", 2.0, raising=False)


@pytest.mark.parametrize("read", READS)
def test_a_captured_function_agrees_with_the_plain_function_after_each_change(read: str) -> None:
    model, function = Model(), READS[read]
    captured = jit(lambda x: function(model, x))
    assert captured(X).tolist() == function(model, X).tolist()
    for name, change in CHANGES.items():
        change(model)
        assert captured(X).tolist() == function(model, X).tolist(), name
    n_captured = captured.n_captures
    for _ in range(3):
        captured(X)
    assert captured.n_captures == n_captured


def _import(x: Tensor) -> Tensor:
    import jit_settings_of_a_test

    return x * jit_settings_of_a_test.scale


def _import_from(x: Tensor) -> Tensor:
    from jit_settings_of_a_test import scale

    return x * scale


def _match(derived: Derived, x: Tensor) -> Tensor:
    match derived:
        case Derived(rate=rate):
            return x * rate
        case _:
            return x


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (lambda d, x: d.run(x), lambda d: _set(d, "rate", 5.0)),
        (lambda d, x: d.by_rate(d.by_scale(x)), lambda d: _set(d, "scale", 5.0)),
        (lambda d, x: d.by_scale(d.by_rate(x)), lambda d: _set(d, "rate", 5.0)),
        (lambda d, x: x * d.triple, lambda d: _set(d, "rate", 5.0)),
        (lambda d, x: x * getattr(d, "new", 7.0), lambda d: _set(d, "new", 5.0)),
        (lambda d, x: x * (2.0 if hasattr(d, "new") else 3.0), lambda d: _set(d, "new", 5.0)),
        (lambda d, x: x * sum(d.table.values()), lambda d: d.table.update(b=5.0)),
        (lambda d, x: x * d.pair.first.rate, lambda d: _set(d.pair.first, "rate", 5.0)),
        (lambda d, x: x * d.counts["b"], lambda d: d.counts.update(b=5.0)),
        (
            lambda d, x: _import(x),
            lambda d: _set(sys.modules["jit_settings_of_a_test"], "scale", 5.0),
        ),
        (
            lambda d, x: _import_from(x),
            lambda d: _set(sys.modules["jit_settings_of_a_test"], "scale", 5.0),
        ),
        (lambda d, x: _match(d, x), lambda d: _set(d, "rate", 5.0)),
        (
            lambda d, x: x * getattr(d.slots, "".join(("ra", "te"))),
            lambda d: _set(d.slots, "rate", 5.0),
        ),
    ],
    ids=[
        "super",
        "one decorator",
        "one decorator the other way",
        "a descriptor",
        "a new attribute",
        "hasattr",
        "values of an ordered dict",
        "a named tuple",
        "a default dict",
        "an import in the function",
        "an import of a name",
        "a pattern",
        "a slot by a computed name",
    ],
)
def test_reads_without_a_path_are_guarded(
    read: Callable[[Any, Tensor], Tensor],
    change: Callable[[Any], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ModuleType("jit_settings_of_a_test")
    _set(settings, "scale", 2.0)
    monkeypatch.setitem(sys.modules, "jit_settings_of_a_test", settings)
    derived: Any = Derived()
    derived.table, derived.pair = OrderedDict(a=1.0, b=2.0), Pair(Layer(2.0), 1.0)
    derived.counts, derived.slots = defaultdict(lambda: 1.0), Slots(2.0)
    captured = jit(lambda x: read(derived, x))
    for _ in range(2):
        assert captured(X).tolist() == read(derived, X).tolist()
    before = read(derived, X).tolist()
    change(derived)
    assert captured(X).tolist() == read(derived, X).tolist() != before


def test_changes_of_unread_values_cause_no_new_capture() -> None:
    model = Model()
    captured = jit(lambda x: model.layers[0](x) * model.config.inner.rate)
    captured(X)
    for _ in range(3):
        model.rates.append(1.0)
        model.slots.rate += 1
        model.layers[0].rate += 1
        model.named["b"] += 1
        captured(X)
    assert captured.n_captures == 1


def test_a_bound_method_and_a_decorated_one_see_attributes_of_their_object() -> None:
    class Solver:
        def __init__(self) -> None:
            self.step_size, self.callback = 0.5, print

        def advance(self, x: Tensor) -> Tensor:
            return x * self.step_size

        @jit
        def decorated(self, x: Tensor) -> Tensor:
            return x * self.step_size

    solver = Solver()
    bound, explicit = jit(solver.advance), jit(Solver.advance)
    calls = (bound, lambda x: explicit(solver, x), solver.decorated)
    assert [call(X).tolist() for call in calls] == [[0.5, 1.0]] * 3
    solver.step_size = 2.0
    assert [call(X).tolist() for call in calls] == [[2.0, 4.0]] * 3
    assert "`self.step_size` is 2.0 instead of 0.5" in bound.explain()


def test_a_value_that_the_function_changes_and_reads_is_read_again_in_each_call() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n, self.callback = 0, print

    counter = Counter()

    def count(x: Tensor) -> Tensor:
        counter.n += 1
        return x * counter.n

    captured = jit(count)
    assert [captured(Tensor([1.0])).item() for _ in range(3)] == [1.0, 2.0, 3.0]


def test_a_counter_that_is_only_incremented_causes_no_capture() -> None:
    state = SimpleNamespace(n=0, calls=[])
    totals = {"n": 0}

    @jit
    def count(x: Tensor) -> Tensor:
        state.n += 1
        state.calls.append(1)
        totals["n"] += 1
        return x + 1

    for _ in range(3):
        count(X)
    assert (state.n, len(state.calls), totals["n"], count.n_captures) == (1, 1, 1, 1)


def test_equal_numbers_in_other_objects_are_equal() -> None:
    model = Model()
    captured = jit(lambda x: x * model.slots.rate * model.rates[0] * model.named["b"])
    captured(X)
    for _ in range(3):
        model.slots.rate = float("7.0")
        model.rates[0] = float("8.0")
        model.named["b"] = float("5.0")
        captured(X)
    assert captured.n_captures == 1
    model.slots.rate = 7
    captured(X)
    assert captured.n_captures == 2


@pytest.mark.parametrize("kind", [list, tuple, deque, set, frozenset, dict, OrderedDict])
def test_elements_of_every_container_are_seen(kind: Callable[..., Any]) -> None:
    holder = SimpleNamespace()

    def make(*numbers: float) -> Any:
        return kind((n, n) for n in numbers) if kind in (dict, OrderedDict) else kind(numbers)

    captured = jit(lambda x: x * sum(holder.numbers))
    for numbers in ((1.0, 2.0), (2.0, 2.5), (3.0,), (3,)):
        holder.numbers = make(*numbers)
        assert captured(Tensor([1.0])).item() == sum(numbers)


def test_changes_of_observed_objects_are_seen_where_a_subclass_sets_them_its_own_way() -> None:
    @observe_attributes
    class Observed:
        rate: ClassVar[float] = 1.0

    class Quiet(Observed):
        rate: ClassVar[float] = 1.0

        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, name, value)

    for kind in (Observed, Quiet):
        holder = kind()
        captured = jit(lambda x, h=holder: x * h.rate)
        for rate in (2.0, 3.0):
            holder.rate = rate
            assert captured(Tensor([1.0])).item() == rate
        del holder.rate
        assert captured(Tensor([1.0])).item() == 1.0
        kind.rate = 5.0
        assert captured(Tensor([1.0])).item() == 5.0


def test_a_plan_keeps_no_object_that_was_replaced_after_the_next_call() -> None:
    model = Model()
    captured = jit(lambda x: model.layers[0](x))
    captured(X)
    old = weakref.ref(model.layers[0])
    model.layers[0] = Layer(3.0)
    captured(X)
    gc.collect()
    assert old() is None


def test_explain_names_the_path_of_the_changed_value() -> None:
    model = Model()
    captured = jit(lambda x: x * model.config.inner.rate + model.named["b"])
    captured(X)
    model.config.inner.rate = 1.0
    captured(X)
    assert "`model.config.inner.rate` is 1.0 instead of 6.0" in captured.explain()
    model.named["b"] = 2.0
    captured(X)
    assert "`model.named['b']` is 2.0 instead of 5.0" in captured.explain()


def test_modules_of_the_standard_library_are_not_guarded() -> None:
    captured = jit(lambda x: x * sys.maxsize.bit_length())
    assert captured(Tensor([1.0])).item() == 63


def test_a_check_detects_a_value_without_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVOD_CHECK", "1")
    array = np.array([2.0])
    captured = jit(lambda x: {"y": x * float(array[0])})
    assert captured(X)["y"].tolist() == [2.0, 4.0]
    array[0] = 3.0
    with pytest.raises(
        StaleCaptureError,
        match=r"result\['y'\] is Tensor\(\[2., 4.\].* plain one's Tensor\(\[3., 6.\]",
    ):
        captured(X)
    captured.clear()
    assert captured(X)["y"].tolist() == [3.0, 6.0]


def test_a_deep_chain_of_methods_is_followed() -> None:
    names: dict[str, Any] = {"__name__": "deep"}
    source = "class Deep:\n    rate = 2.0\n    def f0(self, x): return x * self.rate\n"
    source += "".join(f"    def f{n}(self, x): return self.f{n - 1}(x)\n" for n in range(1, 400))
    exec(source, names)
    deep = names["Deep"]()
    captured = jit(lambda x: deep.f399(x))
    assert captured(X).tolist() == [2.0, 4.0]
    deep.rate = 3.0
    assert captured(X).tolist() == [3.0, 6.0]


class Scaler:
    """An object whose method, static method, class method and property a function reads."""

    def scale(self, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def shift(x: Tensor) -> Tensor:
        return x + 3

    @classmethod
    def negate(cls, x: Tensor) -> Tensor:
        return -x

    @property
    def factor(self) -> int:
        return 5


def _call_all(scaler: Scaler, x: Tensor) -> Tensor:
    return scaler.negate(scaler.shift(scaler.scale(x))) * scaler.factor


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("scale", lambda self, x: x * 7),
        ("shift", staticmethod(lambda x: x - 1)),
        ("negate", classmethod(lambda cls, x: x * x)),
        ("factor", property(lambda self: 11)),
    ],
)
def test_a_member_that_is_replaced_on_its_class_is_seen(
    name: str, member: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler, x = Scaler(), Tensor([1.0, 2.0])
    captured = jit(lambda x: _call_all(scaler, x))
    captured(x)
    monkeypatch.setattr(Scaler, name, member)
    np.testing.assert_array_equal(captured(x).numpy(), _call_all(scaler, x).numpy())


@pytest.mark.parametrize("name", ["scale", "shift", "negate"])
def test_an_attribute_that_hides_a_method_is_seen(name: str) -> None:
    scaler, x = Scaler(), Tensor([1.0, 2.0])
    captured, with_argument = (
        jit(lambda x: _call_all(scaler, x)),
        jit(lambda scaler, x: _call_all(scaler, x)),
    )
    captured(x), with_argument(scaler, x)
    setattr(scaler, name, lambda x: x * 7)
    expected = _call_all(scaler, x).numpy()
    np.testing.assert_array_equal(captured(x).numpy(), expected)
    np.testing.assert_array_equal(with_argument(scaler, x).numpy(), expected)
