"""Early stopping: end training once a metric no longer improves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Early stopping: tracks the best value of a metric, and tells when it has stopped improving.

    Args:
        patience: number of consecutive values without improvement after which training should stop.
        min_delta: minimum change that counts as an improvement.
        mode: "min" if lower values are better, "max" if higher values are.

    Attributes:
        best: best value so far.
        n_worse: number of values since the best one.

    Raises:
        LayerArgumentError: if `mode` is neither "min" nor "max".

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
                name="EarlyStopping", problem=f"invalid mode {mode!r}", hint="use 'min' or 'max'"
            )
        self.patience, self.min_delta, self.mode = patience, min_delta, mode
        self.best = math.inf if mode == "min" else -math.inf
        self.n_worse = 0

    def update(self, value: Tensor | float) -> bool:
        """Record a value; return True if it is the best so far. NaN never is."""
        current = float(value)
        improvement = self.best - current if self.mode == "min" else current - self.best
        # NaN compares False, so it counts as no improvement.
        # Strictly: with a `min_delta` of 0, a metric that stands still must use up the patience.
        if improvement > self.min_delta:
            self.best, self.n_worse = current, 0
            return True
        self.n_worse += 1
        return False

    @property
    def should_stop(self) -> bool:
        """True if the last `patience` values did not improve on the best before them."""
        # A property and no part of `update`, so that a resumed run stops where the first one would.
        return self.n_worse >= self.patience

    def state_dict(self) -> dict[str, object]:
        """Return the state as a dict, for `load_state_dict`."""
        return {"best": self.best, "n_worse": self.n_worse}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self.best, self.n_worse = state["best"], state["n_worse"]
