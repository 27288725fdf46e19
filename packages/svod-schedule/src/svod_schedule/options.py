"""How kernels are optimised, and what the environment may say about it: the only reader of the
environment in svod-schedule.

Example:
    >>> from svod_schedule import OptimizerConfig
    >>> from svod_schedule.options import read_search
    >>> OptimizerConfig(strategy="none").strategy
    'none'
    >>> read_search(width=2, kernel_seconds=5.0, plan_seconds=None).width
    2
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Final, Literal, TypeAlias, get_args

from svod_ir import OptionError, Target
from svod_ir.environment import read_integer, read_number, read_switch
from svod_schedule.errors import ConfigError

__all__ = ["OptimizerConfig", "Strategy", "read_search"]

Strategy: TypeAlias = Literal["none", "heuristic", "beam"]

_UNMEASURED: Final = ("strategy", "log_drops", "use_cache", "tasks_per_worker")
"""Fields that change how a search is run and told of, not what it may find."""

_LEAST: Final = {
    "width": 1,
    "max_uops": 1,
    "max_upcast": 1,
    "max_local": 1,
    "max_bloat": 1,
    "max_measured": 1,
    "n_runs": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """Who chooses the `Opt`s of a kernel, and how far a search may go.

    Raises:
        ConfigError: if a field has a value that it does not take.

    Attributes:
        strategy: `heuristic` reads the kernel and the target, `none` leaves kernels as they are
            (`SVOD_NOOPT=1`), `beam` searches around the heuristics' choice and measures what it
            tries.
        width: how many candidates each round of the search keeps (`SVOD_BEAM`); naming 1 or more
            there asks for `beam`.
        kernel_seconds: how long the search for one kernel may take (`BEAM_TIMEOUT`).
        plan_seconds: how long all searches of one plan may take together (`BEAM_PLAN_TIMEOUT`).
        compile_seconds: how long one candidate may take to compile (`BEAM_TIMEOUT_SEC`); its run is
            not counted.
        max_uops: the longest linear program that is compiled (`BEAM_UOPS_MAX`).
        max_upcast: the most outputs or reduced elements that one iteration of the loops may take
            (`BEAM_UPCAST_MAX`).
        max_local: the most work-items of a workgroup (`BEAM_LOCAL_MAX`).
        max_bloat: how many times as much arithmetic a candidate may do as what it was made from
            (`BEAM_BLOAT_MAX`).
        max_rounds: how many rounds there are at most (`BEAM_ROUNDS_MAX`).
        max_measured: how many candidates of a round are measured, those that the cost model likes
            best (`BEAM_MEASURED_MAX`).
        n_runs: how often a candidate is timed; the least time counts (`BEAM_RUNS`).
        min_gain: the part of its time that a round has to save for another one to follow
            (`BEAM_MIN_PROGRESS`).
        can_pad: whether axes may be padded (`BEAM_PADTO=1`).
        use_tensor_cores: whether matrix units may be used where the target has some
            (`SVOD_TENSOR_CORES`, on). Those of integers compute what vectors do; those of bfloat16
            take numbers below 1.2e-38 as zeros.
        log_drops: whether a line is printed for each candidate that is dropped
            (`BEAM_LOG_SURPASS_MAX=1`).
        use_cache: whether what an earlier search found is used (`BEAM_IGNORE_CACHE=1`).
        tasks_per_worker: how many candidates a worker process compiles before a fresh one takes its
            place, 0 for any number (`BEAM_MAX_TASKS_PER_CHILD`).
    """

    strategy: Strategy = "heuristic"
    width: int = 4
    kernel_seconds: float = 60.0
    plan_seconds: float = 600.0
    compile_seconds: float = 10.0
    max_uops: int = 3000
    max_upcast: int = 512
    max_local: int = 1024
    max_bloat: float = 2.0
    max_rounds: int = 10
    max_measured: int = 24
    n_runs: int = 3
    min_gain: float = 0.02
    can_pad: bool = False
    use_tensor_cores: bool = True
    log_drops: bool = False
    use_cache: bool = True
    tasks_per_worker: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), _LEAST.get(field.name, 0)
            if isinstance(value, int | float) and not least <= value < inf:
                raise ConfigError(
                    field=field.name, value=value, expected=f"at least {least}, and finite"
                )
        if self.strategy not in get_args(Strategy):
            raise ConfigError(
                field="strategy",
                value=self.strategy,
                expected=f"one of {', '.join(get_args(Strategy))}",
            )

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> OptimizerConfig:
        """The configuration that the environment asks for.

        Raises:
            OptionError: if a variable has a value that it does not take, or two contradict each
                other.
        """
        env = os.environ if environment is None else environment
        default = OptimizerConfig()
        width = read_integer(env, "SVOD_BEAM", 0)
        has_none = read_switch(env, "SVOD_NOOPT", default=False)
        if has_none and width:
            raise OptionError(
                variable="SVOD_BEAM",
                value=str(width),
                expected="0 where SVOD_NOOPT=1 forbids all opts",
            )
        return OptimizerConfig(
            strategy="none" if has_none else "beam" if width else "heuristic",
            width=width or default.width,
            kernel_seconds=read_number(env, "BEAM_TIMEOUT", default.kernel_seconds),
            plan_seconds=read_number(env, "BEAM_PLAN_TIMEOUT", default.plan_seconds),
            compile_seconds=read_number(env, "BEAM_TIMEOUT_SEC", default.compile_seconds),
            max_uops=read_integer(env, "BEAM_UOPS_MAX", default.max_uops, minimum=1),
            max_upcast=read_integer(env, "BEAM_UPCAST_MAX", default.max_upcast, minimum=1),
            max_local=read_integer(env, "BEAM_LOCAL_MAX", default.max_local, minimum=1),
            max_bloat=read_number(env, "BEAM_BLOAT_MAX", default.max_bloat, minimum=1),
            max_rounds=read_integer(env, "BEAM_ROUNDS_MAX", default.max_rounds),
            max_measured=read_integer(env, "BEAM_MEASURED_MAX", default.max_measured, minimum=1),
            n_runs=read_integer(env, "BEAM_RUNS", default.n_runs, minimum=1),
            min_gain=read_number(env, "BEAM_MIN_PROGRESS", default.min_gain),
            can_pad=read_switch(env, "BEAM_PADTO", default=default.can_pad),
            use_tensor_cores=read_switch(
                env, "SVOD_TENSOR_CORES", default=default.use_tensor_cores
            ),
            log_drops=read_switch(env, "BEAM_LOG_SURPASS_MAX", default=default.log_drops),
            use_cache=not read_switch(env, "BEAM_IGNORE_CACHE", default=not default.use_cache),
            tasks_per_worker=read_integer(
                env, "BEAM_MAX_TASKS_PER_CHILD", default.tasks_per_worker
            ),
        )

    def restrict(self, target: Target) -> Target:
        """The target without what may not be used."""
        return target if self.use_tensor_cores else replace(target, tensor_cores=())

    @property
    def fingerprint(self) -> str:
        """Names what the choice of opts depends on, the same text in every process."""
        if self.strategy != "beam":
            return self.strategy if self.use_tensor_cores else f"{self.strategy}, no tensor cores"
        limits = (
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in _UNMEASURED
        )
        return f"beam {' '.join(limits)}"


def read_search(
    *,
    width: int | None,
    kernel_seconds: float | None,
    plan_seconds: float | None,
    is_again: bool = False,
) -> OptimizerConfig:
    """A search as the environment asks for it, but for what is given here.

    Raises:
        OptionError, ConfigError: if a value, or one that the user set, cannot be used.
    """
    given: dict[str, object] = {
        "BEAM_TIMEOUT": kernel_seconds,
        "BEAM_PLAN_TIMEOUT": plan_seconds,
        "SVOD_BEAM": width,
    }
    if OptimizerConfig.from_env().strategy != "beam" and width is None:
        given["SVOD_BEAM"] = OptimizerConfig().width
    if is_again:
        given["BEAM_IGNORE_CACHE"] = 1
    changes = {name: str(value) for name, value in given.items() if value is not None}
    return OptimizerConfig.from_env({**os.environ, **changes})
