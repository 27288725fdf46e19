"""Rates beside their formulas in Python; `tests/test_optimizers_beside_torch.py` compares them with
torch's.
"""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import svod_nn as nn
from svod_nn import schedules
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, jit


def half_wave(start, end, part):
    return end + (start - end) * (1 + math.cos(math.pi * min(part, 1))) / 2


FORMULAS = {
    "constant": (schedules.constant(0.3), lambda n: 0.3),
    "linear": (schedules.linear(0.1, 0.5, 4), lambda n: 0.1 + 0.4 * min(n / 4, 1)),
    "cosine": (schedules.cosine(0.5, 6, end=0.1), lambda n: half_wave(0.5, 0.1, n / 6)),
    "restarts": (schedules.cosine_restarts(1.0, 4), lambda n: half_wave(1, 0, n % 4 / 4)),
    "longer restarts": (
        schedules.cosine_restarts(1.0, 1, factor=3),
        lambda n: half_wave(
            1, 0, next((n - b) / w for b, w in ((0, 1), (1, 3), (4, 9), (13, 27)) if n < b + w)
        ),
    ),
    "exponential": (schedules.exponential(2.0, 0.7), lambda n: 2 * 0.7**n),
    "steps": (schedules.step_decay(1.0, 0.5, 3), lambda n: 0.5 ** (n // 3)),
    "places": (schedules.step_decay(1.0, 0.5, [7, 2]), lambda n: 0.5 ** ((n >= 2) + (n >= 7))),
    "warm-up": (
        schedules.warm_up(schedules.cosine(0.8, 8), 3, start=0.2),
        lambda n: 0.2 + 0.6 * n / 3 if n < 3 else half_wave(0.8, 0, (n - 3) / 8),
    ),
    "joined": (
        schedules.join(
            [schedules.linear(0, 1, 2), schedules.constant(1), schedules.exponential(1, 0.5)],
            [2, 3],
        ),
        lambda n: n / 2 if n < 2 else 1 if n < 5 else 0.5 ** (n - 5),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_rates_are_those_of_the_formula_in_one_plan(name):
    schedule, formula = FORMULAS[name]
    captured = jit(schedule)
    for n in range(14):
        np.testing.assert_allclose(
            captured(Tensor(np.asarray(float(n)))).item(), formula(n), rtol=1e-9, atol=1e-12
        )
    # Each number of these is a program of its own.
    for n in (0, 3, 8):
        np.testing.assert_allclose(schedule(n).item(), formula(n), rtol=1e-5, atol=1e-6)
    assert captured.n_captures == 1


def test_a_plateau_lowers_its_rate_between_steps_that_have_one_plan():
    rate = schedules.Plateau(0.8, factor=0.5, patience=1, min_rate=0.3)
    captured = jit(lambda x: x * rate(0))
    seen = []
    for loss in (5, 4, 4, 4, 3, 3, 3, 3, 3):
        rate.observe(loss)
        seen.append(round(captured(Tensor([1.0])).item(), 6))
    assert seen == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.3, 0.3, 0.3]
    assert captured.n_captures == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.linear(1, 0, 0), "linear: the number of steps must be positive, got 0"),
        (
            lambda: schedules.cosine_restarts(1, 2, factor=0),
            "cosine_restarts: factor must be at least 1, got 0",
        ),
        (
            lambda: schedules.join([schedules.constant(1)], [3]),
            "join: 1 schedules need 0 step counts, got 1",
        ),
        (
            lambda: schedules.Plateau(1, factor=1),
            "Plateau: factor must be in .*, got 1",
        ),
    ],
)
def test_invalid_arguments_of_schedules_are_errors(make, message):
    with pytest.raises(LayerArgumentError, match=message):
        make()


SCHEDULES = [
    schedules.constant(0.5),
    schedules.linear(1.0, 0.0, 4),
    schedules.cosine(1.0, 4, end=0.1),
    schedules.cosine_restarts(1.0, 2, factor=2),
    schedules.one_cycle(1.0, 11, pct_start=0.5),
    schedules.exponential(1.0, 0.5),
    schedules.step_decay(1.0, 0.5, [3, 5]),
    schedules.join([schedules.constant(1.0), schedules.cosine(1.0, 4)], [2]),
    schedules.warm_up(schedules.cosine(1.0, 100), 4),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_an_optimizer_with_a_schedule_is_pickled(schedule: schedules.Schedule):
    optimizer = nn.AdamW(nn.Linear(2, 1), lr=schedule)
    restored = pickle.loads(pickle.dumps(optimizer)).groups[-1].rule.lr
    assert repr(restored) == repr(schedule)
    assert [restored(n).item() for n in (0, 3, 9)] == [schedule(n).item() for n in (0, 3, 9)]


def test_a_schedule_is_shown_as_the_call_that_made_it():
    assert repr(schedules.cosine(1.0, 4, end=0.1)) == "cosine(1.0, 4, end=0.1)"
