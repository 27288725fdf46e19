"""Options of the optimizer, and the environment variables that set them: the only reader of the
environment in svod-schedule.

Example:
    >>> from svod_schedule import OptimizerConfig
    >>> from svod_schedule.options import read_search
    >>> OptimizerConfig(strategy="none").strategy
    'none'
    >>> read_search(width=2, kernel_seconds=5.0, plan_seconds=None).width
    2
    >>> from svod_ir import Target
    >>> from svod_schedule.options import Strategy
    >>> def read_strategy(**variables: str) -> Strategy:
    ...     return OptimizerConfig.from_env(variables).strategy
    >>> read_strategy(), read_strategy(SVOD_NOOPT="1"), read_strategy(SVOD_BEAM="8")
    ('heuristic', 'none', 'beam')
    >>> OptimizerConfig(use_tensor_cores=False).restrict(Target.generic()).tensor_cores
    ()
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
"""How the opts of a kernel are chosen."""

_UNMEASURED: Final = ("strategy", "log_drops", "use_cache", "tasks_per_worker")
"""Fields that do not affect which opts a search can find."""

_MINIMUM: Final = {
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
    """Strategy that chooses the `Opt`s of a kernel, and the limits of a search.

    Raises:
        ConfigError: if the value of a field is invalid.

    Attributes:
        strategy: `heuristic` chooses by rules about the kernel and the target, `none` applies no
            opts (`SVOD_NOOPT=1`), `beam` starts a beam search from the choice of the heuristics and
            measures candidates.
        width: the number of candidates that each round of the search keeps (`SVOD_BEAM`, where a
            value of 1 or more selects `beam`).
        kernel_seconds: the time limit of the search for one kernel (`BEAM_TIMEOUT`).
        plan_seconds: the time limit of all searches of one plan (`BEAM_PLAN_TIMEOUT`).
        compile_seconds: the time limit of the compilation of a candidate, without its runs
            (`BEAM_TIMEOUT_SEC`).
        max_uops: the maximum length of a linear program that is compiled (`BEAM_UOPS_MAX`).
        max_upcast: the maximum number of outputs or reduced elements per loop iteration
            (`BEAM_UPCAST_MAX`).
        max_local: the maximum number of work-items of a workgroup (`BEAM_LOCAL_MAX`).
        max_bloat: the maximum ratio of a candidate's arithmetic to the arithmetic of the candidate
            that it was derived from (`BEAM_BLOAT_MAX`).
        max_rounds: the maximum number of rounds (`BEAM_ROUNDS_MAX`).
        max_measured: the number of candidates of a round that are measured: the best ones by the
            cost model (`BEAM_MEASURED_MAX`).
        n_runs: the number of runs of a candidate; the minimum time counts (`BEAM_RUNS`).
        min_gain: the fraction of the time that a round has to save for another round to follow
            (`BEAM_MIN_PROGRESS`).
        can_pad: whether axes may be padded (`BEAM_PADTO=1`).
        use_tensor_cores: whether tensor cores of the target may be used (`SVOD_TENSOR_CORES`, on by
            default). Integer tensor cores are exact; bfloat16 ones flush numbers below 1.2e-38 to
            zero.
        threads: the maximum number of threads that run a kernel of the host; 0 for all that the
            device has (`SVOD_THREADS`). Kernels that do not depend on each other may still run side
            by side.
        log_drops: whether a line is printed for each dropped candidate
            (`BEAM_LOG_SURPASS_MAX=1`).
        use_cache: whether results of earlier searches are used (`BEAM_IGNORE_CACHE=1` turns it
            off).
        tasks_per_worker: the number of candidates that a worker process compiles before it is
            replaced, 0 for no limit (`BEAM_MAX_TASKS_PER_CHILD`).
    """

    strategy: Strategy = "heuristic"
    width: int = 4
    kernel_seconds: float = 60.0
    plan_seconds: float = 600.0
    compile_seconds: float = 10.0
    max_uops: int = 3000
    # As many float32 as 32 registers of 512 bits hold.
    max_upcast: int = 512
    max_local: int = 1024
    max_bloat: float = 2.0
    max_rounds: int = 10
    max_measured: int = 24
    n_runs: int = 3
    # Smaller differences are noise, even between interleaved measurements.
    min_gain: float = 0.02
    can_pad: bool = False
    use_tensor_cores: bool = True
    threads: int = 0
    log_drops: bool = False
    use_cache: bool = True
    tasks_per_worker: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, minimum = getattr(self, field.name), _MINIMUM.get(field.name, 0)
            if isinstance(value, int | float) and not minimum <= value < inf:
                raise ConfigError(
                    field=field.name, value=value, expected=f"finite and at least {minimum}"
                )
        if self.strategy not in get_args(Strategy):
            raise ConfigError(
                field="strategy",
                value=self.strategy,
                expected=f"one of {', '.join(get_args(Strategy))}",
            )

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> OptimizerConfig:
        """Read the options from environment variables; unset variables give the defaults.

        Args:
            environment: variables by name; by default `os.environ`.

        Raises:
            OptionError: if the value of a variable is invalid, or two variables contradict each
                other.
        """
        env = os.environ if environment is None else environment
        default = OptimizerConfig()
        width = read_integer(env, "SVOD_BEAM", 0)
        has_none = read_switch(env, "SVOD_NOOPT", default=False)
        # An error, since either variable would silently cancel the other.
        if has_none and width:
            raise OptionError(
                variable="SVOD_BEAM",
                value=str(width),
                expected="0 if SVOD_NOOPT=1 disables all opts",
            )
        return OptimizerConfig(
            strategy="none" if has_none else "beam" if width else "heuristic",
            # SVOD_BEAM=0 means no search, but a configuration has a valid width all the same.
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
        """Return the target without what may not be used: tensor cores, and cores beyond
        `threads`.
        """
        if not self.use_tensor_cores:
            target = replace(target, tensor_cores=())
        return self.restrict_cores(target)

    def restrict_cores(self, target: Target) -> Target:
        """Return the target with at most `threads` cores.

        Example:
            >>> from svod_ir import Target
            >>> from svod_schedule import OptimizerConfig
            >>> OptimizerConfig(threads=1).restrict_cores(Target.generic()).cores
            1
        """
        if not 0 < self.threads < target.cores:
            return target
        # Each part may run on a thread of its own.
        return replace(target, cores=self.threads, parts_per_core=1)

    @property
    def fingerprint(self) -> str:
        """Text of all options that the choice of opts depends on, equal in every process."""
        if self.strategy != "beam":
            restrictions = [
                *([] if self.use_tensor_cores else ["no tensor cores"]),
                *([f"{self.threads} threads"] if self.threads else []),
            ]
            return ", ".join([self.strategy, *restrictions])
        # Part of keys on disk, so it has every option that could lead to other opts, time limits
        # included.
        limits = (
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in _UNMEASURED
        )
        return f"beam {' '.join(limits)}"


def read_search(
    *,
    width: int | None,
    kernel_seconds: float | None,
    plan_seconds: float | None,
    ignore_cache: bool = False,
) -> OptimizerConfig:
    """Read the options of a beam search from the environment; arguments override variables.

    Args:
        width: the number of candidates that each round keeps; None reads `SVOD_BEAM`.
        kernel_seconds: the time limit of the search for one kernel; None reads `BEAM_TIMEOUT`.
        plan_seconds: the time limit of all searches of one plan; None reads `BEAM_PLAN_TIMEOUT`.
        ignore_cache: search again, even if an earlier search has a result.

    Raises:
        OptionError: if an argument or a variable is invalid.
    """
    # As text of the variables: arguments are then checked by the same code, with the same messages.
    overrides: dict[str, object] = {
        "BEAM_TIMEOUT": kernel_seconds,
        "BEAM_PLAN_TIMEOUT": plan_seconds,
        "SVOD_BEAM": width,
    }
    if OptimizerConfig.from_env().strategy != "beam" and width is None:
        overrides["SVOD_BEAM"] = OptimizerConfig().width
    if ignore_cache:
        overrides["BEAM_IGNORE_CACHE"] = 1
    changes = {name: str(value) for name, value in overrides.items() if value is not None}
    return OptimizerConfig.from_env({**os.environ, **changes})
