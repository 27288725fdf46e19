"""When to stop: a measure that has not become better for some time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Says whether a measure became better, and when it has not for so long that training may stop.

    Args:
        patience: how many times in a row it may be no better.
        min_delta: by how much it has to be better.
        mode: whether "min" or "max" is better.

    Attributes:
        best: the best value so far.
        n_worse: how many came since.

    Raises:
        LayerArgumentError: if there is no such mode.

    Example:
        >>> from svod_nn import EarlyStopping
        >>> stopping = EarlyStopping(patience=2)
        >>> for loss in (3.0, 2.0, 2.5, 2.1, 1.0):
        ...     if stopping.update(loss):
        ...         pass  # save the model: it is the best so far
        ...     if stopping.should_stop:
        ...         print("stopped at", loss)
        ...         break
        stopped at 2.1
        >>> resumed = EarlyStopping(patience=2)
        >>> resumed.load_state_dict(stopping.state_dict())
        >>> resumed.best
        2.0
    """

    def __init__(
        self, patience: int, *, min_delta: float = 0.0, mode: Literal["min", "max"] = "min"
    ) -> None:
        if mode not in ("min", "max"):
            raise LayerArgumentError(
                name="EarlyStopping", problem=f"no mode {mode!r}", hint="there are min and max"
            )
        self.patience, self.min_delta, self.mode = patience, min_delta, mode
        self.best = math.inf if mode == "min" else -math.inf
        self.n_worse = 0

    def update(self, value: Tensor | float) -> bool:
        """Count a value, and say whether it is the best so far. NaN never is."""
        number = float(value)
        better = self.best - number if self.mode == "min" else number - self.best
        if better > self.min_delta:
            self.best, self.n_worse = number, 0
            return True
        self.n_worse += 1
        return False

    @property
    def should_stop(self) -> bool:
        """Whether the last `patience` values were no better than the best before them."""
        return self.n_worse >= self.patience

    def state_dict(self) -> dict[str, object]:
        """What `load_state_dict` goes on from."""
        return {"best": self.best, "n_worse": self.n_worse}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.best, self.n_worse = state["best"], state["n_worse"]
