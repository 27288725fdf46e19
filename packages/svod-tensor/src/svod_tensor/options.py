"""How tensors are prepared, and what the environment may say about it: the only reader of the
environment in svod-tensor.

Example:
    >>> from svod_tensor import PrepareConfig
    >>> from svod_tensor.options import get_config, resolve_config, using_optimizer
    >>> PrepareConfig.from_env() == get_config(), resolve_config(None) == get_config()
    (True, True)
    >>> PrepareConfig().find_backend("CPU") is None  # that of the environment
    True
    >>> from svod_schedule import OptimizerConfig
    >>> with using_optimizer(OptimizerConfig(strategy="none")):
    ...     get_config().optimizer.strategy
    'none'
    >>> from svod_tensor.options import read_device, read_opt_cache_max, read_origins
    >>> read_device(), read_origins(), read_opt_cache_max() > 0
    ('CPU', False, True)
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

from svod_dtype import DeviceNameError, parse_device_name
from svod_ir import Opt, OptionError, format_opts
from svod_ir.environment import cache_by_environment, read_switch
from svod_schedule import ConfigError, OptimizerConfig

if TYPE_CHECKING:
    from svod_runtime import PlannerMode
    from svod_schedule.pipeline import PassTable

__all__ = [
    "DEFAULT_DEVICE",
    "HOST_DEVICE",
    "OPT_CACHE_MAX",
    "AnyConfig",
    "FloatCheck",
    "PrepareConfig",
    "get_config",
    "read_device",
    "read_opt_cache_max",
    "read_origins",
    "resolve_config",
    "using_optimizer",
]

FloatCheck: TypeAlias = Literal["off", "nan", "inf"]
OPT_CACHE_MAX: Final = 4096
HOST_DEVICE: Final = "CPU"
"""The device whose memory is the host's."""

T = TypeVar("T", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
    """How one computation is prepared; a field that the caller sets wins over the environment.

    Raises:
        ConfigError: if opts are to be searched with passes that are not the compiler's own.

    Example:
        >>> from svod_tensor import PrepareConfig
        >>> (Tensor([9, 4]) // Tensor([2, 2])).realize_with(PrepareConfig(check_operands=True)).tolist()
        [4, 2]

    Attributes:
        opts: the `Opt`s for every kernel, the empty tuple meaning none; None leaves them to
            `optimizer`.
        optimizer: who chooses the opts otherwise, from the environment as
            `OptimizerConfig.from_env` reads it.
        memory_planner: how intermediates share memory (`SVOD_MEMORY_PLANNER`): `arena` packs them
            into one block for each device, `remap` reuses whole buffers, `disabled` gives each its
            own.
        disable_schedule_cache: whether equal graphs are scheduled anew each time
            (`SVOD_DISABLE_SCHEDULE_CACHE=1`).
        vary_sizes: whether graphs that `realize` computes, and that differ only in sizes, share
            kernels from the third size on (`SVOD_VARY_SIZES`, on); these kernels take sizes as
            variables.
        backend: the backend that compiles kernels: `c` on every device, `CPU.c` only on the CPU;
            None leaves it to the device (`SVOD_<KIND>_BACKEND`).
        use_tuned: whether kernels get the opts that an earlier search or `svod_tensor.tune` found
            for them, where `optimizer` has the strategy `heuristic` (`SVOD_TUNED`, on).
        passes: a table of passes, as `svod_schedule.pipeline.PIPELINES.with_pass` makes it; None
            means the compiler's own passes. Kernels made by other tables are cached only in this
            process, and do not use tuned opts.
        check_operands: whether executing raises an error for a position out of range in an index
            tensor, or an integer divided by 0 (`SVOD_CHECK_OPERANDS=1`); otherwise the result is 0.
            It costs one more kernel for each such operation.
        check_floats: what is an error if a kernel makes it from arguments without it
            (`SVOD_CHECK_FLOATS`): `nan`, or `inf` for infinities too; `off` for neither. Kernels
            then run one by one, and their arguments and results are checked in the host's memory,
            which is slow.
        fingerprint: names the fields that a compiled kernel depends on.
    """

    opts: tuple[Opt, ...] | None = None
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    memory_planner: PlannerMode = "arena"
    disable_schedule_cache: bool = False
    vary_sizes: bool = True
    backend: str | None = None
    use_tuned: bool = True
    passes: PassTable | None = None
    check_operands: bool = False
    check_floats: FloatCheck = "off"

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
            vary_sizes=read_switch(env, "SVOD_VARY_SIZES", default=True),
            use_tuned=read_switch(env, "SVOD_TUNED", default=True),
            check_operands=read_switch(env, "SVOD_CHECK_OPERANDS", default=False),
            check_floats=_read_float_check(env),
        )

    fingerprint: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.passes is not None and self.is_searched:
            raise ConfigError(
                field="optimizer.strategy",
                value="beam",
                expected="possible with passes of your own",
            )
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
        # What a search found may use tensor cores.
        is_wanted = (
            self.use_tuned
            and self.optimizer.strategy == "heuristic"
            and self.optimizer.use_tensor_cores
        )
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
        if self.backend is None:
            return None
        kind, dot, name = self.backend.rpartition(".")
        return name or None if not dot or kind.upper() == device.partition(":")[0] else None


