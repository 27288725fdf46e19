"""Losses agree with their formulas in float64, and their derivatives with finite differences."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

import svod_nn as nn
from svod_nn import losses
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, grad, hessian, jit
from svod_tensor.errors import UserError

RNG = np.random.default_rng(13)
REDUCTIONS = ("mean", "sum", "none")
SHAPES = [(5,), (4, 5), (2, 3, 2, 2)]


def close(found: Tensor, wanted: Any, tolerance: float = 1e-10) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def reduce(losses: Any, reduction: str, weights: Any = None) -> Any:
    if reduction == "none":
        return losses
    return (
        losses.sum()
        if reduction == "sum"
        else losses.sum() / (losses.size if weights is None else weights.sum())
    )


def draw_classes(shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Logits, labels of which one is ignored if there are several, and weights of the classes."""
    axis = min(1, len(shape) - 1)
    labels = np.asarray(RNG.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :]))
    if labels.size > 1:
        labels.flat[1] = -100
    return RNG.normal(size=shape), labels, RNG.uniform(0.1, 2, shape[axis])


def cross_entropy(logits: Any, labels: Any, weight: Any, smoothing: float, reduction: str) -> Any:
    """The formula of PyTorch's page, position by position."""
    axis = min(1, logits.ndim - 1)
    log_p = np.moveaxis(log_softmax(logits, axis), axis, -1)
    losses, weights = np.zeros(labels.shape), np.zeros(labels.shape)
    for place in np.ndindex(labels.shape):
        label = labels[place]
        if label != -100:
            weights[place] = weight[label]
            smooth = -(weight * log_p[place]).sum() * smoothing / len(weight)
            losses[place] = -weight[label] * log_p[place][label] * (1 - smoothing) + smooth
    return reduce(losses, reduction, weights)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_of_labels_agrees_with_its_formula(
    shape: tuple[int, ...], reduction: Any
) -> None:
    logits, labels, weight = draw_classes(shape)
    # Weights and smoothing meet in the mean alone; each call is compiled.
    options = (
        itertools.product((None, weight), (0.0, 0.2))
        if reduction == "mean"
        else [(None, 0.0), (weight, 0.2)]
    )
    for used, smoothing in options:
        found = nn.cross_entropy(
            Tensor(logits),
            Tensor(labels),
            weight=None if used is None else Tensor(used),
            reduction=reduction,
            label_smoothing=smoothing,
        )
        close(
            found,
            cross_entropy(
                logits, labels, np.ones_like(weight) if used is None else used, smoothing, reduction
            ),
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_of_probabilities_agrees_with_its_formula(
    shape: tuple[int, ...], reduction: Any
) -> None:
    logits, labels, weight = draw_classes(shape)
    axis = min(1, len(shape) - 1)
    p = np.moveaxis(RNG.dirichlet(np.ones(shape[axis]), labels.shape), -1, axis)
    aligned = weight.reshape(-1, *(1,) * (len(shape) - axis - 1))
    for smoothing in (0.0, 0.2):
        smooth = p * (1 - smoothing) + smoothing / shape[axis]
        losses = -(smooth * aligned * log_softmax(logits, axis)).sum(axis)
        found = nn.cross_entropy(
            Tensor(logits),
            Tensor(p),
            weight=Tensor(weight),
            reduction=reduction,
            label_smoothing=smoothing,
        )
        close(found, reduce(losses, reduction))


@pytest.mark.parametrize("shape", SHAPES)
def test_nll_loss_of_log_softmax_is_cross_entropy(shape: tuple[int, ...]) -> None:
    logits, labels, weight = draw_classes(shape)
    x, y, w = Tensor(logits), Tensor(labels), Tensor(weight)
    axis = min(1, len(shape) - 1)
    for reduction in REDUCTIONS:
        wanted = nn.cross_entropy(x, y, weight=w, reduction=reduction)
        close(nn.nll_loss(x.log_softmax(axis), y, weight=w, reduction=reduction), wanted.numpy())


def test_another_label_may_be_the_ignored_one() -> None:
    x, y = Tensor(RNG.normal(size=(3, 4))), Tensor([0, 2, 1])
    close(nn.cross_entropy(x, y, ignore_index=2), nn.cross_entropy(x[::2], y[::2]).numpy())
    assert math.isnan(nn.cross_entropy(x, Tensor([-100] * 3)).item())
    assert nn.cross_entropy(x, Tensor([-100] * 3), reduction="sum").item() == 0
    (derivative,) = [
        grad(lambda x: nn.cross_entropy(x, Tensor([-100, 1, -100]), reduction="sum"))(x).numpy()
    ]
    assert not derivative[[0, 2]].any()
    assert derivative[1].all()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_a_label_that_is_no_class_gives_a_loss_of_nan(label_smoothing: float) -> None:
    x, y = Tensor([[0.5, 1.0, -1.0]] * 4), Tensor([2, 3, -1, -100])
    losses = nn.cross_entropy(x, y, reduction="none", label_smoothing=label_smoothing)
    assert np.isnan(losses.numpy()).tolist() == [False, True, True, False]
    assert np.isnan(nn.nll_loss(x, y, reduction="none").numpy()).tolist() == [
        False,
        True,
        True,
        False,
    ]
    assert np.isnan(nn.cross_entropy(x, y, weight=Tensor([1.0, 2.0, 3.0])).item())


def test_a_large_cross_entropy_is_a_few_kernels_and_no_one_hot_product() -> None:
    step = jit(lambda x, y: nn.cross_entropy(x, y))
    step(Tensor.zeros(64, 1000).realize(), Tensor.zeros(64, dtype="int64").realize())
    (plan,) = step.plans()
    assert plan.num_kernels <= 3


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_large_logits_have_finite_losses_and_derivatives(size: float) -> None:
    x, y = Tensor([[size, -size, 0.0], [-size, 0.0, size]]).cast("float32"), Tensor([0, 0])
    close(nn.cross_entropy(x, y, reduction="none"), np.float32([0, 2 * size]), 1e-6)
    found = grad(lambda x: nn.cross_entropy(x, y, reduction="sum"))(x)
    close(found, [[0, 0, 0], [-1, 0, 1]])
    z = x[0]
    target = Tensor([0.0, 0.0, 0.5])
    close(
        nn.binary_cross_entropy_with_logits(z, target, reduction="none"),
        np.float32([size, 0, math.log(2)]),
        1e-6,
    )
    close(
        grad(lambda z: nn.binary_cross_entropy_with_logits(z, target, reduction="sum"))(z),
        [1, 0, 0],
    )


def test_classes_with_infinite_logits_and_zero_targets_have_no_loss() -> None:
    x = Tensor([[0.0, -math.inf, 0.0]])
    close(nn.cross_entropy(x, Tensor([[0.5, 0.0, 0.5]])), math.log(2), 1e-6)
    close(nn.cross_entropy(x, Tensor([0])), math.log(2), 1e-6)
    assert nn.cross_entropy(x, Tensor([1])).item() == math.inf


NUMBERS: dict[str, tuple[Callable[..., Tensor], Callable[[Any, Any], Any]]] = {
    "mse": (nn.mse_loss, lambda x, y: (x - y) ** 2),
    "l1": (nn.l1_loss, lambda x, y: np.abs(x - y)),
    "smooth_l1": (
        lambda x, y, **o: nn.smooth_l1_loss(x, y, beta=0.5, **o),
        lambda x, y: np.where(np.abs(x - y) < 0.5, (x - y) ** 2, np.abs(x - y) - 0.25),
    ),
    "smooth_l1_0": (
        lambda x, y, **o: nn.smooth_l1_loss(x, y, beta=0, **o),
        lambda x, y: np.abs(x - y),
    ),
    "huber": (
        lambda x, y, **o: nn.huber_loss(x, y, delta=0.5, **o),
        lambda x, y: np.where(np.abs(x - y) <= 0.5, (x - y) ** 2 / 2, 0.5 * (np.abs(x - y) - 0.25)),
    ),
    "bce": (
        lambda x, y, **o: nn.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **o),
        lambda x, y: -(s(y) * np.log(s(x)) + s(-y) * np.log(s(-x))),
    ),
    "bce_logits": (
        lambda x, y, **o: nn.binary_cross_entropy_with_logits(
            x,
            y.sigmoid(),
            pos_weight=Tensor(np.arange(1.0, 6.0)),
            weight=Tensor(np.arange(2.0, 7.0)),
            **o,
        ),
        lambda x, y: (
            -np.arange(2.0, 7.0)
            * (np.arange(1.0, 6.0) * s(y) * np.log(s(x)) + s(-y) * np.log(s(-x)))
        ),
    ),
    "kl": (
        lambda x, y, **o: nn.kl_div(x, y.sigmoid(), **o),
        lambda x, y: s(y) * (np.log(s(y)) - x),
    ),
    "kl_log": (
        lambda x, y, **o: nn.kl_div(x, y, log_target=True, **o),
        lambda x, y: np.exp(y) * (y - x),
    ),
}


