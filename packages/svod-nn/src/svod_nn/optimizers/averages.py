"""Averages of weights over the steps of training, which often predict better than the last
weights.
"""

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
    """Averages of some tensors, and how many of each there are."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters if isinstance(parameters, Module) else None
        self._tensors = name_tensors(parameters)
        self._averages = {name: widen(t).clone() for name, t in self._tensors.items()}
        self._count = Tensor.full((), 0, dtype=int32)
        Tensor.realize_batch([*self._averages.values(), self._count])

    @property
    def averages(self) -> dict[str, Tensor]:
        """The averages by the names of the parameters, in float32 where these have 16 bits."""
        return dict(self._averages)

    def update(self) -> None:
        """Take in the parameters as they are now. Works inside `jit`, behind the optimizer's
        update.

        Raises:
            ParametersChangedError: if the model has other parameters than when the average was
                made.
        """
        self._check()
        share = self._make_share(self._count.cast(float32) + 1).contiguous()
        for name, tensor in self._tensors.items():
            average = self._averages[name]
            average.assign(average + (widen(tensor) - average) * share.cast(average.dtype))
        self._count.assign(self._count + 1)

    @contextmanager
    def swapped(self) -> Generator[None]:
        """Within the block, the parameters have the averages as their values, and afterwards what
        they had before.

        Raises:
            ParametersChangedError: if the model has other parameters than when the average was
                made.
        """
        self._check()
        before = {name: tensor.clone() for name, tensor in self._tensors.items()}
        Tensor.realize_batch(list(before.values()))
        self._assign(self._averages)
        try:
            yield
        finally:
            self._assign(before)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages and their number, under one name each."""
        return {
            "count": self._count,
            **{f"averages.{name}": average for name, average in self._averages.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            StateDictError: if names or shapes differ; nothing is assigned then.
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
    """The exponential moving average of parameters: each `update` keeps `decay` of it.

    Args:
        parameters: a module, or nested lists and dicts of tensors.
        decay: how much is kept in an update, at most.
        warm_up: whether less is kept in the first updates: (1 + n) / (10 + n) in the one with
            number n, as TensorFlow has it, so that the first weights are soon forgotten.

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
                name="MovingAverage", problem=f"decay={decay!r} is not from 0 to 1"
            )
        self._decay, self._warm_up = decay, warm_up
        super().__init__(parameters)

    def _make_share(self, count: Tensor) -> Tensor:
        if self._warm_up:
            return 1 - ((1 + count) / (10 + count)).minimum(self._decay)
        return count.full_like(1 - self._decay)


class WeightMean(_Average):
    """The mean of parameters at all updates: stochastic weight averaging, where these are some
    steps apart.

    Args:
        parameters: a module, or nested lists and dicts of tensors.

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
        return 1 / count
