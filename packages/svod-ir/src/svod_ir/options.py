"""The environment variables of svod-ir."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from svod_ir.environment import read_switch
from svod_ir.errors import OptionError

__all__ = ["IROptions", "PassSelector"]


@dataclass(frozen=True, slots=True)
class PassSelector:
    """Which passes are meant: `*` for all, `lower` for a pipeline's, `lower:expand` for one; several with commas."""

    entries: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str, variable: str) -> PassSelector:
        """Parse the value of `variable`.

        Raises:
            OptionError: if a part is no name, `*`, or two names with a colon.
        """
        entries: list[tuple[str, str]] = []
        for part in text.split(",") if text.strip() else ():
            pipeline, colon, name = (piece.strip() for piece in part.partition(":"))
            if not _is_name(pipeline) or (colon and not _is_name(name)):
                raise OptionError(
                    variable=variable,
                    value=text,
                    expected='"*", a pipeline such as "lower", or a pass such as "lower:expand"',
                )
            entries.append((pipeline, name or "*"))
        return PassSelector(tuple(entries))

    def matches(self, pipeline: str, name: str) -> bool:
        """Whether pass `name` of `pipeline` is meant."""
        return any(p in ("*", pipeline) and n in ("*", name) for p, n in self.entries)

    def find_unknown(self, passes: Iterable[tuple[str, str]]) -> str | None:
        """The first entry that means none of these passes, given as pipeline and name."""
        known = list(passes)
        for entry in self.entries:
            alone = PassSelector((entry,))
            if not any(alone.matches(*names) for names in known):
                return str(alone)
        return None

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __str__(self) -> str:
        return ",".join(p if n == "*" else f"{p}:{n}" for p, n in self.entries)


def _is_name(text: str) -> bool:
    return text == "*" or (bool(text) and text.replace("-", "_").isidentifier())


@dataclass(frozen=True, slots=True)
class IROptions:
    """What is checked and written between passes.

    Attributes:
        check: whether to verify the stage's specification after each pass (`SVOD_CHECK`).
        dump: the passes whose result is written in text form (`SVOD_DUMP`): `*`, a pipeline, or `lower:expand`.
        stop_after: the pass after which a pipeline ends (`SVOD_STOP_AFTER`).
    """

    check: bool = False
    dump: PassSelector = PassSelector()
    stop_after: PassSelector = PassSelector()

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> IROptions:
        """The options that the environment sets.

        Raises:
            OptionError: if a variable has a value that it does not take.
        """
        env = os.environ if environment is None else environment
        return IROptions(
            check=read_switch(env, "SVOD_CHECK", default=False),
            dump=PassSelector.parse(env.get("SVOD_DUMP", ""), "SVOD_DUMP"),
            stop_after=PassSelector.parse(env.get("SVOD_STOP_AFTER", ""), "SVOD_STOP_AFTER"),
        )