def s(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", NUMBERS)
def test_losses_of_numbers_agree_with_their_formulas(name: str, reduction: str) -> None:
    loss, formula = NUMBERS[name]
    for shape in ((5,), (1, 2, 5)) if reduction == "mean" else ((3, 5),):
        x, y = RNG.normal(size=(2, *shape))
        close(loss(Tensor(x), Tensor(y), reduction=reduction), reduce(formula(x, y), reduction))


def test_kl_div_may_be_of_the_batch() -> None:
    x, y = RNG.normal(size=(2, 4, 3))
    p, q = np.exp(log_softmax(x, 1)), np.exp(log_softmax(y, 1))
    wanted = (q * (np.log(q) - np.log(p))).sum(1).mean()
    close(nn.kl_div(Tensor(np.log(p)), Tensor(q), reduction="batchmean"), wanted)
    with pytest.raises(LayerArgumentError, match="needs a batch axis"):
        nn.kl_div(Tensor(0.0), Tensor(1.0), reduction="batchmean")


def test_a_target_of_zero_has_no_loss_but_a_derivative() -> None:
    log_p, target = Tensor([math.log(0.5), -math.inf]), Tensor([0.5, 0.0])
    close(nn.kl_div(log_p, target, reduction="none"), [0, 0])
    assert np.isfinite(grad(lambda t: nn.kl_div(log_p, t, reduction="sum"))(target).numpy()).all()


def test_a_certain_and_wrong_probability_costs_100() -> None:
    p, t = Tensor([0.0, 1.0, 0.0, 1.0]), Tensor([1.0, 0.0, 0.0, 1.0])
    close(nn.binary_cross_entropy(p, t, reduction="none"), [100, 100, 0, 0])
    found = grad(lambda p: nn.binary_cross_entropy(p, t, reduction="sum"))(p)
    close(found, np.float32([-1e12, 1e12, 0, 0]), 1e-6)


def test_losses_of_pairs_and_triples_agree_with_their_formulas() -> None:
    x, y, z = RNG.normal(size=(3, 6, 4))
    dots = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    close(nn.cosine_similarity(Tensor(x), Tensor(y)), dots)
    close(nn.cosine_similarity(Tensor(x.T), Tensor(y.T), axis=0), dots)
    # An operand that broadcasts along the axis is a vector of equal elements.
    for left, right, axis in (
        (x, y[:, :1], 1),
        (x[:1], y, 0),
        (x[0], y, 1),
        (x, y[0], -1),
        (x[:, :1], y[:1], 1),
    ):
        a, b = np.broadcast_arrays(left, right)
        cosines = (a * b).sum(axis) / (np.linalg.norm(a, axis=axis) * np.linalg.norm(b, axis=axis))
        close(nn.cosine_similarity(Tensor(left), Tensor(right), axis=axis), cosines)
    signs = np.array([1, -1, 1, -1, 1, -1])
    losses = np.where(signs == 1, 1 - dots, np.maximum(0, dots - 0.1))
    for reduction in REDUCTIONS:
        found = nn.cosine_embedding_loss(
            Tensor(x), Tensor(y), Tensor(signs), margin=0.1, reduction=reduction
        )
        close(found, reduce(losses, reduction), 1e-9)
        for p, swap in itertools.product((1, 2, 3) if reduction == "none" else (2,), (False, True)):
            near, far, other = (np.linalg.norm(d + 1e-6, p, axis=1) for d in (x - y, x - z, y - z))
            losses3 = np.maximum(near - (np.minimum(far, other) if swap else far) + 1, 0)
            triple = nn.triplet_margin_loss(
                Tensor(x), Tensor(y), Tensor(z), p=p, swap=swap, reduction=reduction
            )
            close(triple, reduce(losses3, reduction))


def test_vectors_of_zeros_have_a_cosine_and_derivatives() -> None:
    x, y = Tensor([[0.0, 0.0], [1.0, 1.0]]), Tensor([[1.0, 0.0], [1.0, 1.0]])
    close(nn.cosine_similarity(x, y), [0, 1], 1e-6)
    for loss in (
        lambda x: nn.cosine_similarity(x, y).sum(),
        lambda x: nn.cosine_embedding_loss(x, y, Tensor([1, 1])),
    ):
        assert np.isfinite(grad(loss)(x).numpy()).all()


def say(log_p: Any, labels: list[int], blank: int) -> float:
    """Minus the log-probability of all paths that say the labels, one by one."""
    found = [-math.inf]
    for path in itertools.product(range(log_p.shape[1]), repeat=log_p.shape[0]):
        if [c for c, _ in itertools.groupby(path) if c != blank] == labels:
            found.append(sum(log_p[t, c] for t, c in enumerate(path)))
    return -float(logsumexp(found))


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss_is_that_of_all_paths(blank: int) -> None:
    log_p = log_softmax(RNG.normal(size=(5, 4, 3)), 2)
    a, b = [c for c in range(3) if c != blank]
    rows = [[a, a, b], [b], [], [a, b, a]]
    lengths = [5, 3, 4, 2]
    targets = Tensor([[*row, 1, 0, 2][:3] for row in rows])
    counts, steps = Tensor([len(row) for row in rows]), Tensor(lengths)
    wanted = np.array(
        [
            say(log_p[:n, i], row, blank)
            for i, (row, n) in enumerate(zip(rows, lengths, strict=True))
        ]
    )
    assert wanted[3] == math.inf
    found = nn.ctc_loss(Tensor(log_p), targets, steps, counts, blank=blank, reduction="none")
    close(found, wanted, 1e-9)
    wanted[3] = 0
    for reduction in REDUCTIONS:
        means = (
            wanted / np.maximum([len(row) for row in rows], 1) if reduction == "mean" else wanted
        )
        found = nn.ctc_loss(
            Tensor(log_p),
            targets,
            steps,
            counts,
            blank=blank,
            reduction=reduction,
            zero_infinity=True,
        )
        close(found, reduce(means, reduction), 1e-9)
        one = nn.ctc_loss(
            Tensor(log_p[:, 0]), targets[0], steps[0], counts[0], blank=blank, reduction=reduction
        )
        close(one, wanted[0] / 3 if reduction == "mean" else wanted[0], 1e-9)


def test_ctc_loss_of_a_certain_prediction_is_zero() -> None:
    certain = Tensor(
        np.where(np.eye(3, dtype=bool)[[1, 0, 2]], 0.0, -np.inf)[:, None].astype(np.float32)
    )
    close(nn.ctc_loss(certain, Tensor([[1, 2]]), Tensor([3]), Tensor([2])), 0, 1e-6)


def test_ctc_loss_of_many_labels_is_short_kernels_that_are_repeated() -> None:
    step = jit(lambda log_p, targets, steps, counts: nn.ctc_loss(log_p, targets, steps, counts))
    log_p, targets = log_softmax(RNG.normal(size=(8, 3, 9)), 2), RNG.integers(1, 9, (3, 40))
    step(*map(Tensor, (log_p, targets, np.full(3, 8), np.full(3, 40))))
    (plan,) = step.plans()
    # All states of a row in one kernel were 81 times a dozen exponentials.
    assert max(len(kernel.source) for kernel in plan.kernels()) < 60_000


PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": lambda x, y: nn.cross_entropy(
        x, y.softmax(1), weight=Tensor([0.5, 1.0, 2.0]), label_smoothing=0.1
    ),
    "cross_entropy of labels": lambda x, y: nn.cross_entropy(
        x + y, Tensor([0, -100, 2, 1]), label_smoothing=0.1
    ),
    "nll_loss": lambda x, y: nn.nll_loss(
        x * y, Tensor([0, 1, 2, -100]), weight=Tensor([0.5, 1.0, 2.0])
    ),
    "cosine_embedding_loss": lambda x, y: nn.cosine_embedding_loss(
        x, y, Tensor([1, -1, 1, -1]), margin=-0.9
    ),
    "ctc_loss": lambda x, y: nn.ctc_loss(
        (x * y).log_softmax(1), Tensor([1, 2]), Tensor(4), Tensor(2)
    ),
    "triplet_margin_loss": lambda x, y: nn.triplet_margin_loss(x, y, y * x, swap=True),
    **{name: loss for name, (loss, _) in NUMBERS.items() if name != "bce_logits"},
}


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_agree_with_finite_differences(name: str) -> None:
    x, y = np.random.default_rng(7).normal(size=(2, 4, 3))
    step = jit(PAIRS[name])
    found = grad(PAIRS[name], argnums=(0, 1))(Tensor(x), Tensor(y))
    for number, derivative in enumerate(found):
        wanted = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            sides: list[float] = []
            for change in (1e-6, -1e-6):
                moved = [x.copy(), y.copy()]
                moved[number][place] += change
                sides.append(step(*map(Tensor, moved)).item())
            wanted[place] = (sides[0] - sides[1]) / 2e-6
        close(derivative, wanted, 2e-8)


