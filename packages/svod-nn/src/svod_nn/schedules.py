"""Learning rates that change from step to step: functions of the number of steps, which are part of
the graph.

A schedule is called with the number of steps so far, from 0, and gives the rate of the next one.
Any such function of tensors may stand where an optimizer takes a learning rate; a captured step
needs one plan for all its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = [
    "Plateau",
    "Schedule",
    "constant",
    "cosine",
    "cosine_restarts",
    "exponential",
    "join",
    "linear",
    "one_cycle",
    "step_decay",
    "warm_up",
]

Schedule: TypeAlias = Callable[[Tensor | float], Tensor]
"""The rate after so many steps, as a tensor of one element."""


def constant(rate: float) -> Schedule:
    """The same rate in each step.

    Example:
        >>> from svod_nn import schedules
        >>> schedules.constant(0.5)(3).item()
        0.5
    """
    return lambda step: _count(step).full_like(rate)


def linear(start: float, end: float, n_steps: int) -> Schedule:
    """From `start` to `end` in equal steps, and there from then on.

    Args:
        start: the rate of the first step.
        end: the rate after `n_steps` steps.
        n_steps: how many steps lie between.

    Example:
        >>> from svod_nn import schedules
        >>> [schedules.linear(1.0, 0.0, 4)(n).item() for n in (0, 1, 4, 9)]
        [1.0, 0.75, 0.0, 0.0]
    """
    _check_steps("linear", n_steps)
    return lambda step: start + (end - start) * _get_part(_count(step), n_steps)


def cosine(start: float, n_steps: int, end: float = 0.0) -> Schedule:
    """From `start` to `end` along half a wave of the cosine, and there from then on.

    Source: I. Loshchilov, F. Hutter, SGDR, 2017, equation 5.

    Example:
        >>> from svod_nn import schedules
        >>> [round(schedules.cosine(1.0, 4)(n).item(), 4) for n in (0, 1, 2, 4, 9)]
        [1.0, 0.8536, 0.5, 0.0, 0.0]
    """
    _check_steps("cosine", n_steps)
    return lambda step: _get_cosine(start, end, _get_part(_count(step), n_steps))


def cosine_restarts(start: float, n_steps: int, factor: int = 1, end: float = 0.0) -> Schedule:
    """`cosine` again and again, each time `factor` times as long as before.

    Source: I. Loshchilov, F. Hutter, SGDR, 2017, section 3, as
    `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts` has it.

    Example:
        >>> from svod_nn import schedules
        >>> [round(schedules.cosine_restarts(1.0, 2, factor=2)(n).item(), 4) for n in (0, 1, 2, 4, 6)]
        [1.0, 0.5, 1.0, 0.5, 1.0]
    """
    _check_steps("cosine_restarts", n_steps)
    if factor < 1:
        raise LayerArgumentError(
            name="cosine_restarts", problem=f"a factor of {factor} makes the waves shorter"
        )

    def make_rate(step: Tensor | float) -> Tensor:
        count = _count(step)
        if factor == 1:
            return _get_cosine(start, end, count.remainder(n_steps) / n_steps)
        # The wave with number n begins after n_steps * (factor**n - 1) / (factor - 1) steps. A half
        # keeps the logarithm of what is a power away from the border between two numbers.
        number = (((count + 0.5) * ((factor - 1) / n_steps) + 1).log() / math.log(factor)).floor()
        scale = float(factor) ** number
        begin = (scale - 1) * (n_steps / (factor - 1))
        return _get_cosine(start, end, (count - begin) / (scale * n_steps))

    return make_rate


def one_cycle(
    highest: float,
    n_steps: int,
    *,
    up: float = 0.3,
    shape: Literal["cosine", "linear"] = "cosine",
    first: float = 25.0,
    last: float = 1e4,
) -> Schedule:
    """From a low rate up to the highest, and down to almost nothing.

    Args:
        highest: the highest rate.
        n_steps: how many steps there are.
        up: the part of them in which the rate grows.
        shape: of the way up and down.
        first: by how much the first rate is less than the highest.
        last: by how much the last rate is less than the first.

    Source: L. N. Smith, N. Topin, Super-convergence, 2018, as `torch.optim.lr_scheduler.OneCycleLR`
    has it with two phases.

    Example:
        >>> from svod_nn import schedules
        >>> rates = schedules.one_cycle(1.0, 11, up=0.5)
        >>> [round(rates(n).item(), 4) for n in (0, 4, 10)]
        [0.04, 0.9711, 0.0]
    """
    _check_steps("one_cycle", n_steps)
    low = highest / first
    lowest, turn = low / last, up * n_steps - 1
    get_between = _get_cosine if shape == "cosine" else _get_line

    def make_rate(step: Tensor | float) -> Tensor:
        count = _count(step)
        rising = get_between(low, highest, _get_part(count, turn))
        falling = get_between(highest, lowest, _get_part(count - turn, n_steps - 1 - turn))
        return (count <= turn).where(rising, falling)

    return make_rate


def exponential(start: float, factor: float) -> Schedule:
    """`start`, times `factor` after each step.

    Example:
        >>> from svod_nn import schedules
        >>> schedules.exponential(1.0, 0.5)(3).item()
        0.125
    """
    return lambda step: factor ** _count(step) * start


def step_decay(start: float, factor: float, every: int | Sequence[int]) -> Schedule:
    """`start`, times `factor` after each `every` steps, or after each of the numbers of steps that
    are given.

    Example:
        >>> from svod_nn import schedules
        >>> [schedules.step_decay(1.0, 0.5, 10)(n).item() for n in (9, 10, 20)]
        [1.0, 0.5, 0.25]
        >>> [schedules.step_decay(1.0, 0.5, [3, 5])(n).item() for n in (2, 3, 5, 50)]
        [1.0, 0.5, 0.25, 0.25]
    """
    if isinstance(every, int):
        _check_steps("step_decay", every)
        return lambda step: factor ** (_count(step) / every).floor() * start
    places = tuple(every)

    def make_rate(step: Tensor | float) -> Tensor:
        rate = constant(start)(step)
        for number, place in enumerate(sorted(places), 1):
            rate = (_count(step) >= place).where(start * factor**number, rate)
        return rate

    return make_rate


def join(schedules: Sequence[Schedule], n_steps: Sequence[int]) -> Schedule:
    """One schedule after the other; each counts its own steps from 0.

    Args:
        schedules: the schedules.
        n_steps: how many steps each of them has; the last one goes on, and has none.

    Example:
        >>> from svod_nn import schedules
        >>> rates = schedules.join([schedules.linear(0.0, 1.0, 2), schedules.constant(1.0), schedules.cosine(1.0, 4)], [2, 3])
        >>> [round(rates(n).item(), 4) for n in (0, 1, 2, 4, 5, 7)]
        [0.0, 0.5, 1.0, 1.0, 1.0, 0.5]
    """
    if len(n_steps) != len(schedules) - 1:
        raise LayerArgumentError(
            name="join",
            problem=(
                f"{len(schedules)} schedules need {len(schedules) - 1} numbers of steps, not"
                f" {len(n_steps)}"
            ),
        )

    def make_rate(step: Tensor | float) -> Tensor:
        count, begin = _count(step), 0
        rate = schedules[0](count)
        for schedule, length in zip(schedules[1:], n_steps, strict=True):
            begin += length
            # What is not used is computed all the same: of no step before the first.
            rate = (count >= begin).where(schedule((count - begin).maximum(0)), rate)
        return rate

    return make_rate


def warm_up(schedule: Schedule, n_steps: int, start: float = 0.0) -> Schedule:
    """`schedule` after `n_steps` steps in which the rate grows from `start` to its first rate.

    Example:
        >>> from svod_nn import schedules
        >>> rates = schedules.warm_up(schedules.cosine(1.0, 100), 4)
        >>> [round(rates(n).item(), 4) for n in (0, 1, 4, 54)]
        [0.0, 0.25, 1.0, 0.5]
    """
    _check_steps("warm_up", n_steps)

    def make_rate(step: Tensor | float) -> Tensor:
        count = _count(step)
        rising = start + (schedule(count.zeros_like()) - start) * (count / n_steps)
        return (count < n_steps).where(rising, schedule((count - n_steps).maximum(0)))

    return make_rate


class Plateau:
    """A rate that falls when what the caller measures no longer gets better; its value is a tensor
    that steps read.

    Args:
        rate: the first rate.
        factor: what it is multiplied by.
        patience: how many measurements in a row may be no better.
        threshold: by what part of the best one a measurement must be better.
        cooldown: how many measurements do not count after the rate fell.
        least: the rate does not fall below.
        is_higher_better: whether the largest measurement is the best one.

    Source: `torch.optim.lr_scheduler.ReduceLROnPlateau`, with a relative threshold.

    Example:
        >>> from svod_nn import schedules
        >>> rate = schedules.Plateau(0.5, patience=0)
        >>> for loss in (3.0, 2.0, 2.0):
        ...     rate.observe(loss)
        >>> round(rate(0).item(), 4)
        0.05
    """

    def __init__(
        self,
        rate: float,
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        cooldown: int = 0,
        least: float = 0.0,
        *,
        is_higher_better: bool = False,
    ) -> None:
        if not 0 <= factor < 1:
            raise LayerArgumentError(
                name="Plateau", problem=f"factor={factor!r} is not from 0 up to but without 1"
            )
        self.value = Tensor([float(rate)]).reshape(()).clone().realize()
        self.rate = float(rate)
        self.best = -math.inf if is_higher_better else math.inf
        self.n_bad = self.n_resting = 0
        self._factor, self._patience, self._threshold = factor, patience, threshold
        self._cooldown, self._least, self._is_higher_better = cooldown, least, is_higher_better

    def __call__(self, step: Tensor | float) -> Tensor:
        """The rate as it is when the step is computed."""
        return self.value

    def observe(self, measured: float) -> None:
        """Take a measurement, such as the loss of an epoch, and lower the rate if it is time; call
        it between steps.
        """
        margin = self._threshold * (1 if self._is_higher_better else -1)
        limit = self.best * (1 + margin)
        if measured > limit if self._is_higher_better else measured < limit:
            self.best, self.n_bad = measured, 0
        else:
            self.n_bad += 1
        if self.n_resting > 0:
            self.n_resting -= 1
            self.n_bad = 0
        if self.n_bad > self._patience:
            self.rate = max(self.rate * self._factor, self._least)
            self.value.assign(self.rate).realize()
            self.n_resting, self.n_bad = self._cooldown, 0


def _count(step: Tensor | float) -> Tensor:
    """The number of steps as a tensor of floats."""
    count = step if isinstance(step, Tensor) else Tensor(float(step))
    return count if count.dtype.is_float else count.cast("float32")


def _get_part(count: Tensor, n_steps: float) -> Tensor:
    return (count / n_steps).clip(0, 1)


def _get_cosine(start: float, end: float, part: Tensor) -> Tensor:
    return end + (start - end) * (1 + (part * math.pi).cos()) / 2


def _get_line(start: float, end: float, part: Tensor) -> Tensor:
    return start + (end - start) * part


def _check_steps(name: str, n_steps: int) -> None:
    if n_steps < 1:
        raise LayerArgumentError(name=name, problem=f"{n_steps} is no number of steps")
