"""Twenty steps of each optimizer, and each schedule, compared with torch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import svod_nn as nn
from svod_tensor import Tensor, jit

torch = pytest.importorskip("torch", reason="torch is not installed: tox run -e nn-torch")

SHAPES = {"w": (5, 7), "b": (7,), "k": (4, 3, 3, 3), "t": (9, 4)}
N_STEPS = 20

CASES = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "betas": (0.9, 0.5), "maximize": True}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True, "betas": (0.9, 0.5)}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.8, 0.9)}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {}),
    ("RMSprop", {"alpha": 0.9, "momentum": 0.5, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "eps": 1e-3, "momentum": 0.5}),
    ("Adagrad", {}),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    ),
    ("Adafactor", {}),
    (
        "Adafactor",
        {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 1.5, "weight_decay": 0.1},
    ),
]


def draw(seed: int, dtype: type = np.float64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in SHAPES.items()}


def train(
    name: str, options: dict[str, object], gradients: str, dtype: type
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Parameters after all steps, in svod and torch."""
    start = draw(0, dtype)
    ours = {n: Tensor(a.copy()).realize() for n, a in start.items()}
    theirs = {n: torch.nn.Parameter(torch.from_numpy(a.copy())) for n, a in start.items()}
    made = getattr(nn, name)(ours, **options)
    torch_made = getattr(torch.optim, name)(theirs.values(), **options)
    step = jit(lambda gradients: made.update(gradients))
    for t in range(1, N_STEPS + 1):
        given = draw(t, dtype)
        for n, p in theirs.items():
            p.grad = torch.from_numpy(given[n]) if gradients == "random" else (p.detach() - 1) * 2
        if gradients == "random":
            step({n: Tensor(g) for n, g in given.items()})
        else:
            # Of the sum of the squares of what is left to 1.
            step({n: (p - 1) * 2 for n, p in ours.items()})
        torch_made.step()
    return {n: p.numpy() for n, p in ours.items()}, {
        n: p.detach().numpy() for n, p in theirs.items()
    }


@pytest.mark.parametrize("gradients", ["random", "quadratic"])
@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)]
)
def test_twenty_steps_in_float64_are_those_of_torch(
    name: str, options: dict[str, object], gradients: str
) -> None:
    found, expected = train(name, options, gradients, np.float64)
    # torch keeps NAdam's product in float32.
    rtol, atol = (1e-5, 1e-7) if name == "NAdam" else (1e-9, 1e-11)
    for n, array in expected.items():
        np.testing.assert_allclose(found[n], array, rtol=rtol, atol=atol, err_msg=n)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_twenty_steps_in_float32_with_the_defaults_are_those_of_torch(name: str) -> None:
    found, expected = train(name, {}, "random", np.float32)
    for n, array in expected.items():
        np.testing.assert_allclose(found[n], array, rtol=2e-5, atol=2e-6, err_msg=n)


@pytest.mark.parametrize(
    "options", [{}, {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}]
)
def test_steps_of_muon_are_those_of_torch_but_for_its_bfloat16(options: dict[str, object]) -> None:
    start = {n: a for n, a in draw(0, np.float32).items() if a.ndim == 2}
    ours = {n: Tensor(a.copy()).realize() for n, a in start.items()}
    theirs = {n: torch.nn.Parameter(torch.from_numpy(a.copy())) for n, a in start.items()}
    made, torch_made = nn.Muon(ours, **options), torch.optim.Muon(theirs.values(), **options)
    for t in range(1, 6):
        given = draw(t, np.float32)
        for n, p in theirs.items():
            p.grad = torch.from_numpy(given[n])
        made.update({n: Tensor(given[n]) for n in ours})
        torch_made.step()
    for n, p in theirs.items():
        moved = p.detach().numpy() - start[n]
        np.testing.assert_allclose(
            ours[n].numpy() - start[n], moved, atol=0.03 * np.abs(moved).max(), err_msg=n
        )


