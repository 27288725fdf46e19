"""`svod_tensor.fft`: transforms are numpy's, and their derivatives are transforms."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import numpy as np
import pytest

import svod_tensor as sv
from svod_ir import AxisError, OperandError, ShapeError
from svod_tensor import Tensor, Variable, grad, jit, jvp
from svod_tensor.host_functions import libraries, transforms

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
REAL = ("rfft", "ihfft", "rfftn")
NORMS = ["backward", "ortho", "forward"]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def draw(name: str, *shape: int) -> np.ndarray:
    return array(*shape) if name in REAL else array(*shape) + 1j * array(*shape, seed=1)


def assert_agree(found: Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    assert found.shape == np.shape(expected)
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ONE)
def test_transforms_along_one_axis_agree_with_numpy(name: str) -> None:
    x = draw(name, 3, 8)
    ours, theirs = getattr(sv.fft, name), getattr(np.fft, name)
    for norm in NORMS:
        assert_agree(ours(x, norm=norm), theirs(x, norm=norm))
    for n, axis in ((5, 1), (11, -1), (4, 0), (1, 1), (2, 1), (8, 1)):
        assert_agree(ours(x, n=n, axis=axis), theirs(x, n, axis))
    assert_agree(ours(x.real.astype("f")), theirs(x.real.astype("f")), 1e-5)
    assert_agree(ours(np.zeros((0, 8))), theirs(np.zeros((0, 8))))
    for dtype in ("float16", "bfloat16", "int32", "bool"):
        given = Tensor(x.real).round().cast(dtype)
        assert_agree(ours(given), theirs(given.cast("float32").numpy()), 1e-5)


@pytest.mark.parametrize("name", SEVERAL)
def test_transforms_along_several_axes_agree_with_numpy(name: str) -> None:
    x = draw(name, 4, 3, 6)
    ours, theirs = getattr(sv.fft, name), getattr(np.fft, name)
    for norm in NORMS:
        assert_agree(ours(x, norm=norm), theirs(x, norm=norm))
    for s, axes in (
        (None, (0, 2)),
        ((5, 4), (1, 0)),
        ((7, 3), (1, 2)),
        (None, (1,)),
        ((2, 2, 9), (0, 1, 2)),
    ):
        assert_agree(ours(x, s=s, axes=axes), theirs(x, s, axes))
    assert_agree(ours(x.real.astype("f")), theirs(x.real.astype("f")), 1e-4)


def test_frequencies_and_shifts_agree_with_numpy() -> None:
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(sv.fft, name)(n, d=0.3, dtype="float64")
            np.testing.assert_allclose(found.numpy(), getattr(np.fft, name)(n, 0.3), rtol=1e-15)
            assert getattr(sv.fft, name)(n).dtype is sv.float32
    x = array(4, 5, 3)
    for axes in (None, 1, (0, 2)):
        assert_agree(sv.fft.fftshift(x, axes=axes), np.fft.fftshift(x, axes))
        assert_agree(sv.fft.ifftshift(x, axes=axes), np.fft.ifftshift(x, axes))


@pytest.mark.parametrize("n", [7, 8])
@pytest.mark.parametrize("name", ONE + SEVERAL)
def test_derivatives_agree_with_differences_in_both_modes(name: str, n: int) -> None:
    x, d = array(2, n, n), array(2, n, n, seed=1)
    weights = array(2, 16, 16, seed=3)
    named: dict[str, Any] = {"norm": "ortho"} | ({"s": (n, n)} if name in SEVERAL else {"n": n})

    def value(t: Tensor) -> Tensor:
        found = getattr(sv.fft, name)(t[0] if name in REAL else t[0].complex(t[1]), **named)
        rows, columns = found.shape
        parts = (found.real, found.imag) if found.dtype.is_complex else (found,)
        return sum(
            (p**2 * Tensor(w[:rows, :columns])).sum() for p, w in zip(parts, weights, strict=False)
        )  # pyright: ignore[reportReturnType]

    slope = grad(value)(Tensor(x))
    _, along = jvp(value, (Tensor(x),), (Tensor(d),))
    _, twice = jvp(lambda t: (grad(value)(t) * Tensor(d)).sum(), (Tensor(x),), (Tensor(d),))
    expected = (value(Tensor(x + d)).item() - value(Tensor(x - d)).item()) / 2
    np.testing.assert_allclose((slope.numpy() * d).sum(), expected, rtol=1e-9)
    np.testing.assert_allclose(along.item(), expected, rtol=1e-9)
    # It is a quadratic form.
    np.testing.assert_allclose(twice.item(), 2 * value(Tensor(d)).item(), rtol=1e-9)


def test_they_work_in_captured_functions_and_with_symbolic_sizes() -> None:
    step = jit(lambda x: sv.fft.irfft(sv.fft.rfft(x) * 2, n=x.shape[-1]))
    for seed in range(3):
        x = array(2, 9, seed=seed)
        assert_agree(step(Tensor(x)), x * 2)
    n = Variable("n", 1, 9)
    x = array(2, 9)
    for size in (4, 7):
        part = Tensor(x)[:, : n.bind(size)]
        np.testing.assert_allclose(sv.fft.rfft(part).numpy(), np.fft.rfft(x[:, :size]))
        np.testing.assert_allclose(sv.fft.fft(part).numpy(), np.fft.fft(x[:, :size]), atol=1e-12)
        assert sv.fft.irfft(sv.fft.rfft(part), n=part.shape[1]).numpy().shape == (2, size)


def test_sharded_operands_are_gathered() -> None:
    x = array(4, 6) + 1j * array(4, 6, seed=1)
    sharded = Tensor(x).shard(("CPU", "CPU:1"), axis=0)
    assert_agree(sv.fft.fftn(sharded), np.fft.fftn(x))


def test_invalid_arguments_are_errors_at_the_call() -> None:
    x = Tensor.ones(2, 3)
    for name in (*ONE, *SEVERAL):
        with pytest.raises(
            OperandError, match=rf'{name}: expected "backward", "ortho" or "forward" as norm'
        ):
            getattr(sv.fft, name)(x, norm="none")
    for name in ONE:
        with pytest.raises(AxisError, match=name):
            getattr(sv.fft, name)(x, axis=2)
        with pytest.raises(
            ShapeError, match=r"fft: invalid number of data points \(0\) along axis 1"
        ):
            getattr(sv.fft, name)(x, n=0)
    for name in REAL:
        with pytest.raises(OperandError, match=f"{name}: expected real numbers"):
            getattr(sv.fft, name)(x * 1j)
    for name in SEVERAL:
        with pytest.raises(ShapeError, match=r"and axes \(0,\) must have the same length"):
            getattr(sv.fft, name)(x, s=(2, 3), axes=(0,))
    with pytest.raises(OperandError, match=r"^fftfreq: expected at least one point, got 0"):
        sv.fft.fftfreq(0)
    with pytest.raises(OperandError, match="rfftfreq: expected a float dtype, got int32"):
        sv.fft.rfftfreq(3, dtype="int32")


def test_host_functions_are_registered_by_name() -> None:
    names = {
        kind.removeprefix(libraries.FFT)
        for kind in libraries.FUNCTIONS
        if kind.startswith(libraries.FFT)
    }
    assert names == set(transforms.FUNCTIONS)


@pytest.mark.parametrize("name", sv.fft.__all__)
def test_docstrings_have_tested_examples_and_describe_every_argument(name: str) -> None:
    function = getattr(sv.fft, name)
    text = inspect.getdoc(function) or ""
    found = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert found.examples
    report: list[str] = []
    doctest.DocTestRunner().run(found, out=report.append)
    assert not report, "".join(report)
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^    {argument}: ", text, re.M), f"no word of {argument}"
