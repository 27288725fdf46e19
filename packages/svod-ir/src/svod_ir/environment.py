"""Parsing of environment variables, for the options of all distributions.

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

__all__ = ["cache_by_environment", "read_integer", "read_number", "read_switch"]

T = TypeVar("T")

_FALSE, _TRUE = ("0", "false", "no", "off"), ("1", "true", "yes", "on")


def read_switch(environment: Mapping[str, str], variable: str, *, default: bool) -> bool:
    """Read a variable that is 0 or 1; `default` if it is unset or empty.

    Raises:
        OptionError: if it has another value.
    """
    # A variable that is set to nothing counts as unset, as in shells.
    value = environment.get(variable, "").strip().lower()
    if value and value not in _TRUE + _FALSE:
        raise OptionError(variable=variable, value=value, expected="0 or 1")
    return value in _TRUE if value else default


def read_integer(
    environment: Mapping[str, str], variable: str, default: int, *, minimum: int = 0
) -> int:
    """Read a variable that is an integer of at least `minimum`; `default` if it is unset or empty.

    Raises:
        OptionError: if it is not such an integer.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return default
    # `int` alone would accept "1_000" and "+3".
    if not value.isdecimal() or int(value) < minimum:
        raise OptionError(
            variable=variable, value=value, expected=f"an integer of at least {minimum}"
        )
    return int(value)


def read_number(
    environment: Mapping[str, str], variable: str, default: float, *, minimum: float = 0.0
) -> float:
    """Read a variable that is a finite number of at least `minimum`; `default` if it is unset or
    empty.

    Raises:
        OptionError: if it is not such a number.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return default
    try:
        parsed = float(value)
    except ValueError:
        # Fails the comparison below, as the text "nan" does.
        parsed = nan
    if not minimum <= parsed < inf:
        raise OptionError(
            variable=variable, value=value, expected=f"a number of at least {minimum:g}"
        )
    return parsed


def cache_by_environment(read: Callable[[], T], environment: Mapping[str, str]) -> Callable[[], T]:
    """Wrap `read`, which derives a value from the environment, so that it is called again only
    after the environment changes.

    Args:
        read: reads variables of `environment`.
        environment: `os.environ`, whose look-ups encode and decode strings, about 0.7 us each;
            comparing the underlying table is cheaper.

    Example:
        >>> from svod_ir.environment import cache_by_environment
        >>> environment, calls = {"N": "3"}, []
        >>> def read() -> int:
        ...     calls.append("read")
        ...     return int(environment["N"])
        >>> read_n = cache_by_environment(read, environment)
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
            # The table is copied before reading, so that the next call sees concurrent changes.
            known = last = dict(table), read()
        return known[1]

    return read_if_changed
