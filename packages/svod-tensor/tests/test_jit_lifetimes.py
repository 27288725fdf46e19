"""Plans of captured functions do not keep arguments alive that are known by their identity, and go
with them.
"""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, jit, observe_attributes


class Opaque:
    """An object with an attribute of which nothing is known, so that it is no tree."""

    def __init__(self, factor: float = 2.0) -> None:
        self.weight = Tensor([factor]).realize()
        self.unknown = object()
        self.scale = 1.0

    def apply(self, x: Tensor) -> Tensor:
        return x * self.weight * self.scale

    jitted = jit(apply)


@observe_attributes
class Observed:
    def __init__(self, factor: float = 2.0) -> None:
        self.weight = Tensor([factor]).realize()
        self.layers = [Opaque(1.0)]

    def apply(self, x: Tensor) -> Tensor:
        return self.layers[0].apply(x) * self.weight


class Slotted:
    __slots__ = ("__weakref__", "unknown", "weight")

    def __init__(self, factor: float = 2.0) -> None:
        self.weight, self.unknown = Tensor([factor]).realize(), object()

    def apply(self, x: Tensor) -> Tensor:
        return x * self.weight


class Unreferenced:
    __slots__ = ("unknown", "weight")

    def __init__(self, factor: float = 2.0) -> None:
        self.weight, self.unknown = Tensor([factor]).realize(), object()

    def apply(self, x: Tensor) -> Tensor:
        return x * self.weight


KINDS = [Opaque, Observed, Slotted]


def make_jitted() -> Any:
    return jit(lambda model, x: model.apply(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*was captured 32 times:RuntimeWarning")
def test_only_the_last_of_forty_arguments_is_alive(kind):
    f, x = make_jitted(), Tensor([3.0])
    models, plans = [], []
    for number in range(40):
        model = kind(float(number))
        for _ in range(3):
            assert f(model, x).item() == 3 * number
        models.append(weakref.ref(model))
        plans.append(weakref.ref(f.plans()[-1]))
    gc.collect()
    assert [ref() for ref in models if ref() is not None] == [model]
    assert f.n_captures == 1
    assert sum(ref() is not None for ref in plans) == 1
    del model
    gc.collect()
    assert f.n_captures == 0
    assert all(ref() is None for ref in (*models, *plans))


def test_the_object_of_a_captured_method_is_freed_with_its_plan():
    before = Opaque.jitted.n_captures
    model = Opaque(5.0)
    for _ in range(3):
        assert model.jitted(Tensor([2.0])).item() == 10
    assert Opaque.jitted.n_captures == before + 1
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None
    assert Opaque.jitted.n_captures == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*was captured 32 times:RuntimeWarning")
def test_a_new_object_at_the_same_address_is_captured_anew(kind):
    f, x = make_jitted(), Tensor([3.0])
    n_reused = 0
    for number in range(20):
        model = kind(float(number))
        assert f(model, x).item() == f(model, x).item() == 3 * number
        address = id(model)
        del model
        model = kind(100.0 + number)
        n_reused += id(model) == address
        assert f(model, x).item() == f(model, x).item() == 3 * (100 + number)
        del model
    assert n_reused


def test_objects_in_cycles_are_collected():
    f, x = make_jitted(), Tensor([3.0])
    model = Opaque(4.0)
    model.itself = model
    assert f(model, x).item() == f(model, x).item() == 12
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None
    assert f.n_captures == 0


def test_objects_without_weak_references_are_kept_with_their_plans():
    f, x = make_jitted(), Tensor([3.0])
    for number in range(3):
        model = Unreferenced(float(number))
        assert f(model, x).item() == f(model, x).item() == 3 * number
        del model
    gc.collect()
    assert f.n_captures == 3


@pytest.mark.parametrize("kind", [Opaque, Observed])
def test_changes_of_an_argument_are_seen(kind):
    f, x = make_jitted(), Tensor([3.0])
    model = kind()
    assert f(model, x).item() == f(model, x).item() == 6
    model.weight = Tensor([5.0]).realize()
    assert f(model, x).item() == f(model, x).item() == 15
    del model.weight
    with pytest.raises(AttributeError, match="weight"):
        f(model, x)


@dataclass
class Pair:
    model: Opaque
    weight: Tensor


def test_an_object_in_a_tree_is_freed_with_its_plan():
    f = jit(lambda pair: pair.model.apply(pair.weight))
    pair = Pair(Opaque(3.0), Tensor([2.0]))
    assert f(pair).item() == f(pair).item() == 6
    ref = weakref.ref(pair.model)
    del pair
    gc.collect()
    assert ref() is None
    assert f.n_captures == 0


def test_the_plan_of_two_objects_is_freed_with_either_of_them():
    f = jit(lambda first, second, x: first.apply(x) + second.apply(x))
    kept, x = Opaque(3.0), Tensor([2.0])
    for order in (0, 1):
        other = Opaque(4.0)
        arguments = (kept, other) if order else (other, kept)
        assert f(*arguments, x).item() == f(*arguments, x).item() == 14
        del arguments, other
        gc.collect()
        assert f.n_captures == 0


def test_function_arguments_are_freed_with_their_plans():
    f = jit(lambda function, x: function(x))
    for number in range(3):
        scale = (lambda factor: lambda x: x * factor)(number)
        assert f(scale, Tensor([2.0])).item() == f(scale, Tensor([2.0])).item() == 2 * number
        del scale
        gc.collect()
        assert f.n_captures == 0


def test_a_set_that_is_an_argument_is_compared_by_its_elements():
    f = jit(lambda names, x: x * 2 if "a" in names else x)
    names, x = {"a"}, Tensor([3.0])
    assert f(names, x).item() == f(names, x).item() == 6
    names.clear()
    assert f(names, x).item() == 3


def test_explain_and_clear_work_after_arguments_are_freed():
    f, x = make_jitted(), Tensor([3.0])
    first, second = Opaque(), Opaque()
    f(first, x), f(second, x)
    del first
    gc.collect()
    assert "1 capture" in f.explain()
    del second
    gc.collect()
    third = Opaque()
    f(third, x)
    assert "captured since an object that another plan was for is gone" in f.explain()
    f.clear()
    assert f.n_captures == 0
    assert f(Opaque(7.0), x).item() == 21


@pytest.mark.filterwarnings("ignore:.*was captured 32 times:RuntimeWarning")
def test_objects_die_in_threads_while_others_call():
    f, x, kept = make_jitted(), Tensor([3.0]).realize(), Opaque(2.0)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for number in range(12):
                model = Opaque(float(seed + number))
                model.itself = model
                assert f(model, x).item() == 3 * (seed + number)
                assert f(kept, x).item() == 6
                del model
                gc.collect()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    gc.collect()
    assert f.n_captures == 1
    np.testing.assert_array_equal(f(kept, x).numpy(), [6])
