"""How tensors are prepared, and what the environment may say about it: the only reader of the environment in svod-tensor."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from svod_ir.args import Opt, format_opts
from svod_ir.environment import read_switch, remember
from svod_ir.errors import OptionError
from svod_schedule.errors import ConfigError
from svod_schedule.options import OptimizerConfig

if TYPE_CHECKING:
    from svod_schedule.pipeline import PassTable

__all__ = [
    "OPT_CACHE_MAX",
    "PlannerMode",
    "PrepareConfig",
    "find_config",
    "make_worker_environment",
    "read_opt_cache_max",
    "read_origins",
]

PlannerMode: TypeAlias = Literal["arena", "remap", "disabled"]
OPT_CACHE_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
    """How one computation is prepared; a field that the caller sets wins over the environment.

    Raises:
        ConfigError: if opts are to be searched with passes that are not the compiler's own.

    Attributes:
        opts: the `Opt`s for every kernel, the empty tuple meaning none; None leaves them to `optimizer`.
        optimizer: who chooses the opts otherwise, from the environment as `OptimizerConfig.from_env` reads it.
        memory_planner: how intermediates share memory (`SVOD_MEMORY_PLANNER`): `arena` packs them into one
            block for each device, `remap` reuses whole buffers, `disabled` gives each its own.
        disable_schedule_cache: whether equal graphs are scheduled anew each time (`SVOD_DISABLE_SCHEDULE_CACHE=1`).
        backend: what compiles the kernels: `c` on every device that they run on, `CPU.c` on the CPU alone; None
            leaves it to the device (`SVOD_<KIND>_BACKEND`).
        use_tuned: whether kernels get the opts that an earlier search or `svod_tensor.tune` found for them, where
            `optimizer` has the strategy `heuristic` (`SVOD_TUNED`, on).
        passes: what compiles, as `svod_schedule.pipeline.PIPELINES.with_pass` makes it; None means the compiler's own
            passes. What others made stays in this process's caches, and opts that were found before are not for them.
        fingerprint: names the fields that a compiled kernel depends on.
    """

    opts: tuple[Opt, ...] | None = None
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    memory_planner: PlannerMode = "arena"
    disable_schedule_cache: bool = False
    backend: str | None = None
    use_tuned: bool = True
    passes: PassTable | None = None

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> PrepareConfig:
        """The configuration that the environment asks for.

        Raises:
            OptionError: if a variable has a value that it does not take.
        """
        env = os.environ if environment is None else environment
        return PrepareConfig(
            optimizer=OptimizerConfig.from_env(env),
            memory_planner=_read_planner(env),
            disable_schedule_cache=read_switch(env, "SVOD_DISABLE_SCHEDULE_CACHE", default=False),
            use_tuned=read_switch(env, "SVOD_TUNED", default=True),
        )

    fingerprint: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.passes is not None and self.is_searched:
            raise ConfigError(field="optimizer.strategy", value="beam", expected="possible with passes of your own")
        object.__setattr__(self, "fingerprint", self._make_fingerprint())

    @property
    def fixed_opts(self) -> tuple[Opt, ...] | None:
        """The opts that every kernel gets, None where they are chosen for each."""
        return () if self.opts is None and self.optimizer.strategy == "none" else self.opts

    @property
    def is_searched(self) -> bool:
        """Whether opts are searched for each kernel."""
        return self.opts is None and self.optimizer.strategy == "beam"

    @property
    def is_tuned(self) -> bool:
        """Whether what earlier searches found is used."""
        is_wanted = self.use_tuned and self.optimizer.strategy == "heuristic"
        return is_wanted and self.fixed_opts is None and self.passes is None

    def _make_fingerprint(self) -> str:
        opts = self.fixed_opts
        chosen = f"opts {format_opts(opts)}" if opts is not None else self.optimizer.fingerprint
        if opts is None and not self.use_tuned:
            chosen += ", untuned"
        if self.passes is not None:
            chosen += f", passes {self.passes.serial}"
        return chosen if self.backend is None else f"{chosen}, backend {self.backend}"

    def find_backend(self, device: str) -> str | None:
        """The backend that is asked for on a device, None where that is left to the device."""
        kind, dot, name = (self.backend or "").rpartition(".")
        return name or None if not dot or kind.upper() == device.partition(":")[0] else None


find_config: Final = remember(PrepareConfig.from_env, os.environ)
"""`PrepareConfig.from_env`, read anew only when the environment has changed."""


def make_worker_environment(**changes: str) -> dict[str, str]:
    """The environment of a process that works for this one."""
    return {**os.environ, **changes}


def read_origins(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the lines that build tensors are tracked from the start (`SVOD_ORIGINS`); read when svod_tensor is imported.

    Raises:
        OptionError: if the variable has a value that it does not take.
    """
    return read_switch(os.environ if environment is None else environment, "SVOD_ORIGINS", default=False)


def read_opt_cache_max(environment: Mapping[str, str] | None = None) -> int:
    """How many kernels the cache holds (`SVOD_OPT_CACHE_MAX`); what is no positive integer gives 4096 and a warning."""
    value = (os.environ if environment is None else environment).get("SVOD_OPT_CACHE_MAX", "").strip()
    if not value:
        return OPT_CACHE_MAX
    if not value.isdecimal() or int(value) == 0:
        warnings.warn(
            f"SVOD_OPT_CACHE_MAX is {value!r}, which is no positive integer; {OPT_CACHE_MAX} is used", stacklevel=2
        )
        return OPT_CACHE_MAX
    return int(value)


def _read_planner(environment: Mapping[str, str]) -> PlannerMode:
    value = environment.get("SVOD_MEMORY_PLANNER", "").strip().lower() or "arena"
    for mode in get_args(PlannerMode):
        if value == mode:
            return mode
    raise OptionError(variable="SVOD_MEMORY_PLANNER", value=value, expected=", ".join(get_args(PlannerMode)))
