"""Learning rate schedules: functions of the step that are part of the graph.

A schedule is called with the number of completed steps, from 0, and returns the learning rate of
the next step. Optimizers accept any such function of tensors as `lr`; a captured step has one plan
for all learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Literal, ParamSpec, TypeAlias

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
"""Function from the number of completed steps to the learning rate, a tensor of one element."""


P = ParamSpec("P")


class _Recorded:
    """Schedule that is pickled, and shown, as the call that made it."""

    def __init__(
        self,
        make: Callable[..., Schedule],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        rate: Schedule,
    ) -> None:
        self._make, self._args, self._kwargs, self._rate = make, args, kwargs, rate

    def __call__(self, step: Tensor | float) -> Tensor:
        return self._rate(step)

    def __reduce__(self) -> tuple[Callable[[], Schedule], tuple[()]]:
        return partial(self._make, *self._args, **self._kwargs), ()

    def __repr__(self) -> str:
        shown = [repr(a) for a in self._args] + [f"{k}={v!r}" for k, v in self._kwargs.items()]
        return f"{self._make.__name__}({', '.join(shown)})"


def _recorded(make: Callable[P, Schedule]) -> Callable[P, Schedule]:
    """Decorator of a function that makes schedules, which makes them picklable."""

    @wraps(make)
    def make_recorded(*args: P.args, **kwargs: P.kwargs) -> Schedule:
        return _Recorded(make_recorded, args, kwargs, make(*args, **kwargs))

    return make_recorded


@_recorded
def constant(rate: float) -> Schedule:
    """Constant learning rate.

    Args:
        rate: learning rate of all steps.

    Example:
        >>> from svod_nn import schedules
        >>> schedules.constant(0.5)(3).item()
        0.5
    """
    # A tensor even for a constant: a schedule's result has one type, also as a branch of `where`.
    return lambda step: _count(step).full_like(rate)


@_recorded
def linear(start: float, end: float, n_steps: int) -> Schedule:
    """Linear change from `start` to `end` over `n_steps` steps; constant afterwards.

    Args:
        start: learning rate of the first step.
        end: learning rate after `n_steps` steps.
        n_steps: number of steps of the change.

    Raises:
        LayerArgumentError: if `n_steps` is not positive.

    Source: `torch.optim.lr_scheduler.LinearLR`.

    Example:
        >>> from svod_nn import schedules
        >>> [schedules.linear(1.0, 0.0, 4)(n).item() for n in (0, 1, 4, 9)]
        [1.0, 0.75, 0.0, 0.0]
    """
    _check_steps("linear", n_steps)
    return lambda step: start + (end - start) * _get_progress(_count(step), n_steps)


@_recorded
def cosine(start: float, n_steps: int, end: float = 0.0) -> Schedule:
    """Cosine annealing from `start` to `end` over `n_steps` steps; constant afterwards.

    The rate is `end + (start - end) * (1 + cos(pi * step / n_steps)) / 2`.

    Args:
        start: learning rate of the first step.
        n_steps: number of steps of the decay.
        end: learning rate after `n_steps` steps.

    Raises:
        LayerArgumentError: if `n_steps` is not positive.

    Source: I. Loshchilov, F. Hutter, SGDR, 2017, equation 5.

    Example:
        >>> from svod_nn import schedules
        >>> [round(schedules.cosine(1.0, 4)(n).item(), 4) for n in (0, 1, 2, 4, 9)]
        [1.0, 0.8536, 0.5, 0.0, 0.0]
    """
    _check_steps("cosine", n_steps)
    return lambda step: _interpolate_cosine(start, end, _get_progress(_count(step), n_steps))


@_recorded
def cosine_restarts(start: float, n_steps: int, factor: int = 1, end: float = 0.0) -> Schedule:
    """Cosine annealing with warm restarts (SGDR).

    Args:
        start: learning rate after each restart.
        n_steps: number of steps until the first restart.
        factor: factor of the cycle length after each restart.
        end: minimum learning rate.

    Raises:
        LayerArgumentError: if `n_steps` is not positive, or `factor` is less than 1.

    Source: I. Loshchilov, F. Hutter, SGDR, 2017, section 3, as in
    `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`.

    Example:
        >>> from svod_nn import schedules
        >>> [round(schedules.cosine_restarts(1.0, 2, factor=2)(n).item(), 4) for n in (0, 1, 2, 4, 6)]
        [1.0, 0.5, 1.0, 0.5, 1.0]
    """
    _check_steps("cosine_restarts", n_steps)
    if factor < 1:
        raise LayerArgumentError(
            name="cosine_restarts", problem=f"factor must be at least 1, got {factor}"
        )

    def make_rate(step: Tensor | float) -> Tensor:
        count = _count(step)
        if factor == 1:
            # Exact for integers, unlike the logarithm below, which has no base 1.
            return _interpolate_cosine(start, end, count.remainder(n_steps) / n_steps)
        # Cycle n begins after n_steps * (factor**n - 1) / (factor - 1) steps. Half a step is added
        # so that rounding of the logarithm cannot put the first step of a cycle into the last one.
        cycle = (((count + 0.5) * ((factor - 1) / n_steps) + 1).log() / math.log(factor)).floor()
        scale = float(factor) ** cycle
        begin = (scale - 1) * (n_steps / (factor - 1))
        return _interpolate_cosine(start, end, (count - begin) / (scale * n_steps))

    return make_rate


@_recorded
def one_cycle(
    max_rate: float,
    n_steps: int,
    *,
    pct_start: float = 0.3,
    anneal_strategy: Literal["cosine", "linear"] = "cosine",
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """One-cycle policy: the rate rises to `max_rate`, then falls far below its initial value.

    Args:
        max_rate: highest learning rate.
        n_steps: number of steps of the cycle.
        pct_start: fraction of the steps in which the rate rises.
        anneal_strategy: curve of the rise and the fall, "cosine" or "linear".
        div_factor: the initial rate is `max_rate / div_factor`.
        final_div_factor: the final rate is the initial rate divided by `final_div_factor`.

    Raises:
        LayerArgumentError: if `n_steps` is not positive, or `anneal_strategy` is unknown.

    Source: L. N. Smith, N. Topin, Super-convergence, 2018, as in
    `torch.optim.lr_scheduler.OneCycleLR` with two phases.

    Example:
        >>> from svod_nn import schedules
        >>> rates = schedules.one_cycle(1.0, 11, pct_start=0.5)
        >>> [round(rates(n).item(), 4) for n in (0, 4, 10)]
        [0.04, 0.9711, 0.0]
    """
    _check_steps("one_cycle", n_steps)
    if anneal_strategy not in ("cosine", "linear"):
        problem = f"anneal_strategy must be 'cosine' or 'linear', got {anneal_strategy!r}"
        raise LayerArgumentError(name="one_cycle", problem=problem)
    initial_rate = max_rate / div_factor
    # As in torch, the peak is one step before the fraction, and the last step is n_steps - 1.
    final_rate, peak = initial_rate / final_div_factor, pct_start * n_steps - 1
    interpolate = _interpolate_cosine if anneal_strategy == "cosine" else _interpolate_linear

    def make_rate(step: Tensor | float) -> Tensor:
        count = _count(step)
        fall_progress = _get_progress(count - peak, n_steps - 1 - peak)
        # Both parts are computed and one is chosen: the step may be a tensor, whose value is
        # unknown.
        rising = interpolate(initial_rate, max_rate, _get_progress(count, peak))
        falling = interpolate(max_rate, final_rate, fall_progress)
        return (count <= peak).where(rising, falling)

    return make_rate


@_recorded
def exponential(start: float, factor: float) -> Schedule:
    """Exponential decay: `start * factor ** step`.

    Args:
        start: learning rate of the first step.
        factor: factor of the rate after each step.

    Source: `torch.optim.lr_scheduler.ExponentialLR`.

    Example:
        >>> from svod_nn import schedules
        >>> schedules.exponential(1.0, 0.5)(3).item()
        0.125
    """
    return lambda step: factor ** _count(step) * start


@_recorded
def step_decay(start: float, factor: float, every: int | Sequence[int]) -> Schedule:
    """Step decay: multiply the rate by `factor` at regular intervals, or at milestones.

    Args:
        start: learning rate of the first step.
        factor: factor of the rate at each decay.
        every: number of steps between decays, or a sequence of steps at which the rate decays.

    Raises:
        LayerArgumentError: if `every` is not positive.

    Source: `torch.optim.lr_scheduler.StepLR` and `MultiStepLR`.

    Example:
        >>> from svod_nn import schedules
        >>> def list_rates(schedule: schedules.Schedule, *steps: int) -> list[float]:
        ...     return [schedule(step).item() for step in steps]
        >>> list_rates(schedules.step_decay(1.0, 0.5, 10), 9, 10, 20)
        [1.0, 0.5, 0.25]
        >>> list_rates(schedules.step_decay(1.0, 0.5, [3, 5]), 2, 3, 5, 50)
        [1.0, 0.5, 0.25, 0.25]
    """
    if isinstance(every, int):
        _check_steps("step_decay", every)
        # A power of the count and not a running product, so that any step can be asked for, as
        # after a restart.
        return lambda step: factor ** (_count(step) / every).floor() * start
    milestones = tuple(every)

    def make_rate(step: Tensor | float) -> Tensor:
        rate = constant(start)(step)
        # Sorted: a later milestone overrides the rates of earlier ones.
        for n_decays, milestone in enumerate(sorted(milestones), 1):
            rate = (_count(step) >= milestone).where(start * factor**n_decays, rate)
        return rate

    return make_rate


@_recorded
def join(schedules: Sequence[Schedule], n_steps: Sequence[int]) -> Schedule:
    """Sequence of schedules, each of which counts its own steps from 0.

    Args:
        schedules: schedules in their order.
        n_steps: number of steps of each schedule except the last, which continues forever.

    Raises:
        LayerArgumentError: if `n_steps` does not have one element less than `schedules`.

    Source: `torch.optim.lr_scheduler.SequentialLR`.

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
                f"{len(schedules)} schedules need {len(schedules) - 1} step counts, got"
                f" {len(n_steps)}"
            ),
        )

    def make_rate(step: Tensor | float) -> Tensor:
        count, begin = _count(step), 0
        rate = schedules[0](count)
        for schedule, length in zip(schedules[1:], n_steps, strict=True):
            begin += length
            # Both branches of `where` are computed: no schedule may see a negative step.
            rate = (count >= begin).where(schedule((count - begin).maximum(0)), rate)
        return rate

    return make_rate


