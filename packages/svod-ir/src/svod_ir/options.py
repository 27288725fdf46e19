"""The environment variables of svod-ir.

Example:
    >>> from svod_ir.options import IROptions, PassSelector, make_child_environment
    >>> options = IROptions.from_env({"SVOD_CHECK": "1", "SVOD_DUMP": "lower:expand,rangeify"})
    >>> options.check, options.dump.matches("lower", "expand"), options.dump.matches("lower", "simplify")
    (True, True, False)
    >>> PassSelector.parse("lower:expend", "SVOD_DUMP").find_unknown([("lower", "expand")])
    'lower:expend'
    >>> make_child_environment(SVOD_CHECK="values")["SVOD_CHECK"]
    'values'
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from svod_ir.environment import read_switch
from svod_ir.errors import OptionError

__all__ = ["IROptions", "PassSelector", "make_child_environment"]


@dataclass(frozen=True, slots=True)
class PassSelector:
    """A set of selected passes.

    The text form is `*` for all passes, `lower` for a pipeline, or `lower:expand` for one pass;
    several are separated by commas.
    """

    entries: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str, variable: str) -> PassSelector:
        """Parse the value of `variable`.

        Raises:
            OptionError: if an entry is not `*`, a name, or two names with a colon.
        """
        entries: list[tuple[str, str]] = []
        for entry in text.split(",") if text.strip() else ():
            pipeline, colon, name = (piece.strip() for piece in entry.partition(":"))
            if not _is_name(pipeline) or (colon and not _is_name(name)):
                raise OptionError(
                    variable=variable,
                    value=text,
                    expected='"*", a pipeline such as "lower", or a pass such as "lower:expand"',
                )
            entries.append((pipeline, name or "*"))
        return PassSelector(tuple(entries))

    def matches(self, pipeline: str, name: str) -> bool:
        """True if pass `name` of `pipeline` is selected."""
        return any(p in ("*", pipeline) and n in ("*", name) for p, n in self.entries)

    def find_unknown(self, passes: Iterable[tuple[str, str]]) -> str | None:
        """The first entry that selects none of these passes, which are (pipeline, name) pairs."""
        known = list(passes)
        for entry in self.entries:
            single = PassSelector((entry,))
            if not any(single.matches(*names) for names in known):
                return str(single)
        return None

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __str__(self) -> str:
        # The spelling that `parse` reads.
        return ",".join(p if n == "*" else f"{p}:{n}" for p, n in self.entries)


def _is_name(text: str) -> bool:
    # Names of passes have hyphens, as in split-reduce.
    return text == "*" or (bool(text) and text.replace("-", "_").isidentifier())


@dataclass(frozen=True, slots=True, init=False)
class IROptions:
    """Checks and dumps between passes.

    Attributes:
        check: checks after each pass (`SVOD_CHECK`): `1` verifies the stage's specification, the
            shapes and dtypes of results, and each call of a captured function without assignments
            against the plain function; `values` also verifies that each pass and rewrite rule
            preserves values, by evaluation on random inputs; `0` disables checks.
        dump: the passes after which the graph is printed in text form (`SVOD_DUMP`): `*`, a
            pipeline, or `lower:expand`; several with commas.
        stop_after: the pass after which a pipeline ends (`SVOD_STOP_AFTER`), named as for `dump`.

    Raises:
        OptionError: if a text does not name a check, or passes.
    """

    check: bool | Literal["values"] = False
    dump: PassSelector = PassSelector()
    stop_after: PassSelector = PassSelector()

    def __init__(
        self,
        check: bool | str = False,
        dump: PassSelector | str = "",
        stop_after: PassSelector | str = "",
    ) -> None:
        fields = {
            "check": _read_check(check),
            "dump": _to_selector(dump, "SVOD_DUMP"),
            "stop_after": _to_selector(stop_after, "SVOD_STOP_AFTER"),
        }
        for name, value in fields.items():
            # Frozen, but texts are accepted and converted here.
            object.__setattr__(self, name, value)

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> IROptions:
        """Read the options from environment variables; unset variables give the defaults.

        Args:
            environment: variables by name; by default `os.environ`.

        Raises:
            OptionError: if a variable has an invalid value.
        """
        env = os.environ if environment is None else environment
        return IROptions(
            env.get("SVOD_CHECK", ""), env.get("SVOD_DUMP", ""), env.get("SVOD_STOP_AFTER", "")
        )

    @property
    def needs_passes(self) -> bool:
        """True if the passes must run even if their results are cached on disk."""
        return bool(self.check or self.dump or self.stop_after)


def _read_check(value: bool | str) -> bool | Literal["values"]:
    # A program passes True; only the environment passes text.
    if isinstance(value, bool):
        return value
    if value.strip().lower() == "values":
        return "values"
    try:
        return read_switch({"SVOD_CHECK": value}, "SVOD_CHECK", default=False)
    except OptionError:
        raise OptionError(variable="SVOD_CHECK", value=value, expected="0, 1 or values") from None


def _to_selector(value: PassSelector | str, variable: str) -> PassSelector:
    return PassSelector.parse(value, variable) if isinstance(value, str) else value


def make_child_environment(**changes: str) -> dict[str, str]:
    """The environment of a child process, with `changes`."""
    # Only modules of options read the environment; code that starts processes calls this.
    return {**os.environ, **changes}
