"""Names of a function's parameters, for options that select parameters by name or position."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Parameters"]


class Parameters(NamedTuple):
    """Parameters of a function.

    Attributes:
        names: all parameters, except for `*args` and `**kwargs`.
        positional: the parameters that can be passed by position.
        is_variadic: whether there is a parameter `*args`.
    """

    names: tuple[str, ...]
    positional: tuple[str, ...]
    is_variadic: bool

    @staticmethod
    def of(function: Callable[..., object]) -> Parameters:
        """Read the signature of a function."""
        parameters = list(inspect.signature(function).parameters.values())
        single = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        return Parameters(
            tuple(p.name for p in single),
            tuple(p.name for p in single if p.kind is not p.KEYWORD_ONLY),
            any(p.kind is p.VAR_POSITIONAL for p in parameters),
        )