NARROW: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": lambda x, y: nn.cross_entropy(
        x, Tensor([0, 1, 2, 0]), weight=y[0], label_smoothing=0.1
    ),
    "nll_loss": lambda x, y: nn.nll_loss(x, Tensor([0, 1, 2, 0]), weight=y[0]),
    "mse_loss": nn.mse_loss,
    "huber_loss": nn.huber_loss,
    "bce_logits": lambda x, y: nn.binary_cross_entropy_with_logits(x, y, pos_weight=y[0]),
    "kl_div": nn.kl_div,
    "cosine_similarity": nn.cosine_similarity,
    "triplet_margin_loss": lambda x, y: nn.triplet_margin_loss(x, y, x[::-1]),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("cross_entropy", "float16"),
        ("mse_loss", "float16"),
        *((name, "bfloat16") for name in NARROW),
    ],
)
def test_narrow_floats_are_computed_in_float32_and_rounded_once(name: str, dtype: str) -> None:
    x = Tensor(200 * RNG.normal(size=(4, 3))).cast(dtype)
    y = Tensor(RNG.uniform(0.1, 1, size=(4, 3))).cast(dtype)
    found = NARROW[name](x, y)
    assert found.dtype.name == dtype
    wide = NARROW[name](x.cast("float32"), y.cast("float32"))
    assert found.tolist() == wide.cast(dtype).tolist()
    assert NARROW[name](x, y.cast("float32")).dtype.name == "float32"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda x: nn.cross_entropy(x, Tensor([0, 1, 2])), "match"),
        (lambda x: nn.cross_entropy(x, Tensor([0.0, 1.0])), "match"),
        (lambda x: nn.cross_entropy(Tensor(1.0), Tensor(0)), "match"),
        (lambda x: nn.cross_entropy(Tensor(1.0), Tensor(1.0)), "no class axis"),
        (lambda x: nn.cross_entropy(x, Tensor([0, 1]), reduction="avg"), "invalid reduction 'avg'"),
        (lambda x: nn.mse_loss(x, x[:, :1]), "differ"),
        (lambda x: nn.huber_loss(x, x, delta=0.0), "delta"),
        (lambda x: nn.smooth_l1_loss(x, x, beta=-1.0), "beta"),
        (lambda x: nn.cosine_embedding_loss(x, x, Tensor([1, 1, 1])), "match"),
        (lambda x: nn.ctc_loss(x, Tensor([[1]]), Tensor([2]), Tensor([1])), "match"),
        (
            lambda x: nn.ctc_loss(x[0], Tensor([1]), Tensor(2), Tensor(1)),
            "expected log-probabilities",
        ),
        (lambda x: nn.kl_div(x, x, reduction="batch"), "batchmean"),
    ],
)
def test_invalid_arguments_of_losses_are_errors(
    call: Callable[[Tensor], Tensor], problem: str
) -> None:
    with pytest.raises(LayerArgumentError, match=problem):
        call(Tensor.zeros(2, 3))


