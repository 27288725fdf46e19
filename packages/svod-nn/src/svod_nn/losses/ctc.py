"""Connectionist temporal classification: a loss of label sequences without known alignment."""

from __future__ import annotations

import math
from typing import Final

from svod_nn.errors import LayerArgumentError
from svod_nn.losses._reduction import Reduction, check_reduction, loss_function, reduce_loss
from svod_tensor import Tensor, scan

__all__ = ["ctc_loss"]

_LOG_ZERO: Final = -1e30
"""Log-probability of impossible states: finite, so that differences and derivatives are finite."""


@loss_function
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
    """CTC loss: the negative log-probability of all alignments of the targets to the inputs.

    An alignment repeats labels and inserts blanks between them. The forward recursion is one loop
    over time, in log space.

    Args:
        log_probabilities: log-probabilities of shape (time, batch, classes), or (time, classes).
        targets: labels, integers of shape (batch, longest), or (longest,), padded with any values.
        input_lengths: number of time steps of each sequence, of shape (batch,), or ().
        target_lengths: number of labels of each target, of shape (batch,), or ().
        blank: class index of the blank.
        reduction: "mean", "sum" or "none". "mean" divides each loss by its target length (at least
            1), then averages over the batch.
        zero_infinity: if True, the loss of a target that is too long for its input is 0, not
            infinity.

    Raises:
        LayerArgumentError: if the shapes do not match, labels or lengths are not integers, or the
            reduction is unknown.

    Source: Graves et al., Connectionist Temporal Classification, 2006, section 4.1, as in
    `torch.nn.functional.ctc_loss`.

    Example:
        >>> from svod_nn import ctc_loss
        >>> from svod_tensor import Tensor
        >>> even = Tensor.full((2, 1, 2), 0.5).log()
        >>> ctc_loss(even, Tensor([[1]]), Tensor([2]), Tensor([1])).exp().round(4).numpy()  # 3 of 4 paths
        array(1.3333, dtype=float32)
    """
    check_reduction("ctc_loss", reduction)
    if log_probabilities.ndim == 2:
        if reduction == "none":
            batched = [t.unsqueeze(0) for t in (targets, input_lengths, target_lengths)]
            return ctc_loss(
                log_probabilities.unsqueeze(1),
                *batched,
                blank=blank,
                reduction=reduction,
                zero_infinity=zero_infinity,
            ).squeeze(0)
        log_probabilities, targets = log_probabilities.unsqueeze(1), targets.unsqueeze(0)
        input_lengths, target_lengths = input_lengths.unsqueeze(0), target_lengths.unsqueeze(0)
    _check(log_probabilities, targets, input_lengths, target_lengths)
    losses = _run_forward(log_probabilities, targets, input_lengths, target_lengths, blank)
    # Sums that contain `_LOG_ZERO` are far below the log-probability of any possible alignment.
    losses = losses.lt(-0.5 * _LOG_ZERO).where(losses, 0.0 if zero_infinity else math.inf)
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
                "expected log-probabilities of shape (time, batch, classes) or (time, classes), got"
                f" {shape}"
            ),
        )
    expected = {
        "targets": (targets, 2),
        "input_lengths": (input_lengths, 1),
        "target_lengths": (target_lengths, 1),
    }
    for name, (tensor, ndim) in expected.items():
        if not tensor.dtype.is_int or tensor.ndim != ndim or tensor.shape[0] != shape[1]:
            raise LayerArgumentError(
                name="ctc_loss",
                problem=(
                    f"{name} {tensor.dtype} {tensor.shape} do not match log-probabilities of shape"
                    f" {shape}"
                ),
                hint=(
                    "targets are integers of shape (batch, longest), lengths are integers of shape"
                    " (batch,)"
                ),
            )


def _run_forward(
    scores: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    """Compute the loss of each sequence by the forward recursion, equations 6 to 8 of the source.

    A state is an index into the target extended by a blank before, between and after its labels.
    """
    n_steps, n_rows, _ = scores.shape
    n_labels = targets.shape[1]
    n_states = 2 * n_labels + 1
    state = Tensor.arange(n_states)
    # The padding of a target may be anything: it must not be used as a class index.
    is_label = state.remainder(2).eq(1).logical_and(state.lt(target_lengths.unsqueeze(1).mul(2)))
    interleaved = (
        targets.repeat_interleave(2, axis=1).pad(((0, 0), (0, 1)))
        if n_labels
        else targets.pad(((0, 0), (0, 1)))
    )
    classes = is_label.where(interleaved, blank)
    # A transition may skip the blank between two labels unless these are equal: repeated labels
    # need it, as repetitions of one label are merged.
    may_skip = is_label.logical_and(classes.ne(_shift(classes, 2, blank))).logical_and(state.ge(2))
    emissions = scores.take_along_axis(
        classes.unsqueeze(0).expand(n_steps, n_rows, n_states), 2
    ).maximum(_LOG_ZERO)

    def step(alpha: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        emission, t = inputs
        skipped = may_skip.where(_shift(alpha, 2, _LOG_ZERO), _LOG_ZERO)
        advanced = emission.add(_log_add_exp(alpha, _shift(alpha, 1, _LOG_ZERO), skipped))
        # At t = 0 an alignment begins with the first blank or the first label.
        initial = state.lt(2).where(emission, _LOG_ZERO)
        is_active = t.lt(input_lengths).unsqueeze(1)
        return is_active.where(t.eq(0).where(initial, advanced), alpha), None

    # Final only for an input of length 0, which aligns only with an empty target.
    start = state.eq(0).where(0.0, _LOG_ZERO).cast(scores.dtype).expand(n_rows, n_states)
    alpha, _ = scan(step, start, (emissions, Tensor.arange(n_steps)))
    end = target_lengths.mul(2).unsqueeze(1)
    at_blank = alpha.take_along_axis(end, 1)
    at_label = end.gt(0).where(alpha.take_along_axis(end.sub(1).maximum(0), 1), _LOG_ZERO)
    return _log_add_exp(at_blank, at_label).squeeze(1).neg()


def _shift(values: Tensor, n: int, fill: float) -> Tensor:
    """Shift the second axis by `n` to higher indices, filling with `fill`."""
    size = values.shape[1]
    return values.pad(((0, 0), (n, 0)), constant_values=fill)[:, :size]


def _log_add_exp(*terms: Tensor) -> Tensor:
    """Return `log(sum(exp(t)))` over the terms, which must be finite."""
    maximum = terms[0].detach()
    for term in terms[1:]:
        maximum = maximum.maximum(term.detach())
    total = terms[0].sub(maximum).exp()
    for term in terms[1:]:
        total = total.add(term.sub(maximum).exp())
    return maximum.add(total.log())
