"""Options of preparation, from arguments and the environment; the only module of svod-tensor that
reads the environment.

Example:
    >>> from svod_tensor import PrepareConfig
    >>> from svod_tensor.options import get_config, resolve_config, using_optimizer
    >>> PrepareConfig.from_env() == get_config(), resolve_config(None) == get_config()
    (True, True)
    >>> PrepareConfig().find_backend("CPU") is None  # the environment's
    True
    >>> from svod_schedule import OptimizerConfig
    >>> with using_optimizer(OptimizerConfig(strategy="none")):
    ...     get_config().optimizer.strategy
    'none'
    >>> from svod_tensor.options import read_device, read_opt_cache_max, read_origins
    >>> read_device(), read_origins(), read_opt_cache_max() > 0
    ('CPU', False, True)

    Values of arguments, and the defaults of unset variables:

    >>> from svod_tensor.options import DEFAULT_DEVICE, HOST_DEVICE, OPT_CACHE_MAX, AnyConfig, FloatCheck
    >>> def get_check(config: AnyConfig) -> FloatCheck:
    ...     return resolve_config(config).check_floats
    >>> get_check(PrepareConfig(check_floats="nan")), get_check(OptimizerConfig())
    ('nan', 'off')
    >>> DEFAULT_DEVICE == read_device(), read_device({}) == HOST_DEVICE, read_opt_cache_max({}) == OPT_CACHE_MAX
    (True, True, True)
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
"""Kind of values that no kernel may make of numbers without them."""
OPT_CACHE_MAX: Final = 4096
"""Default of the maximum number of cached kernels."""
HOST_DEVICE: Final = "CPU"
"""Device whose memory is host memory."""

T = TypeVar("T", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
    """Options of a computation; a field that the caller sets takes precedence over the environment.

    Raises:
        ConfigError: if opts are to be searched with passes that are not the compiler's own.

    Example:
        >>> from svod_tensor import PrepareConfig, Tensor
        >>> (Tensor([9, 4]) // Tensor([2, 2])).realize_with(PrepareConfig(check_operands=True)).tolist()
        [4, 2]

    Attributes:
        opts: the `Opt`s for every kernel, the empty tuple meaning none; None leaves them to
            `optimizer`.
        optimizer: options of the search or heuristics that choose opts otherwise, by default from
            `OptimizerConfig.from_env`.
        memory_planner: how intermediates share memory (`SVOD_MEMORY_PLANNER`): `arena` packs them
            into one block for each device, `remap` reuses whole buffers, `disabled` gives each its
            own.
        disable_schedule_cache: whether equal graphs are scheduled anew each time
            (`SVOD_DISABLE_SCHEDULE_CACHE=1`).
        vary_sizes: whether graphs that `realize` or a captured function computes, and that differ
            only in sizes, share kernels from the third size on (`SVOD_VARY_SIZES`, on); these
            kernels take sizes as variables.
        backend: the backend that compiles kernels: `c` on every device, `CPU.c` only on the CPU;
            None leaves it to the device (`SVOD_<KIND>_BACKEND`).
        use_tuned: whether kernels use opts from an earlier search or `svod_tensor.tune`, if
            `optimizer` has the strategy `heuristic` (`SVOD_TUNED`, on).
        passes: a table of passes, as `svod_schedule.pipeline.PIPELINES.with_pass` makes it; None
            means the compiler's own passes. Kernels made by other tables are cached only in this
            process, and do not use tuned opts.
        check_operands: whether executing raises an error for an out-of-bounds index in an index
            tensor, or an integer division by 0 (`SVOD_CHECK_OPERANDS=1`); otherwise the result is
            0. It costs one more kernel for each such operation.
        check_floats: raise if a kernel produces NaN from arguments without NaN
            (`SVOD_CHECK_FLOATS`): `nan`, or `inf` for infinities too; `off` for neither. Kernels
            then run one by one, and their arguments and results are checked in the host's memory,
            which is slow.
        fingerprint: key of the fields that a compiled kernel depends on.
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
        """Read the options from environment variables; unset variables give the defaults.

        Args:
            environment: variables by name; by default `os.environ`.

        Raises:
            OptionError: if a variable has an invalid value.
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
        # Computed once: every look-up of a kernel needs it.
        object.__setattr__(self, "fingerprint", self._make_fingerprint())

    @property
    def fixed_opts(self) -> tuple[Opt, ...] | None:
        """The opts of every kernel; None if they are chosen for each kernel."""
        return () if self.opts is None and self.optimizer.strategy == "none" else self.opts

    @property
    def is_searched(self) -> bool:
        """Whether opts are searched for each kernel."""
        return self.opts is None and self.optimizer.strategy == "beam"

    @property
    def is_tuned(self) -> bool:
        """Whether results of earlier searches are used."""
        # Tuned opts may use tensor cores, and all threads.
        is_wanted = (
            self.use_tuned
            and self.optimizer.strategy == "heuristic"
            and self.optimizer.use_tensor_cores
            and not self.optimizer.threads
        )
        return is_wanted and self.fixed_opts is None and self.passes is None

    def _make_fingerprint(self) -> str:
        opts = self.fixed_opts
        chosen = f"opts {format_opts(opts)}" if opts is not None else self.optimizer.fingerprint
        # Tuned and heuristic opts give different kernels of one body.
        if opts is None and not self.use_tuned:
            chosen += ", untuned"
        if self.passes is not None:
            chosen += f", passes {self.passes.serial}"
        return chosen if self.backend is None else f"{chosen}, backend {self.backend}"

    def find_backend(self, device: str) -> str | None:
        """The backend that is configured for a device; None to leave it to the device."""
        if self.backend is None:
            return None
        kind, dot, name = self.backend.rpartition(".")
        return name or None if not dot or kind.upper() == device.partition(":")[0] else None


_read_config: Final = cache_by_environment(PrepareConfig.from_env, os.environ)
"""`PrepareConfig.from_env`, cached until the environment changes."""

# Not a stack: blocks of several threads may overlap, so each removes its own entry.
_optimizers: Final[list[OptimizerConfig]] = []


@contextmanager
def using_optimizer(optimizer: OptimizerConfig) -> Generator[None]:
    """Use `optimizer` instead of the environment's in all threads, for calls without a
    configuration.
    """
    _optimizers.append(optimizer)
    try:
        yield
    finally:
        _optimizers.remove(optimizer)


def get_config() -> PrepareConfig:
    """The configuration for calls without one.

    Raises:
        OptionError: if an environment variable has an invalid value.
    """
    config = _read_config()
    return replace(config, optimizer=_optimizers[-1]) if _optimizers else config


AnyConfig: TypeAlias = PrepareConfig | OptimizerConfig
"""Configuration argument of a call."""


def resolve_config(config: AnyConfig | None) -> PrepareConfig:
    """The configuration for an argument: None means the environment's; an `OptimizerConfig`
    replaces only that part of it.

    Raises:
        ConfigError: if it is anything else.
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
    """Whether source lines are recorded from the start (`SVOD_ORIGINS`); read when svod_tensor is
    imported.

    Raises:
        OptionError: if the variable has an invalid value.
    """
    return read_switch(
        os.environ if environment is None else environment, "SVOD_ORIGINS", default=False
    )


def read_device(environment: Mapping[str, str] | None = None) -> str:
    """The default device of new tensors (`SVOD_DEVICE`); read when svod_tensor is imported.

    Raises:
        OptionError: if the variable is not a device name.
    """
    value = (os.environ if environment is None else environment).get(
        "SVOD_DEVICE", ""
    ).strip() or HOST_DEVICE
    try:
        return str(parse_device_name(value))
    except DeviceNameError as error:
        expected = "a device name, such as OPENCL or CPU:1"
        raise OptionError(variable="SVOD_DEVICE", value=value, expected=expected) from error


def read_opt_cache_max(environment: Mapping[str, str] | None = None) -> int:
    """Maximum number of cached kernels (`SVOD_OPT_CACHE_MAX`); an invalid value means 4096, with a
    warning.
    """
    value = (
        (os.environ if environment is None else environment).get("SVOD_OPT_CACHE_MAX", "").strip()
    )
    if not value:
        return OPT_CACHE_MAX
    if not value.isdecimal() or int(value) == 0:
        warnings.warn(
            f"SVOD_OPT_CACHE_MAX must be a positive integer, got {value!r}; {OPT_CACHE_MAX} is"
            " used",
            stacklevel=2,
        )
        return OPT_CACHE_MAX
    return int(value)


def _read_planner(environment: Mapping[str, str]) -> PlannerMode:
    # Imported late: it is slow to import and not needed to build graphs.
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
"""Device of tensors made without `device`, and of computations whose inputs have no device."""