ROWS, VECTOR = Tensor.ones(2, 3), Tensor([1, 2])
TENSORS_OF_LOSSES: dict[str, dict[str, Tensor]] = {
    "binary_cross_entropy": {"probability": ROWS, "target": ROWS, "weight": ROWS},
    "binary_cross_entropy_with_logits": {
        "logits": ROWS,
        "target": ROWS,
        "weight": ROWS,
        "pos_weight": ROWS,
    },
    "cosine_embedding_loss": {"x": ROWS, "y": ROWS, "target": VECTOR},
    "cosine_similarity": {"x": ROWS, "y": ROWS},
    "cross_entropy": {"logits": ROWS, "target": VECTOR, "weight": ROWS[0]},
    "ctc_loss": {
        "log_probabilities": Tensor.ones(4, 2, 3),
        "targets": Tensor([[1], [2]]),
        "input_lengths": VECTOR,
        "target_lengths": Tensor([1, 1]),
    },
    "huber_loss": {"prediction": ROWS, "target": ROWS},
    "kl_div": {"log_probabilities": ROWS, "target": ROWS},
    "l1_loss": {"prediction": ROWS, "target": ROWS},
    "mse_loss": {"prediction": ROWS, "target": ROWS},
    "nll_loss": {"log_probabilities": ROWS, "target": VECTOR, "weight": ROWS[0]},
    "smooth_l1_loss": {"prediction": ROWS, "target": ROWS},
    "triplet_margin_loss": {"anchor": ROWS, "positive": ROWS, "negative": ROWS},
}