@_recorded
def warm_up(schedule: Schedule, n_steps: int, start: float = 0.0) -> Schedule:
    """Linear warm-up to the initial rate of a schedule, followed by the schedule.

    Args:
        schedule: schedule after the warm-up; counts its steps from 0.
        n_steps: number of steps of the warm-up.
        start: learning rate of the first step.

    Raises:
        LayerArgumentError: if `n_steps` is not positive.

    Example:
        >>> from svod_nn import schedules
        >>> rates = schedules.warm_up(schedules.cosine(1.0, 100), 4)
        >>> [round(rates(n).item(), 4) for n in (0, 1, 4, 54)]
        [0.0, 0.25, 1.0, 0.5]
    """
    _check_steps("warm_up", n_steps)

    def make_rate(step: Tensor | float) -> Tensor:
        count = _count(step)
        # Up to the schedule's first rate, so that there is no jump at its beginning.
        rising = start + (schedule(count.zeros_like()) - start) * (count / n_steps)
        return (count < n_steps).where(rising, schedule((count - n_steps).maximum(0)))

    return make_rate


class Plateau:
    """Learning rate that is reduced when a metric stops improving.

    The rate is held in a tensor that steps read, so that a captured step needs one plan.

    Args:
        rate: initial learning rate.
        factor: factor of the rate at each reduction.
        patience: number of consecutive metrics without improvement before a reduction.
        threshold: relative change of the best metric that counts as an improvement.
        cooldown: number of metrics to ignore after a reduction.
        min_rate: lower bound of the rate.
        is_higher_better: if True, larger metrics are better.

    Raises:
        LayerArgumentError: if `factor` is not in [0, 1).

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
        min_rate: float = 0.0,
        *,
        is_higher_better: bool = False,
    ) -> None:
        if not 0 <= factor < 1:
            raise LayerArgumentError(
                name="Plateau", problem=f"factor must be in [0, 1), got {factor!r}"
            )
        # Memory of its own, because it is assigned to: a constant's memory may be shared.
        self.value = Tensor([float(rate)]).reshape(()).clone().realize()
        self.rate = float(rate)
        self.best = -math.inf if is_higher_better else math.inf
        self.n_bad = self.n_resting = 0
        self._factor, self._patience, self._threshold = factor, patience, threshold
        self._cooldown, self._min_rate = cooldown, min_rate
        self._is_higher_better = is_higher_better

    def __call__(self, step: Tensor | float) -> Tensor:
        """Return the tensor of the current rate; the step is ignored."""
        return self.value

    def observe(self, metric: float) -> None:
        """Record a metric, such as the loss of an epoch, and reduce the rate on a plateau.

        Call it between steps, not inside a captured one.
        """
        # Relative, as losses differ by orders of magnitude.
        margin = self._threshold * (1 if self._is_higher_better else -1)
        limit = self.best * (1 + margin)
        if metric > limit if self._is_higher_better else metric < limit:
            self.best, self.n_bad = metric, 0
        else:
            self.n_bad += 1
        # A lower rate needs time to take effect: until then no observation counts as bad.
        if self.n_resting > 0:
            self.n_resting -= 1
            self.n_bad = 0
        # As in torch, `patience` bad observations are still tolerated.
        if self.n_bad > self._patience:
            self.rate = max(self.rate * self._factor, self._min_rate)
            self.value.assign(self.rate).realize()
            self.n_resting, self.n_bad = self._cooldown, 0


def _count(step: Tensor | float) -> Tensor:
    """Convert the number of steps to a tensor of floats."""
    count = step if isinstance(step, Tensor) else Tensor(float(step))
    # Floats are kept: optimizers count in float64.
    return count if count.dtype.is_float else count.cast("float32")


def _get_progress(count: Tensor, n_steps: float) -> Tensor:
    # Clipped: training that goes on after the last step keeps the final rate, where a cosine would
    # rise again.
    return (count / n_steps).clip(0, 1)


def _interpolate_cosine(start: float, end: float, progress: Tensor) -> Tensor:
    return end + (start - end) * (1 + (progress * math.pi).cos()) / 2


def _interpolate_linear(start: float, end: float, progress: Tensor) -> Tensor:
    return start + (end - start) * progress


def _check_steps(name: str, n_steps: int) -> None:
    if n_steps < 1:
        raise LayerArgumentError(
            name=name, problem=f"the number of steps must be positive, got {n_steps}"
        )
