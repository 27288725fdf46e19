"""Names of callables in messages and logs."""

from __future__ import annotations

from functools import partial

__all__ = ["name_function"]


def name_function(function: object) -> str:
    """Name of a function without the functions around it; of a partial, the name of its function; of
    another object, such as a network, the name of its class: its `repr` may have many lines.
    """
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rpartition("<locals>.")[2]