def test_every_loss_has_examples_of_its_tensors() -> None:
    assert set(TENSORS_OF_LOSSES) == {
        name for name in losses.__all__ if inspect.isfunction(getattr(losses, name))
    }


@pytest.mark.parametrize("name", TENSORS_OF_LOSSES)
def test_tensors_of_a_loss_can_be_passed_by_name(name: str) -> None:
    loss, tensors = getattr(nn, name), TENSORS_OF_LOSSES[name]
    options = {key: t for key, t in tensors.items() if "weight" in key}
    args = [t for key, t in tensors.items() if key not in options]
    close(loss(**tensors), loss(*args, **options).numpy(), 0)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name, tensors in TENSORS_OF_LOSSES.items() for parameter in tensors],
)
@pytest.mark.parametrize("value", ["a", object(), [1.0], np.ones((2, 3)), np.ones(2, np.int64)])
def test_a_loss_of_something_else_than_a_tensor_says_so(
    name: str, parameter: str, value: object
) -> None:
    with pytest.raises(LayerArgumentError, match=f"^{name}: expected a tensor as {parameter}, got"):
        getattr(nn, name)(**{**TENSORS_OF_LOSSES[name], parameter: value})


def test_the_error_of_a_loss_names_the_argument_that_is_no_tensor() -> None:
    with pytest.raises(LayerArgumentError) as caught:
        nn.mse_loss(ROWS, 3)  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == (
        "mse_loss: expected a tensor as target, got int\n  hint: write Tensor(target)"
    )


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cosine_similarity", lambda x: nn.cosine_similarity(x, x, axis=2)),
        ("cosine_similarity", lambda x: nn.cosine_similarity(x, Tensor.ones(5), axis=0)),
        ("cosine_similarity", lambda x: nn.cosine_similarity(x.cast("float16"), x[0], axis=2)),
        ("cross_entropy", lambda x: nn.cross_entropy(x.gt(0), Tensor([0, 1]))),
        ("binary_cross_entropy", lambda x: nn.binary_cross_entropy(x.gt(0), x)),
        ("triplet_margin_loss", lambda x: nn.triplet_margin_loss(x.gt(0), x.gt(0), x.gt(0))),
        ("mse_loss", lambda x: nn.mse_loss(x, x[:1])),
    ],
)
def test_errors_name_the_loss_and_not_an_operation_inside_of_it(
    name: str, call: Callable[[Tensor], Tensor]
) -> None:
    with pytest.raises(UserError) as caught:
        call(Tensor.zeros(2, 3))
    assert str(caught.value).startswith(f"{name}: ")
    assert not str(caught.value).startswith(f"{name}: {name}")
    assert caught.value.operation == name


