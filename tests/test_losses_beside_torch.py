"""Losses and their derivatives agree with PyTorch; `tox run -e nn-torch` runs this."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import svod_nn as nn
from svod_tensor import Tensor, grad

torch = pytest.importorskip("torch")
F = torch.nn.functional

REDUCTIONS = ("mean", "sum", "none")
SHAPES = [(5,), (1, 1), (4, 5), (4, 5, 3), (2, 3, 2, 2), (31, 127)]


def compare(
    own: Callable[..., Tensor],
    other: Callable[..., Any],
    arrays: Sequence[Any],
    tolerance: float = 1e-5,
    **options: Any,
) -> None:
    """Compare the losses of each reduction, and the gradients of their weighted sum."""
    for reduction in REDUCTIONS:
        given = [torch.tensor(a, requires_grad=True) for a in arrays]
        wanted = other(*given, reduction=reduction, **_convert(options, torch.tensor))
        settings = _convert(options, Tensor)
        found = own(*map(Tensor, arrays), reduction=reduction, **settings)
        np.testing.assert_allclose(
            found.numpy(), wanted.detach().numpy(), rtol=tolerance, atol=tolerance
        )
        factors = np.linspace(0.5, 1.5, wanted.numel(), dtype=arrays[0].dtype).reshape(wanted.shape)

        def total(
            *tensors: Tensor, r: Any = reduction, f: Any = factors, s: Any = settings
        ) -> Tensor:
            return (own(*tensors, reduction=r, **s) * Tensor(f)).sum()

        derivatives = torch.autograd.grad((wanted * torch.tensor(factors)).sum(), given)
        for mine, theirs in zip(
            grad(total, argnums=tuple(range(len(arrays))))(*map(Tensor, arrays)),
            derivatives,
            strict=True,
        ):
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance)


def _convert(options: dict[str, Any], make: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        name: make(value) if isinstance(value, np.ndarray) else value
        for name, value in options.items()
    }


def draw(shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng([seed, *shape])
    axis = min(1, len(shape) - 1)
    places = shape[:axis] + shape[axis + 1 :]
    labels = np.asarray(rng.integers(0, shape[axis], places))
    if labels.size > 1:
        labels.flat[1] = -100
    p = np.moveaxis(rng.dirichlet(np.ones(shape[axis]), places), -1, axis).astype(np.float32)
    return (
        rng.normal(size=shape).astype(np.float32),
        labels,
        rng.uniform(0.1, 2, shape[axis]).astype(np.float32),
        p,
    )


@pytest.mark.parametrize("size", [1, 100, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_agrees(shape: tuple[int, ...], size: float) -> None:
    logits, labels, weight, p = draw(shape)
    for used, smoothing in itertools.product((None, weight), (0.0, 0.2)):
        options = {"label_smoothing": smoothing} | ({} if used is None else {"weight": used})
        compare(
            nn.cross_entropy, F.cross_entropy, [logits * np.float32(size)], target=labels, **options
        )
        compare(nn.cross_entropy, F.cross_entropy, [logits * np.float32(size), p], **options)
    compare(nn.nll_loss, F.nll_loss, [logits], target=labels, weight=weight)


def test_ignored_labels_agree() -> None:
    logits, labels = np.zeros((2, 3), np.float32), np.array([-100, -100])
    compare(nn.cross_entropy, F.cross_entropy, [logits], target=labels)


PAIRS = {
    "mse": (nn.mse_loss, F.mse_loss, {}),
    "l1": (nn.l1_loss, F.l1_loss, {}),
    **{
        f"smooth_l1 {b}": (nn.smooth_l1_loss, F.smooth_l1_loss, {"beta": b})
        for b in (0.0, 0.5, 1.0)
    },
    **{f"huber {d}": (nn.huber_loss, F.huber_loss, {"delta": d}) for d in (0.5, 1.0, 2.0)},
    "kl_log": (nn.kl_div, F.kl_div, {"log_target": True}),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 0)])
@pytest.mark.parametrize("name", PAIRS)
def test_regression_losses_agree(name: str, shape: tuple[int, ...]) -> None:
    own, other, options = PAIRS[name]
    x, y = np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32)
    if x.size > 2:
        x.flat[0], x.flat[1] = y.flat[0], y.flat[1] + 1
    compare(own, other, [x, y], **options)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
def test_losses_of_probabilities_agree() -> None:
    rng = np.random.default_rng(2)
    p, t = rng.uniform(0.01, 0.99, (2, 4, 6)).astype(np.float32)
    t[0, :2] = 0, 1
    weight = rng.uniform(0.1, 2, 6).astype(np.float32)
    compare(nn.binary_cross_entropy, F.binary_cross_entropy, [p], 1e-4, target=t, weight=weight)
    compare(nn.kl_div, F.kl_div, [np.log(p)], target=t)
    for size in (0, 1, 100, 1e4):
        logits = (rng.normal(size=(4, 6)) * size).astype(np.float32)
        compare(
            nn.binary_cross_entropy_with_logits,
            F.binary_cross_entropy_with_logits,
            [logits, t],
            weight=weight,
            pos_weight=weight + 1,
        )


def test_probabilities_of_zero_and_one_agree() -> None:
    p, t = (np.asarray(v, np.float32) for v in ([0, 1, 0, 1, 0.5], [1, 0, 0.5, 0.5, 1]))
    compare(nn.binary_cross_entropy, F.binary_cross_entropy, [p], target=t)


def test_losses_of_pairs_and_triples_agree() -> None:
    x, y, z = np.random.default_rng(3).normal(size=(3, 6, 4)).astype(np.float32)
    x[0] = 0
    x[1] = y[1]
    compare(
        nn.cosine_embedding_loss,
        F.cosine_embedding_loss,
        [x, y],
        1e-4,
        target=np.array([1, -1, 1, -1, 1, -1]),
        margin=0.1,
    )
    for p, swap in itertools.product((1.0, 2.0, 3.0), (False, True)):
        compare(nn.triplet_margin_loss, F.triplet_margin_loss, [x, y, z], 1e-4, p=p, swap=swap)
    for mine, theirs in zip(
        grad(lambda a, b: nn.cosine_similarity(a, b).sum(), argnums=(0, 1))(
            Tensor(x[1:]), Tensor(y[1:])
        ),
        torch.func.grad(lambda a, b: F.cosine_similarity(a, b).sum(), argnums=(0, 1))(
            torch.tensor(x[1:]), torch.tensor(y[1:])
        ),
        strict=True,
    ):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_labels", [0, 1, 5])
def test_ctc_losses_agree(n_labels: int) -> None:
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(12, 4, 6)).astype(np.float32)
    targets, counts = rng.integers(1, 6, (4, n_labels)), rng.integers(0, n_labels + 1, 4)
    counts[0], steps = n_labels, np.array([12, 9, 5, 1])
    if n_labels > 1:
        targets[0, 1] = targets[0, 0]

    def mine(x: Tensor, **options: Any) -> Tensor:
        return nn.ctc_loss(
            x.log_softmax(-1),
            Tensor(targets),
            Tensor(steps),
            Tensor(counts),
            zero_infinity=True,
            **options,
        )

    def theirs(x: Any, **options: Any) -> Any:
        given = (torch.tensor(targets), torch.tensor(steps), torch.tensor(counts))
        return F.ctc_loss(x.log_softmax(-1), *given, zero_infinity=True, **options)

    compare(mine, theirs, [logits], 1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_as_accurate_as_torch(dtype: str) -> None:
    logits, labels, _, _ = draw((64, 100), 5)
    x = Tensor(logits * 10).cast(dtype)
    wide = F.cross_entropy(
        torch.tensor(x.cast("float32").numpy(), dtype=torch.float64), torch.tensor(labels)
    ).item()
    found = nn.cross_entropy(x, Tensor(labels))
    theirs = F.cross_entropy(
        torch.tensor(x.cast("float32").numpy()).to(getattr(torch, dtype)), torch.tensor(labels)
    )
    assert abs(found.item() - wide) <= abs(theirs.item() - wide) + 1e-6
