"""Interface between the networks whose training is measured and the libraries that train them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["AdamW", "Array", "Library", "Network", "Sgd", "Step", "Weights"]

Array = np.ndarray[Any, np.dtype[Any]]
Weights: TypeAlias = Mapping[str, Any]

Step = Callable[[], Any]
"""Training step on the batch of the network; returns the loss."""


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent; without momentum it has no state."""

    rate: float
    momentum: float = 0.0


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2.
    """

    rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decay: float = 0.01


@dataclass(frozen=True, kw_only=True)
class Network:
    """Network with its training data and optimizer.

    Attributes:
        weights: initial weights by name; matrices have the shape (outputs, inputs).
        batch: inputs of every step.
        loss: function from a library, the weights and the batch to the mean loss.
        optimizer: optimizer of the weights.
        flops: floating-point operations of the products in one step.
    """

    name: str
    weights: dict[str, Array]
    batch: tuple[Array, ...]
    loss: Callable[..., Any]
    optimizer: Sgd | AdamW
    flops: float


class Library(ABC):
    """Operations of networks in one library."""

    name: str

    @abstractmethod
    def make_step(self, network: Network) -> Step:
        """Return a training step that starts from the network's initial weights.

        Each call continues from the previous one, and blocks until it is done.
        """

    @abstractmethod
    def recompute(self, function: Callable[[Any], Any], x: Any) -> Any:
        """Checkpoint `function`: the backward pass saves only `x` and recomputes the rest."""

    @abstractmethod
    def relu(self, x: Any) -> Any: ...

    @abstractmethod
    def gelu(self, x: Any) -> Any:
        """GELU with the tanh approximation, as in GPT-2."""

    @abstractmethod
    def mean(self, x: Any, axes: Sequence[int]) -> Any: ...

    @abstractmethod
    def swap(self, x: Any, first: int, second: int) -> Any:
        """Swap two axes."""

    @abstractmethod
    def linear(self, x: Any, weight: Any, bias: Any) -> Any: ...

    @abstractmethod
    def conv2d(self, x: Any, weight: Any, stride: int) -> Any:
        """Convolution, padded so that the stride divides the size of the images."""

    @abstractmethod
    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        """Normalization by the mean and the variance of this batch."""

    @abstractmethod
    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any: ...

    @abstractmethod
    def attend_causally(self, query: Any, key: Any, value: Any) -> Any: ...

    @abstractmethod
    def embed(self, table: Any, positions: Any) -> Any: ...

    @abstractmethod
    def lstm(self, x: Any, weights: Mapping[str, Any]) -> Any:
        """Outputs after each step of an LSTM, from a state of zeros; `x` has the shape (steps,
        batch, inputs).
        """

    @abstractmethod
    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        """Mean loss over the rows."""