def test_a_state_has_torch_s_names() -> None:
    for name, options in CASES:
        start = draw(0)
        theirs = {n: torch.nn.Parameter(torch.from_numpy(a)) for n, a in start.items()}
        torch_made = getattr(torch.optim, name)(theirs.values(), **options)
        for p in theirs.values():
            p.grad = torch.zeros_like(p)
        torch_made.step()
        made = getattr(nn, name)({n: Tensor(a) for n, a in start.items()}, **options)
        for number, n in enumerate(SHAPES):
            known = torch_made.state_dict()["state"].get(number, {})
            kept = {
                key: tuple(v.shape)
                for key, v in known.items()
                if v is not None and key not in ("step", "mu_product")
            }
            assert {key: t.shape for key, t in made.state["slots"].get(n, {}).items()} == kept


LAST = 12
SCHEDULES = {
    "linear": (
        lambda: nn.schedules.linear(0.1, 0.7, 5),
        lambda o: torch.optim.lr_scheduler.LinearLR(
            o, start_factor=0.1 / 0.7, end_factor=1.0, total_iters=5
        ),
    ),
    "cosine": (
        lambda: nn.schedules.cosine(0.7, LAST, end=0.1),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, LAST, eta_min=0.1),
    ),
    "restarts": (
        lambda: nn.schedules.cosine_restarts(0.7, 3, end=0.1),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, eta_min=0.1),
    ),
    "longer restarts": (
        lambda: nn.schedules.cosine_restarts(0.7, 2, factor=2),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, T_mult=2),
    ),
    "one cycle": (
        lambda: nn.schedules.one_cycle(0.7, LAST + 1),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(
            o, 0.7, total_steps=LAST + 1, cycle_momentum=False
        ),
    ),
    "one linear cycle": (
        lambda: nn.schedules.one_cycle(
            0.7,
            LAST + 1,
            pct_start=0.5,
            anneal_strategy="linear",
            div_factor=10,
            final_div_factor=100,
        ),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(
            o,
            0.7,
            total_steps=LAST + 1,
            pct_start=0.5,
            anneal_strategy="linear",
            div_factor=10,
            final_div_factor=100,
            cycle_momentum=False,
        ),
    ),
    "exponential": (
        lambda: nn.schedules.exponential(0.7, 0.8),
        lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.8),
    ),
    "steps": (
        lambda: nn.schedules.step_decay(0.7, 0.5, 3),
        lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
    ),
    "places": (
        lambda: nn.schedules.step_decay(0.7, 0.5, [2, 7]),
        lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 7], 0.5),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_torch_s_schedulers(name: str) -> None:
    make, torch_make = SCHEDULES[name]
    rate = jit(make())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no step of the optimizer is taken
        made = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.7)
        scheduler = torch_make(made)
        for n in range(LAST + 1):
            expected = made.param_groups[0]["lr"]
            np.testing.assert_allclose(
                rate(Tensor(np.asarray(float(n)))).item(),
                expected,
                rtol=1e-9,
                atol=1e-12,
                err_msg=str(n),
            )
            if n < LAST:
                scheduler.step()


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_plateau_is_that_of_torch(mode: str) -> None:
    options = {"factor": 0.5, "patience": 2, "threshold": 1e-2, "cooldown": 1}
    rate = nn.schedules.Plateau(0.8, min_rate=0.03, is_higher_better=mode == "max", **options)
    made = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(made, mode, min_lr=0.03, **options)
    seen = set()
    for measured in np.round(np.random.default_rng(3).uniform(1, 2, 60), 2).tolist():
        rate.observe(measured)
        scheduler.step(measured)
        np.testing.assert_allclose(rate(0).item(), made.param_groups[0]["lr"], rtol=1e-6)
        seen.add(round(rate.rate, 6))
    assert len(seen) > 4


def test_clipping_is_that_of_torch() -> None:
    for max_norm in (0.5, 1e3):
        arrays = draw(1, np.float32)
        theirs = [torch.nn.Parameter(torch.zeros(a.shape)) for a in arrays.values()]
        for p, a in zip(theirs, arrays.values(), strict=True):
            p.grad = torch.from_numpy(a.copy())
        expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
        clipped, norm = nn.clip_by_norm({n: Tensor(a) for n, a in arrays.items()}, max_norm)
        np.testing.assert_allclose(norm.item(), expected.item(), rtol=1e-6)
        for p, found in zip(theirs, clipped.values(), strict=True):
            np.testing.assert_allclose(found.numpy(), p.grad.numpy(), rtol=1e-6)
