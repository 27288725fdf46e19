"""Containers of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError

__all__ = ["Sequential"]


class Sequential(Module):
    """Modules or functions that are called sequentially.

    Args:
        steps: modules or functions; each is called with the result of the previous one. Their
            parameters are named by index, as in `0.weight`.

    A slice is a `Sequential` of the same modules, which keep their names.

    Raises:
        LayerArgumentError: if a step is not callable, such as a list of modules.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> model(Tensor.ones(5, 3)).shape, len(model), model[2]
        ((5, 2), 3, Linear(in_features=8, out_features=2, bias=True))
    """

    def __init__(self, *steps: Callable[..., Any]) -> None:
        # Numbers as names, so that states are named as in torch: "0.weight".
        self._names = tuple([str(index) for index in range(len(steps))])
        for name, step in zip(self._names, cast("tuple[object, ...]", steps), strict=True):
            if not callable(step):
                is_many = isinstance(step, (list, tuple, dict))
                raise LayerArgumentError(
                    name=type(self).__name__,
                    problem=f"step {name} is a {type(step).__name__}, which cannot be called",
                    hint="write Sequential(*layers)" if is_many else None,
                )
            # Attributes, since that is where a module looks for its children.
            setattr(self, name, step)

    def forward(self, x: Any) -> Any:
        """Return the result of the last step."""
        for step in self:
            x = step(x)
        return x

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return (getattr(self, name) for name in self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            part = Sequential()
            # The names stay, as in torch, so that a part accepts its tensors of a whole state.
            part._names = self._names[index]
            for name in part._names:
                setattr(part, name, getattr(self, name))
            return part
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of bounds for {len(self)} steps")
        return getattr(self, self._names[index])