_read_config: Final = cache_by_environment(PrepareConfig.from_env, os.environ)
"""`PrepareConfig.from_env`, read anew only when the environment has changed."""

_optimizers: Final[list[OptimizerConfig]] = []


@contextmanager
def using_optimizer(optimizer: OptimizerConfig) -> Generator[None]:
    """Let `optimizer` choose opts in all threads where no configuration is given, instead of what
    the environment says.
    """
    _optimizers.append(optimizer)
    try:
        yield
    finally:
        _optimizers.remove(optimizer)


def get_config() -> PrepareConfig:
    """What holds where no configuration is given.

    Raises:
        OptionError: if a variable of the environment has a value that it does not take.
    """
    config = _read_config()
    return replace(config, optimizer=_optimizers[-1]) if _optimizers else config


AnyConfig: TypeAlias = PrepareConfig | OptimizerConfig
"""What a caller may give as a configuration."""


def resolve_config(config: AnyConfig | None) -> PrepareConfig:
    """What a caller asks for, None meaning what the environment does; an `OptimizerConfig` leaves
    the rest to that.

    Raises:
        ConfigError: if it is something else.
    """
    if config is None:
        return get_config()
    if isinstance(config, PrepareConfig):
        return config
    if isinstance(config, OptimizerConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not checked
        return replace(get_config(), optimizer=config)
    raise ConfigError(
        field="config", value=config, expected="a PrepareConfig or an OptimizerConfig"
    )


def read_origins(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the lines that build tensors are tracked from the start (`SVOD_ORIGINS`); read when
    svod_tensor is imported.

    Raises:
        OptionError: if the variable has a value that it does not take.
    """
    return read_switch(
        os.environ if environment is None else environment, "SVOD_ORIGINS", default=False
    )


def read_device(environment: Mapping[str, str] | None = None) -> str:
    """The device of tensors that are made without naming one (`SVOD_DEVICE`); read when svod_tensor
    is imported.

    Raises:
        OptionError: if the variable names no device.
    """
    value = (os.environ if environment is None else environment).get(
        "SVOD_DEVICE", ""
    ).strip() or HOST_DEVICE
    try:
        return str(parse_device_name(value))
    except DeviceNameError as error:
        expected = "the name of a device, as OPENCL or CPU:1"
        raise OptionError(variable="SVOD_DEVICE", value=value, expected=expected) from error


def read_opt_cache_max(environment: Mapping[str, str] | None = None) -> int:
    """How many kernels the cache holds (`SVOD_OPT_CACHE_MAX`); anything but a positive integer
    means 4096, with a warning.
    """
    value = (
        (os.environ if environment is None else environment).get("SVOD_OPT_CACHE_MAX", "").strip()
    )
    if not value:
        return OPT_CACHE_MAX
    if not value.isdecimal() or int(value) == 0:
        warnings.warn(
            f"SVOD_OPT_CACHE_MAX is {value!r}, which is no positive integer; {OPT_CACHE_MAX} is"
            " used",
            stacklevel=2,
        )
        return OPT_CACHE_MAX
    return int(value)


def _read_planner(environment: Mapping[str, str]) -> PlannerMode:
    # Which takes a while to import, and is not needed to build graphs.
    from svod_runtime import PlannerMode

    return _read_choice(environment, "SVOD_MEMORY_PLANNER", "arena", get_args(PlannerMode))


def _read_float_check(environment: Mapping[str, str]) -> FloatCheck:
    return _read_choice(environment, "SVOD_CHECK_FLOATS", "off", get_args(FloatCheck))


def _read_choice(
    environment: Mapping[str, str], variable: str, default: T, choices: tuple[T, ...]
) -> T:
    value = environment.get(variable, "").strip().lower() or default
    for choice in choices:
        if value == choice:
            return choice
    raise OptionError(variable=variable, value=value, expected=", ".join(choices))


DEFAULT_DEVICE: Final = read_device()
"""Where a caller's data goes, and what is on no device when it is computed by itself."""
