"""Modes of computing a program with loops, and checks of its results."""

# Arrays have any dtype.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import importlib
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from svod_ir import DeviceMismatchError
from svod_tensor import PrepareConfig, Tensor, clear_caches, jit
from svod_tensor.errors import BranchError, CarriedValueError, ShardError
from svod_testing.loop_programs.code import bind_variables, build
from svod_testing.loop_programs.meaning import (
    Expected,
    evaluate_program,
    find_difference,
    make_arrays,
)
from svod_testing.loop_programs.program import LoopProgram
from svod_testing.programs.modes import Failure, describe_error, using_threads
from svod_testing.programs.oracle import UnstableError

__all__ = ["MODES", "LoopMode", "check_program", "placing_inputs", "using_settings"]

_USUAL: Final = PrepareConfig()
_DEVICES: Final = ("CPU", "CPU:1")
_REFUSALS: Final = (ShardError, DeviceMismatchError, BranchError, CarriedValueError)
"""Errors of sharded programs: random and gathered values are on one device, and do not mix."""

Setting = tuple[str, str, object]
_IN_KERNELS: Final[Setting] = ("svod_schedule.rangeify.fuse_loops", "MAX_INSTRUCTIONS", -1)
_UNROLLED: Final[Setting] = (
    "svod_schedule.rangeify.loops.unroll_loops",
    "MAX_UNROLLED_NODES",
    0,
)
_IN_LAUNCHER: Final[Setting] = ("svod_codegen.launcher.batch", "CpuBatchLauncher.runs_loops", False)
"""Settings that disable fusing loops into kernels, unrolling them, and running them in the launcher."""

Runs = Iterator[tuple[int, Sequence[Any]]]
"""Results of each run as arrays, with the version of the inputs and variables."""


@dataclass(frozen=True, slots=True)
class LoopMode:
    """Mode of computing the results of a program, possibly several times.

    Attributes:
        run: function that yields the results of each run.
        config: configuration that prepares the kernels.
        least_work: minimum work of a kernel that is split over threads; None for the default.
        settings: compiler limits to override: module, name and value.
        weight: sampling weight.
        refuses: errors by which a program is unsupported in this mode.
    """

    run: Callable[[LoopProgram, PrepareConfig], Runs]
    config: PrepareConfig = _USUAL
    least_work: int | None = None
    settings: tuple[Setting, ...] = ()
    weight: float = 1.0
    refuses: tuple[type[Exception], ...] = ()


def check_program(
    program: LoopProgram,
    mode: str,
    *,
    device: str | None = None,
    values: list[Expected] | None = None,
) -> Failure | None:
    """Compute a program in a mode, and return the failure; None if the results are correct.

    Args:
        program: program to compute.
        mode: name in `MODES`.
        device: device of the inputs, by default the default device.
        values: results of `evaluate_program`, if known.
    """
    chosen = MODES[mode]
    try:
        expected = {
            0: evaluate_program(program) if values is None else values,
            1: evaluate_program(program, 1),
        }
    except (UnstableError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError):
        return None
    bits: dict[int, list[bytes]] = {}
    try:
        with using_threads(chosen.least_work), using_settings(*chosen.settings):
            for run, (version, results) in enumerate(chosen.run(program, chosen.config)):
                for index, (array, result) in enumerate(
                    zip(results, expected[version], strict=True)
                ):
                    difference = find_difference(array, result)
                    if difference is not None:
                        kind = difference.split(":")[0].split(" ")[0]
                        message = (
                            f"run {run}, result {index} (x{program.roots[index]}): {difference}"
                        )
                        return Failure(mode, f"{kind} in run {run}" if run else kind, message)
                contents = [array.tobytes() for array in results]
                if bits.setdefault(version, contents) != contents:
                    return Failure(
                        mode, f"other bits in run {run}", "the same inputs gave other bits before"
                    )
    except chosen.refuses:
        return None
    except Exception as error:
        return Failure(mode, describe_error(error), "".join(traceback.format_exception(error)))
    return None


@contextmanager
def using_settings(*settings: Setting) -> Generator[None]:
    """Override compiler limits within the block, and clear the caches before and after."""
    if not settings:
        yield
        return
    before: list[tuple[Any, str, object]] = []
    try:
        for module, path, value in settings:
            *owners, name = path.split(".")
            owner = functools.reduce(getattr, owners, importlib.import_module(module))
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        clear_caches()
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        clear_caches()


def _loops() -> Any:
    # By name, so that the loops are those of the installed distribution.
    return importlib.import_module("svod_tensor")


_placed: list[Callable[[int, Tensor], Tensor]] = []


@contextmanager
def placing_inputs(place: Callable[[int, Tensor], Tensor]) -> Generator[None]:
    """Place each input of a program, by its number, within the block."""
    _placed.append(place)
    try:
        yield
    finally:
        _placed.pop()


def _tensors(program: LoopProgram, version: int = 0) -> dict[int, Tensor]:
    tensors = {
        v: Tensor(array).clone().realize() for v, array in make_arrays(program, version).items()
    }
    return {v: _placed[-1](v, x) for v, x in tensors.items()} if _placed else tensors


def _build(program: LoopProgram, tensors: Mapping[int, Tensor], version: int = 0) -> list[Any]:
    return build(program, tensors, bind_variables(program, version), _loops())


def _read(results: Sequence[Any]) -> list[Any]:
    return [result.numpy(copy=True) for result in results]


def _realize(program: LoopProgram, config: PrepareConfig) -> Runs:
    for version in (0, 1):
        results = _build(program, _tensors(program, version), version)
        Tensor.realize_batch_with(results, config)
        yield version, _read(results)


