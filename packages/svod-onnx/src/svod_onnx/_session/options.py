"""Options of sessions and calls, with the names and defaults of onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from operator import index
from typing import Any, Final, NoReturn

from svod_onnx._graph import ValueInfo
from svod_onnx._reading import ModelFile
from svod_onnx._session.ort_value import OrtValue
from svod_onnx.capi.onnxruntime_pybind11_state import (
    InvalidArgument,
    NotImplemented as UnsupportedError,
    RuntimeException,
)

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "RunOptions",
    "SessionOptions",
    "apply_options",
    "list_providers",
]


class GraphOptimizationLevel(IntEnum):
    """Graph optimizations; all levels compile the same kernels.

    Example:
        >>> from svod_onnx import GraphOptimizationLevel, SessionOptions
        >>> SessionOptions().graph_optimization_level is GraphOptimizationLevel.ORT_ENABLE_ALL
        True
    """

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Order of nodes; the kernels of a plan always run in order, each on all threads.

    Example:
        >>> from svod_onnx import ExecutionMode, SessionOptions
        >>> SessionOptions().execution_mode is ExecutionMode.ORT_SEQUENTIAL
        True
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Order of nodes of equal rank, which has no effect.

    Example:
        >>> from svod_onnx import ExecutionOrder, SessionOptions
        >>> SessionOptions().execution_order is ExecutionOrder.DEFAULT
        True
    """

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Checked:
    """Base of options: setting an unknown option is an AttributeError, and a value of another type
    is a TypeError, as in onnxruntime.
    """

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        default: object = _DEFAULTS[type(self)].get(name)
        if isinstance(default, IntEnum | str | bool):
            if not isinstance(value, type(default)):
                raise TypeError(f"{name}: expected {type(default).__name__}, got {value!r}")
        elif isinstance(default, int):
            value = index(value)
        object.__setattr__(self, name, value)


