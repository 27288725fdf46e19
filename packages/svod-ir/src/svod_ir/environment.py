"""Reading single environment variables; what the options of every distribution are parsed with.

Example:
    >>> from svod_ir.environment import read_integer, read_number, read_switch
    >>> read_integer({"N": "3"}, "N", 1), read_number({}, "X", 0.5), read_switch({"ON": "1"}, "ON", default=False)
    (3, 0.5, True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan
from typing import TypeVar, cast

from svod_ir.errors import OptionError

__all__ = ["read_integer", "read_number", "read_switch", "remember"]

T = TypeVar("T")

_FALSE, _TRUE = ("0", "false", "no", "off"), ("1", "true", "yes", "on")


def read_switch(environment: Mapping[str, str], variable: str, *, default: bool) -> bool:
    """The value of a variable that is 0 or 1; `default` where it is unset or empty.

    Raises:
        OptionError: if it is something else.
    """
    value = environment.get(variable, "").strip().lower()
    if value and value not in _TRUE + _FALSE:
        raise OptionError(variable=variable, value=value, expected="0 or 1")
    return value in _TRUE if value else default


def read_integer(
    environment: Mapping[str, str], variable: str, default: int, *, minimum: int = 0
) -> int:
    """The value of a variable that is an integer, at least `minimum`; `default` where it is unset
    or empty.

    Raises:
        OptionError: if it is no such integer.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return default
    if not value.isdecimal() or int(value) < minimum:
        raise OptionError(
            variable=variable, value=value, expected=f"an integer of at least {minimum}"
        )
    return int(value)


def read_number(
    environment: Mapping[str, str], variable: str, default: float, *, minimum: float = 0.0
) -> float:
    """The value of a variable that is a finite number, at least `minimum`; `default` where it is
    unset or empty.

    Raises:
        OptionError: if it is no such number.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return default
    try:
        number = float(value)
    except ValueError:
        number = nan
    if not minimum <= number < inf:
        raise OptionError(
            variable=variable, value=value, expected=f"a number of at least {minimum:g}"
        )
    return number


def remember(read: Callable[[], T], environment: Mapping[str, str]) -> Callable[[], T]:
    """`read`, which derives something from the environment, called anew only when the environment
    has changed.

    Args:
        read: takes what it needs from `environment`.
        environment: `os.environ`, where each look-up encodes a name and decodes a value, some 0.7
            us; the table below it compares at once.

    Example:
        >>> environment, calls = {"N": "3"}, []
        >>> def read() -> int:
        ...     calls.append("read")
        ...     return int(environment["N"])
        >>> read_n = remember(read, environment)
        >>> read_n(), read_n(), len(calls)
        (3, 3, 1)
        >>> environment["N"] = "4"
        >>> read_n(), len(calls)
        (4, 2)
    """
    table = cast("Mapping[object, object]", getattr(environment, "_data", environment))
    last: tuple[dict[object, object], T] | None = None

    def read_if_changed() -> T:
        nonlocal last
        known = last
        if known is None or known[0] != table:
            # The table is copied first: what changes meanwhile is seen by the next call.
            known = last = dict(table), read()
        return known[1]

    return read_if_changed