def _realize_each(program: LoopProgram, config: PrepareConfig) -> Runs:
    results = _build(program, _tensors(program))
    for result in results:
        result.realize_with(config)
    yield 0, _read(results)


def _plan_memory(program: LoopProgram, config: PrepareConfig) -> Runs:
    """Run the same kernels with each memory planner; the bits must be equal."""
    for planner in ("arena", "remap", "disabled"):
        results = _build(program, _tensors(program))
        Tensor.realize_batch_with(results, PrepareConfig(memory_planner=planner, opts=config.opts))
        yield 0, _read(results)


def _launch_either_way(program: LoopProgram, config: PrepareConfig) -> Runs:
    """Run the same kernels in a loop of the launcher and of Python; the bits must be equal."""
    for settings in ((), (_IN_LAUNCHER,)):
        with using_settings(*settings):
            results = _build(program, _tensors(program))
            Tensor.realize_batch_with(results, config)
            yield 0, _read(results)
        clear_caches()


def _prepare(program: LoopProgram, config: PrepareConfig) -> Runs:
    tensors = _tensors(program)
    results = _build(program, tensors)
    pending = [r for r in results if r.size and not r.is_realized]
    if not pending:
        return
    plan = Tensor.prepare_batch_with(pending, config)
    for version in (0, 0, 1, 0):
        for value, array in make_arrays(program, version).items():
            if array.size:
                # Written to the buffer directly: an assignment would make a new version, and the
                # plan would keep reading the old one.
                tensors[value].buffer().copyin(np.ascontiguousarray(array).data)
        plan.execute_with_vars(
            {name: bounds[2 + version] for name, bounds in program.variables.items()}
        )
        yield version, _read(results)


def _capture(
    program: LoopProgram, config: PrepareConfig, donate: bool = False
) -> Callable[..., tuple[Any, ...]]:
    def run(inputs: dict[int, Tensor], variables: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(build(program, inputs, variables, _loops()))

    return jit(run, config=config, donate=("inputs",) if donate else ())


def _jit(program: LoopProgram, config: PrepareConfig) -> Runs:
    run = _capture(program, config)
    for version in (0, 0, 1, 0):
        yield version, _read(run(_tensors(program, version), bind_variables(program, version)))


def _jit_on_results(program: LoopProgram, config: PrepareConfig) -> Runs:
    """Call a function twice; results of the first call must not change with the second."""
    run = _capture(program, config)
    first = run(_tensors(program), bind_variables(program))
    again = run(_tensors(program, 1), bind_variables(program, 1))
    yield 0, _read(first)
    yield 1, _read(again)


def _donate(program: LoopProgram, config: PrepareConfig) -> Runs:
    if not program.inputs or set(program.roots) & {step.results[0] for step in program.inputs}:
        return
    run = _capture(program, config, donate=True)
    for version in (0, 1, 0):
        yield version, _read(run(_tensors(program, version), bind_variables(program, version)))


def _shard(program: LoopProgram, config: PrepareConfig, *, splits: bool) -> Runs:
    for version in (0, 1):
        sharded: dict[int, Tensor] = {}
        for value, tensor in _tensors(program, version).items():
            axis = 0 if splits and tensor.ndim and tensor.shape[0] != 1 else None
            sharded[value] = tensor.shard(_DEVICES, axis)
        results = _build(program, sharded, version)
        Tensor.realize_batch_with(results, config)
        yield version, _read(results)


def _replicate(program: LoopProgram, config: PrepareConfig) -> Runs:
    return _shard(program, config, splits=False)


def _split(program: LoopProgram, config: PrepareConfig) -> Runs:
    return _shard(program, config, splits=True)


MODES: Final[dict[str, LoopMode]] = {
    "batch": LoopMode(_realize),
    "prepare": LoopMode(_prepare),
    "jit": LoopMode(_jit),
    "jit on results": LoopMode(_jit_on_results, weight=0.5),
    "donate": LoopMode(_donate),
    "memory": LoopMode(_plan_memory),
    "memory, no opts": LoopMode(_plan_memory, PrepareConfig(opts=()), weight=0.3),
    "kernels": LoopMode(_launch_either_way, settings=(_IN_KERNELS, _UNROLLED), weight=2.0),
    "kernels, jit": LoopMode(_jit, settings=(_IN_KERNELS, _UNROLLED)),
    "kernels, prepare": LoopMode(_prepare, settings=(_IN_KERNELS, _UNROLLED)),
    "kernels, memory": LoopMode(_plan_memory, settings=(_IN_KERNELS, _UNROLLED), weight=0.5),
    "kernels, split": LoopMode(
        _split, settings=(_IN_KERNELS, _UNROLLED), weight=0.4, refuses=_REFUSALS
    ),
    "launched": LoopMode(_launch_either_way),
    "each": LoopMode(_realize_each, weight=0.4),
    "no schedule cache": LoopMode(_realize, PrepareConfig(disable_schedule_cache=True), weight=0.4),
    "no opts": LoopMode(_realize, PrepareConfig(opts=()), weight=0.5),
    "prepare, no opts": LoopMode(_prepare, PrepareConfig(opts=()), weight=0.3),
    "threads": LoopMode(_prepare, least_work=1, weight=0.5),
    "one thread": LoopMode(_realize, least_work=1 << 62, weight=0.1),
    "c": LoopMode(_realize, PrepareConfig(backend="c"), weight=0.1),
    "replicate": LoopMode(_replicate, weight=0.4, refuses=_REFUSALS),
    "split": LoopMode(_split, weight=0.4, refuses=_REFUSALS),
}