@dataclass(slots=True, eq=False)
class SessionOptions(_Checked):
    """Options of an `InferenceSession`.

    Attributes:
        intra_op_num_threads: maximum number of threads of a kernel; 0 for all.
        inter_op_num_threads: no effect: kernels run in order.
        execution_mode: no effect.
        execution_order: no effect.
        graph_optimization_level: no effect; `SVOD_NOOPT=1` compiles unoptimized kernels.
        optimized_model_filepath: no effect; compiled kernels are cached on disk.
        enable_profiling: whether `end_profiling` writes a trace.
        profile_file_prefix: start of the trace's file name.
        enable_cpu_mem_arena: no effect; memory is always planned.
        enable_mem_pattern: no effect.
        enable_mem_reuse: no effect.
        log_severity_level: no effect; `set_default_logger_severity` sets the process's level.
        log_verbosity_level: no effect.
        logid: no effect.
        use_deterministic_compute: no effect; kernels are deterministic.
        use_per_session_threads: no effect; the process has one thread pool.

    Example:
        >>> from svod_onnx import SessionOptions
        >>> options = SessionOptions()
        >>> options.intra_op_num_threads = 1
        >>> options.add_free_dimension_override_by_name("batch", 1)
        >>> options.add_session_config_entry("session.use_env_allocators", "1")
        >>> options.get_session_config_entry("session.use_env_allocators")
        '1'
        >>> options.add_provider("CPUExecutionProvider", {})
        >>> options.has_providers()
        True
        >>> import numpy as np
        >>> from svod_onnx import OrtValue
        >>> bias = OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
        >>> options.add_initializer("bias", bias)
        >>> options.add_external_initializers(["first", "second"], [bias, bias])

        Options without a counterpart are errors:

        >>> from svod_onnx.capi.onnxruntime_pybind11_state import NotImplemented as Unsupported
        >>> try:
        ...     options.register_custom_ops_library("operators.so")
        ... except Unsupported as error:
        ...     print(error.hint)
        write each operator as a Python function of tensors, with `svod_onnx.operator`
        >>> try:
        ...     options.add_free_dimension_override_by_denotation("BATCH", 1)
        ... except Unsupported as error:
        ...     print(error.hint)
        call add_free_dimension_override_by_name with the dimension's name
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    optimized_model_filepath: str = ""
    enable_profiling: bool = False
    profile_file_prefix: str = "onnxruntime_profile_"
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False)
    _sizes: dict[str, int] = field(default_factory=dict[str, int], init=False, repr=False)
    _initializers: dict[str, OrtValue] = field(
        default_factory=dict[str, OrtValue], init=False, repr=False
    )
    _providers: dict[str, dict[str, str]] = field(
        default_factory=dict[str, dict[str, str]], init=False, repr=False
    )

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the size of a symbolic dimension. A name that no input has is ignored."""
        self._sizes[name] = index(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> NoReturn:
        """Raise an error: denotations of dimensions are not read."""
        raise UnsupportedError(
            f"cannot fix dimensions of denotation {denotation!r} to {size}: denotations are not read",
            hint="call add_free_dimension_override_by_name with the dimension's name",
        )

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Record an entry, which has no effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Value of an entry.

        Raises:
            RuntimeException: if there is no such entry.
        """
        if key not in self._entries:
            raise RuntimeException(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def add_initializer(self, name: str, ortvalue: OrtValue) -> None:
        """Replace an initializer of the model by this value."""
        self._initializers[name] = ortvalue

    def add_external_initializers(
        self, names: Sequence[str], ortvalues: Sequence[OrtValue]
    ) -> None:
        """Replace initializers of the model by these values."""
        self._initializers.update(zip(names, ortvalues, strict=True))

    def add_provider(self, provider: str, options: Mapping[str, str]) -> None:
        """Append an execution provider, for a session without `providers`."""
        self._providers[provider] = dict(options)

    def has_providers(self) -> bool:
        """Whether `add_provider` was called."""
        return bool(self._providers)

    def register_custom_ops_library(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raise an error: operators of such a library are compiled for onnxruntime.

        Raises:
            NotImplemented: always.
        """
        raise UnsupportedError(
            f"cannot load the operators of {os.fspath(path)}, which are compiled for onnxruntime",
            hint="write each operator as a Python function of tensors, with `svod_onnx.operator`",
        )


@dataclass(slots=True, eq=False)
class RunOptions(_Checked):
    """Options of a call.

    Attributes:
        only_execute_path_to_fetches: whether nodes that only other outputs need are skipped.
        terminate: whether calls with these options fail.
        log_severity_level: no effect.
        log_verbosity_level: no effect.
        logid: no effect.

    Example:
        >>> from svod_onnx import RunOptions
        >>> options = RunOptions()
        >>> options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        >>> options.get_run_config_entry("memory.enable_memory_arena_shrinkage")
        'cpu:0'
    """

    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    _entries: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Record an entry, which has no effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Value of an entry.

        Raises:
            RuntimeException: if there is no such entry.
        """
        if key not in self._entries:
            raise RuntimeException(f"RunOptions does not have configuration with key: {key}")
        return self._entries[key]


_DEFAULTS: Final[dict[type, dict[str, Any]]] = {
    kind: {entry.name: entry.default for entry in fields(kind) if not entry.name.startswith("_")}
    for kind in (SessionOptions, RunOptions)
}


def list_providers(options: SessionOptions) -> dict[str, dict[str, str]]:
    """Options of the providers that `add_provider` added."""
    return options._providers  # pyright: ignore[reportPrivateUsage]


def apply_options(options: SessionOptions, file: ModelFile) -> ModelFile:
    """The model with the fixed sizes and replaced initializers of the options.

    Raises:
        InvalidArgument: if the model has no such initializer, or one of another dtype or shape.
    """
    graph, sizes = file.graph, options._sizes  # pyright: ignore[reportPrivateUsage]
    constants = dict(graph.constants)
    for name, value in options._initializers.items():  # pyright: ignore[reportPrivateUsage]
        array, constant = value.numpy(), constants.get(name)
        if constant is None:
            raise InvalidArgument(f"the model has no initializer {name!r}")
        if array.shape != constant.shape or str(array.dtype) != str(constant.dtype):
            raise InvalidArgument(
                f"initializer {name!r}: expected {constant.dtype}{constant.shape},"
                f" got {array.dtype}{array.shape}"
            )
        constants[name] = array
    return replace(
        file,
        graph=replace(
            graph,
            inputs=tuple(_fix(info, sizes) for info in graph.inputs),
            outputs=tuple(_fix(info, sizes) for info in graph.outputs),
            overridable=tuple(_fix(info, sizes) for info in graph.overridable),
            constants=constants,
        ),
    )


def _fix(info: ValueInfo, sizes: Mapping[str, int]) -> ValueInfo:
    if info.shape is None:
        return info
    shape = [sizes.get(size, size) if isinstance(size, str) else size for size in info.shape]
    return replace(info, shape=tuple(shape))
