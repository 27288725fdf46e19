"""The loss of a sequence of labels whose places in a longer sequence of predictions are unknown."""

from __future__ import annotations

import math
from typing import Final

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import Reduction, check_reduction, reduce_loss, rounds_once
from svod_tensor import Tensor, scan

__all__ = ["ctc_loss"]

_IMPOSSIBLE: Final = -1e30
"""The log-probability of what cannot happen: finite, so that differences and derivatives are."""


@rounds_once
def ctc_loss(
    log_probabilities: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-probability of all ways to say the labels, with repetitions and blanks between
    them.

    One loop over the time, in logarithms.

    Args:
        log_probabilities: of shape (time, batch, classes), or (time, classes).
        targets: the labels, integers of shape (batch, longest), or (longest,); what is behind the
            length of a row does not count.
        input_lengths: how many steps of the time count, of shape (batch,), or ().
        target_lengths: how many labels count, of shape (batch,), or ().
        blank: the class that is no label.
        reduction: "mean" divides each loss by the number of its labels (at least 1) first, and is
            the mean of that.
        zero_infinity: whether a target that does not fit into its time costs 0, and not infinity.

    Raises:
        LayerArgumentError: if the shapes do not fit, labels or lengths are no integers, or there is
            no such reduction.

    Source: Graves et al., Connectionist Temporal Classification (2006), section 4.1;
    `torch.nn.functional.ctc_loss`.

    Example:
        >>> from svod_nn import ctc_loss
        >>> from svod_tensor import Tensor
        >>> even = Tensor.full((2, 1, 2), 0.5).log()
        >>> ctc_loss(even, Tensor([[1]]), Tensor([2]), Tensor([1])).exp().round(4).numpy()  # three of four ways say it
        array(1.3333, dtype=float32)
    """
    check_reduction("ctc_loss", reduction)
    if log_probabilities.ndim == 2:
        if reduction == "none":
            one = [t.unsqueeze(0) for t in (targets, input_lengths, target_lengths)]
            return ctc_loss(
                log_probabilities.unsqueeze(1),
                *one,
                blank=blank,
                reduction=reduction,
                zero_infinity=zero_infinity,
            ).squeeze(0)
        log_probabilities, targets = log_probabilities.unsqueeze(1), targets.unsqueeze(0)
        input_lengths, target_lengths = input_lengths.unsqueeze(0), target_lengths.unsqueeze(0)
    _check(log_probabilities, targets, input_lengths, target_lengths)
    losses = _get_loss(log_probabilities, targets, input_lengths, target_lengths, blank)
    # Sums of what cannot happen are far below all that can.
    losses = losses.lt(-0.5 * _IMPOSSIBLE).where(losses, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        losses = losses.div(target_lengths.maximum(1).cast(losses.dtype))
    return reduce_loss(losses, reduction)


def _check(
    log_probabilities: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor
) -> None:
    shape = log_probabilities.shape
    if len(shape) != 3:
        raise LayerArgumentError(
            name="ctc_loss",
            problem=(
                f"log-probabilities of shape {shape} are not (time, batch, classes) or (time,"
                " classes)"
            ),
        )
    given = {
        "targets": (targets, 2),
        "input_lengths": (input_lengths, 1),
        "target_lengths": (target_lengths, 1),
    }
    for name, (tensor, ndim) in given.items():
        if not tensor.dtype.is_int or tensor.ndim != ndim or tensor.shape[0] != shape[1]:
            raise LayerArgumentError(
                name="ctc_loss",
                problem=(
                    f"{name} are {tensor.dtype} {tensor.shape}, which does not fit"
                    f" log-probabilities of shape {shape}"
                ),
                hint=(
                    "targets are integers of shape (batch, longest), lengths are integers of shape"
                    " (batch,)"
                ),
            )


def _get_loss(
    scores: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    """Equations 6 to 8 of the source; a state is a place in the labels with blanks around each."""
    n_steps, n_rows, _ = scores.shape
    n_labels = targets.shape[1]
    n_states = 2 * n_labels + 1
    place = Tensor.arange(n_states)
    # Labels behind the length of a row may be anything.
    is_label = place.remainder(2).eq(1).logical_and(place.lt(target_lengths.unsqueeze(1).mul(2)))
    spread = (
        targets.repeat_interleave(2, axis=1).pad(((0, 0), (0, 1)))
        if n_labels
        else targets.pad(((0, 0), (0, 1)))
    )
    states = is_label.where(spread, blank)
    # From a label to the next one without a blank between them, unless they are equal.
    is_new = is_label.logical_and(states.ne(_shift(states, 2, blank))).logical_and(place.ge(2))
    heard = scores.take_along_axis(
        states.unsqueeze(0).expand(n_steps, n_rows, n_states), 2
    ).maximum(_IMPOSSIBLE)

    def step(before: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        emitted, number = now
        skipped = is_new.where(_shift(before, 2, _IMPOSSIBLE), _IMPOSSIBLE)
        after = emitted.add(_add_logs(before, _shift(before, 1, _IMPOSSIBLE), skipped))
        # Before the first step, all is before the first state.
        first = place.lt(2).where(emitted, _IMPOSSIBLE)
        goes_on = number.lt(input_lengths).unsqueeze(1)
        return goes_on.where(number.eq(0).where(first, after), before), None

    start = place.eq(0).where(0.0, _IMPOSSIBLE).cast(scores.dtype).expand(n_rows, n_states)
    last, _ = scan(step, start, (heard, Tensor.arange(n_steps)))
    end = target_lengths.mul(2).unsqueeze(1)
    at_blank = last.take_along_axis(end, 1)
    at_label = end.gt(0).where(last.take_along_axis(end.sub(1).maximum(0), 1), _IMPOSSIBLE)
    # Without any step nothing but no label is said.
    return _add_logs(at_blank, at_label).squeeze(1).neg()


def _shift(values: Tensor, n_places: int, fill: float) -> Tensor:
    """The values of some places before, and `fill` where there is none."""
    size = values.shape[1]
    return values.pad(((0, 0), (n_places, 0)), constant_values=fill)[:, :size]


def _add_logs(first: Tensor, *others: Tensor) -> Tensor:
    """The logarithm of the sum of exponentials of finite numbers."""
    largest = first.detach()
    for other in others:
        largest = largest.maximum(other.detach())
    total = first.sub(largest).exp()
    for other in others:
        total = total.add(other.sub(largest).exp())
    return largest.add(total.log())
