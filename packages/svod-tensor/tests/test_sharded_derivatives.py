"""Derivatives on several devices: the numbers of one device, and each gradient where its argument
is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, checkpoint, custom_gradient, grad, jit, jvp

_DEVICES = ("CPU", "CPU:1")
_RNG = np.random.default_rng(0)
_ARRAYS = (_RNG.normal(size=(6, 4)), _RNG.normal(size=(8, 6)), _RNG.normal(size=4))
_ALL = (0, 1, 2)


def _loss(w: Tensor, x: Tensor, b: Tensor) -> Tensor:
    return ((x @ w + b).tanh() ** 2).mean()


def _whole() -> list[Tensor]:
    return [Tensor(a) for a in _ARRAYS]


def _split(*axes: int | None) -> list[Tensor]:
    return [Tensor(a).shard(_DEVICES, axis) for a, axis in zip(_ARRAYS, axes, strict=True)]


def _check(found: Any, f: Callable[..., Tensor] = _loss) -> None:
    for part, expected in zip(found, grad(f, _ALL)(*_whole()), strict=True):
        np.testing.assert_allclose(part.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "axes", [(None, 0, None), (1, None, 0), (0, 1, None)], ids=["batch", "columns", "rows"]
)
def test_a_gradient_has_the_sharding_of_its_argument(axes: tuple[int | None, ...]) -> None:
    args = _split(*axes)
    found = grad(_loss, _ALL)(*args)
    assert [part.sharding for part in found] == [arg.sharding for arg in args]
    _check(found)
    (by_w, by_x, by_b) = _loss(*args).gradient(*args)
    _check((by_w, by_x, by_b))


@pytest.mark.parametrize(
    "place",
    [lambda t, axis: t.shard(_DEVICES, axis), lambda t, _: t.to("CPU:1")],
    ids=["shard", "to"],
)
def test_tensors_are_sharded_and_moved_inside_of_a_function(
    place: Callable[[Tensor, int | None], Tensor],
) -> None:
    def f(w: Tensor, x: Tensor, b: Tensor) -> Tensor:
        return _loss(place(w, None), place(x, 0), place(b, None)).to("CPU")

    found = grad(f, _ALL)(*_whole())
    assert [part.device for part in found] == ["CPU", "CPU", "CPU"]
    _check(found)


def test_shards_are_joined_and_taken_one_by_one() -> None:
    def by_shards(w: Tensor, x: Tensor, b: Tensor) -> Tensor:
        parts = [_loss(w.to(s.device), s, b.to(s.device)).to("CPU") for s in x.shards()]
        return (parts[0] + parts[1]) / 2

    w, x, b = _whole()
    _check(grad(by_shards, _ALL)(w, x.shard(_DEVICES, 0), b))
    _check(grad(lambda w, x, b: by_shards(w, x.shard(_DEVICES, 0), b), _ALL)(w, x, b))
    _check(grad(lambda w, x, b: _loss(w.shard(_DEVICES, 1).to("CPU"), x, b), _ALL)(w, x, b))


def test_movement_and_gathers_across_shards() -> None:
    def f(w: Tensor, x: Tensor, b: Tensor) -> Tensor:
        places = Tensor([1, 5, 5, 0])
        if x.sharding is not None:
            places = places.shard(_DEVICES)
        moved = (x.max(0) * x.cumsum(0)[-1]).sum() + x[::-1][:5].sum() * x.reshape(48)[7:30].sum()
        return moved + (x[places] ** 3).sum() + (w * w).sum() + b.sum()

    _check(grad(f, _ALL)(*_split(None, 0, None)), f)


def test_rules_and_captured_functions_see_shards() -> None:
    layer = checkpoint(lambda w, x, b: (x @ w + b).tanh())
    _check(grad(lambda w, x, b: (layer(w, x, b) ** 2).mean(), _ALL)(*_split(None, 0, None)))

    @custom_gradient
    def tanh(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        y = x.tanh()
        return y, lambda cotangent: cotangent * (1 - y * y)

    _check(grad(lambda w, x, b: (tanh(x @ w + b) ** 2).mean(), _ALL)(*_split(None, 0, None)))
    step = jit(grad(_loss, _ALL))
    for _ in range(2):
        _check(step(*_split(None, 0, None)))


def test_both_modes_and_second_derivatives() -> None:
    def squared(w: Tensor, x: Tensor, b: Tensor) -> Tensor:
        return (grad(_loss)(w, x, b) ** 2).sum()

    _check(grad(squared, _ALL)(*_split(None, 0, None)), squared)
    _, along = jvp(_loss, _split(None, 0, None), _split(None, 0, None))
    _, expected = jvp(_loss, _whole(), _whole())
    assert along.item() == pytest.approx(expected.item(), rel=1e-12)
