"""Averages of weights over training steps, which often generalize better than the last weights."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from svod_nn._module import Module
from svod_nn._state import load_tensors
from svod_nn.errors import LayerArgumentError
from svod_nn.optimizers.tensors import Parameters, check_parameters, name_tensors, widen
from svod_tensor import Tensor, float32, int32

__all__ = ["MovingAverage", "WeightMean"]


class _Average:
    """Base class: averages of parameters, and the number of updates."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters if isinstance(parameters, Module) else None
        self._tensors = name_tensors(parameters)
        # Clones, because the parameters are assigned to. In float32: a share of 0.001 is less than
        # the rounding of bfloat16, and the average would stand still.
        self._averages = {name: widen(t).clone() for name, t in self._tensors.items()}
        self._count = Tensor.full((), 0, dtype=int32)
        Tensor.realize_batch([*self._averages.values(), self._count])

    @property
    def averages(self) -> dict[str, Tensor]:
        """Averages by parameter name; float32 for parameters of 16 bits."""
        return dict(self._averages)

    def update(self) -> None:
        """Update the averages with the current parameters.

        Call it after the optimizer's update; it works inside `jit`.

        Raises:
            ParametersChangedError: if the model's parameters have changed since the average was
                created.
        """
        self._check()
        # Materialized, because all parameters use it; fused, each kernel would compute it again.
        share = self._make_share(self._count.cast(float32) + 1).contiguous()
        for name, tensor in self._tensors.items():
            average = self._averages[name]
            # Moved by a share of the difference: an average that equals its parameter stays exactly
            # equal, which a sum of two rounded products would not guarantee.
            average.assign(average + (widen(tensor) - average) * share.cast(average.dtype))
        self._count.assign(self._count + 1)

    @contextmanager
    def swapped(self) -> Generator[None]:
        """Set the parameters to the averages within the block, and restore them afterwards.

        Raises:
            ParametersChangedError: if the model's parameters have changed since the average was
                created.
        """
        self._check()
        before = {name: tensor.clone() for name, tensor in self._tensors.items()}
        # Realized now: lazily they would be read after the parameters are replaced.
        Tensor.realize_batch(list(before.values()))
        self._assign(self._averages)
        try:
            yield
        # Also after an error in an evaluation, training goes on with its own parameters.
        finally:
            self._assign(before)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the averages and the number of updates by name, for `load_state_dict`."""
        return {
            "count": self._count,
            **{f"averages.{name}": average for name, average in self._averages.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`.

        Raises:
            StateDictError: if names or shapes differ; no tensor is assigned then.
        """
        load_tensors(type(self).__name__, self.state_dict(), state)

    def _check(self) -> None:
        check_parameters(type(self).__name__, self._parameters, self._tensors)

    def _assign(self, values: Mapping[str, Tensor]) -> None:
        for name, tensor in self._tensors.items():
            tensor.assign(values[name].cast(tensor.dtype))
        Tensor.realize_batch(list(self._tensors.values()))

    def _make_share(self, count: Tensor) -> Tensor:
        raise NotImplementedError


class MovingAverage(_Average):
    """Exponential moving average (EMA) of parameters.

    Each `update` computes `average = decay * average + (1 - decay) * parameter`.

    Args:
        parameters: module, or nested lists and dicts of tensors.
        decay: decay rate of the average.
        warm_up: if True, the decay of update n is at most `(1 + n) / (10 + n)`, as in TensorFlow,
            so that the initial weights are soon forgotten.

    Raises:
        LayerArgumentError: if `decay` is not between 0 and 1.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([0.0])
        >>> average = nn.MovingAverage({"w": w}, decay=0.75)
        >>> _ = w.assign(Tensor([1.0]))
        >>> average.update()
        >>> with average.swapped():
        ...     w.tolist()
        [0.25]
        >>> w.tolist()
        [1.0]
    """

    def __init__(
        self, parameters: Parameters, decay: float = 0.999, *, warm_up: bool = False
    ) -> None:
        if not 0 <= decay <= 1:
            raise LayerArgumentError(
                name="MovingAverage", problem=f"decay must be between 0 and 1, got {decay!r}"
            )
        self._decay, self._warm_up = decay, warm_up
        super().__init__(parameters)

    def _make_share(self, count: Tensor) -> Tensor:
        if self._warm_up:
            # The first averages forget quickly, as they still hold the initial parameters.
            return 1 - ((1 + count) / (10 + count)).minimum(self._decay)
        return count.full_like(1 - self._decay)


class WeightMean(_Average):
    """Mean of parameters over all updates, for stochastic weight averaging (SWA).

    Args:
        parameters: module, or nested lists and dicts of tensors.

    Source: P. Izmailov et al., Averaging weights leads to wider optima and better generalization,
    2018.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> w = Tensor([0.0])
        >>> mean = nn.WeightMean({"w": w})
        >>> for value in (1.0, 2.0, 6.0):
        ...     _ = w.assign(Tensor([value]))
        ...     mean.update()
        >>> mean.averages["w"].tolist()
        [3.0]
    """

    def _make_share(self, count: Tensor) -> Tensor:
        # The first update has a share of 1, so that the initial parameters do not count in the
        # mean.
        return 1 / count
