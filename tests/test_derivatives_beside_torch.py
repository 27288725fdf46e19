"""Derivatives agree with PyTorch, if it is installed (`tox run -e derivatives-torch`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from svod_dtype import to_dtype
from svod_ir import OperandError
from svod_tensor import Tensor, grad, jvp, vjp
from svod_testing.derivatives.cases import CASES, Case, draw

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ALL = [pytest.param(case, id=f"{case}-{number}") for number, case in enumerate(CASES)]
# A cast to float32 has no effect in float64.
NO_CAST = [parameter for parameter in ALL if parameter.values[0].operation != "cast"]
ELEMENTWISE = [parameter for parameter in NO_CAST if parameter.values[0].is_elementwise]

PRECISION = {"float64": 1e-10, "float32": 3e-5, "float16": 2e-2, "bfloat16": 1.2e-1}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def differentiate(
    case: Case, arrays: Sequence[np.ndarray], cotangent: np.ndarray
) -> list[np.ndarray]:
    """Gradients of torch in float64; zeros where torch returns None."""
    args = [torch.tensor(np.asarray(a, "float64"), requires_grad=True) for a in arrays]
    value = case.peer(torch, *args)
    if not value.requires_grad:
        return [np.zeros(a.shape) for a in arrays]
    parts = torch.autograd.grad(value, args, torch.tensor(cotangent), allow_unused=True)
    return [
        np.zeros(a.shape) if p is None else p.numpy(force=True)
        for a, p in zip(arrays, parts, strict=True)
    ]


def shape_of_value(case: Case, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    return tuple(case.peer(torch, *(torch.tensor(np.asarray(a, "float64")) for a in arrays)).shape)


def check(
    case: Case, tensors: Sequence[Tensor], rng: np.random.Generator, precision: float
) -> None:
    """Compare reverse mode with torch, and forward mode with reverse mode, at elements read back
    from tensors.
    """
    arrays = [t.cast("float64").numpy() for t in tensors]
    shape = shape_of_value(case, arrays)
    dtype = tensors[0].dtype
    value, pull = vjp(case.call, *tensors)
    assert value.shape == shape
    # For narrow floats its dtype may differ: there are no complex numbers of that width.
    cotangent = Tensor(np.asarray(rng.normal(size=shape))).cast(value.dtype)
    parts = pull(cotangent)
    wide = cotangent.cast("float64").numpy()
    expected = differentiate(case, arrays, wide)
    for part, theirs in zip(parts, expected, strict=True):
        assert part.dtype is dtype
        scale = max(1.0, np.abs(theirs).max(initial=0))
        np.testing.assert_allclose(
            part.cast("float64").numpy(), theirs, rtol=precision, atol=precision * scale
        )
    along = [Tensor(np.asarray(rng.normal(size=a.shape))).cast(dtype) for a in arrays]
    _, tangent = jvp(case.call, tuple(tensors), tuple(along))
    back = [(p * v.cast("float64").numpy()) for p, v in zip(expected, along, strict=True)]
    size = sum(np.abs(b).sum() for b in back) + 1
    forth = (tangent.cast("float64").numpy() * wide).sum()
    assert abs(sum(b.sum() for b in back) - forth) <= precision * size


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("case", NO_CAST)
def test_derivatives_of_every_dtype(rng: np.random.Generator, case: Case, dtype: str) -> None:
    tensors = [Tensor(a).cast(to_dtype(dtype)) for a in draw(rng, case)]
    if dtype in case.refused:
        with pytest.raises(OperandError):
            case.call(*tensors)
        return
    check(case, tensors, rng, PRECISION[dtype])


@pytest.mark.parametrize(
    "shapes",
    [
        ((), ()),
        ((0, 3), (0, 3)),
        ((1,), (1,)),
        ((7,), (7,)),
        ((3, 1), (4,)),
        ((), (2, 3)),
        ((5,), (1,)),
    ],
)
@pytest.mark.parametrize("case", ELEMENTWISE)
def test_derivatives_of_every_shape(rng: np.random.Generator, case: Case, shapes: Any) -> None:
    count = len(case.shapes)
    check(case, [Tensor(a) for a in draw(rng, case, (*shapes, shapes[0])[:count])], rng, 1e-9)


@pytest.mark.parametrize("case", NO_CAST)
def test_derivatives_at_views(rng: np.random.Generator, case: Case) -> None:
    backward = [np.ascontiguousarray(a.T[..., ::-1]) for a in draw(rng, case)]
    tensors = [
        Tensor(a).flip(-1).permute(*reversed(range(a.ndim))) if a.ndim else Tensor(a)
        for a in backward
    ]
    check(case, tensors, rng, 1e-9)


@pytest.mark.parametrize("case", [p for p in NO_CAST if p.values[0].operation != "shard"])
def test_second_derivatives(rng: np.random.Generator, case: Case) -> None:
    arrays = draw(rng, case)
    cotangent = rng.normal(size=shape_of_value(case, arrays))
    weights = [rng.normal(size=a.shape) for a in arrays]
    args = [torch.tensor(a, requires_grad=True) for a in arrays]
    value = case.peer(torch, *args)
    expected = [np.zeros(a.shape) for a in arrays]
    if value.requires_grad:
        parts = torch.autograd.grad(
            value, args, torch.tensor(np.asarray(cotangent)), create_graph=True, allow_unused=True
        )
        total = sum(
            (p * torch.tensor(w)).sum()
            for p, w in zip(parts, weights, strict=True)
            if p is not None
        )
        if total.requires_grad:
            found = torch.autograd.grad(total, args, allow_unused=True)
            expected = [
                e if f is None else f.numpy(force=True)
                for e, f in zip(expected, found, strict=True)
            ]

    def f(*xs: Tensor) -> Tensor:
        parts = vjp(case.call, *xs)[1](Tensor(np.asarray(cotangent)))
        return sum(
            ((p * Tensor(w)).sum() for p, w in zip(parts, weights, strict=True)),
            start=Tensor(0.0, dtype="float64"),
        )

    for ours, theirs in zip(
        grad(f, tuple(range(len(arrays))))(*map(Tensor, arrays)), expected, strict=True
    ):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-8, atol=1e-8)