@pytest.mark.parametrize("logit", [-1000.0, -89.0, 0.0, 89.0, 1000.0])
@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
def test_losses_of_logits_have_second_derivatives_at_any_number(
    logit: float, target: float
) -> None:
    def loss(x: Tensor) -> Tensor:
        return nn.binary_cross_entropy_with_logits(x, Tensor([target]))

    expected = np.exp(-abs(logit)) / (1 + np.exp(-abs(logit))) ** 2
    np.testing.assert_allclose(hessian(loss)(Tensor([logit])).numpy(), [[expected]], atol=1e-7)
    rows = (
        hessian(lambda x: nn.cross_entropy(x, Tensor([1])))(Tensor([[logit, 0.0]]))
        .numpy()
        .reshape(2, 2)
    )
    np.testing.assert_allclose(rows, np.array([[1, -1], [-1, 1]]) * expected, atol=1e-7)


def test_a_probability_of_zero_has_a_derivative_in_a_cross_entropy() -> None:
    logits = Tensor([[0.0, 0.0], [0.0, -float("inf")]])
    found = grad(lambda t: nn.cross_entropy(logits, t, reduction="sum"))(
        Tensor([[1.0, 0.0], [1.0, 0.0]])
    )
    np.testing.assert_allclose(found.numpy(), [[np.log(2), np.log(2)], [0.0, 0.0]], rtol=1e-6)
