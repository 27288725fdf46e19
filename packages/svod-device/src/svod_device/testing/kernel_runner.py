"""Builds a kernel with a backend, runs it on a device, and compares with the reference
evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from svod_device._buffer import Buffer
from svod_device._build_kernel import build_kernel, render_spec
from svod_device._device import Device
from svod_device._protocols import Backend, Program
from svod_device._spec import CompiledSpec, ProgramSpec
from svod_device.testing.kernels import KernelCase
from svod_dtype import DType
from svod_ir import Op
from svod_ir.evaluate import evaluate_linear
from svod_ir.testing import assert_close, tolerance

__all__ = ["BuiltKernel", "Guarded", "build", "check_kernel", "make_spec", "make_values"]

Array = NDArray[Any]

_GUARD: Final = 0xA5
_GUARD_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel that is ready to launch."""

    case: KernelCase
    spec: ProgramSpec
    compiled: CompiledSpec
    program: Program


def make_spec(case: KernelCase, backend: Backend, device: str) -> ProgramSpec:
    """Render a kernel, and derive what its launches must know."""
    return render_spec(case.name, case.sink, case.linear, backend, device)


def build(case: KernelCase, backend: Backend, device: str) -> BuiltKernel:
    """Render, compile and load a kernel, as if it came from a cache on disk: without its graph."""
    return BuiltKernel(case, *build_kernel(case.name, case.sink, case.linear, backend, device))


class Guarded:
    """A buffer between two rows of guard bytes, at a place that is aligned to one element only."""

    def __init__(self, device: Device, dtype: DType, content: Array) -> None:
        self._start = _GUARD_BYTES + dtype.itemsize
        self._nbytes = content.nbytes
        whole = np.full(self._start + content.nbytes + _GUARD_BYTES, _GUARD, np.uint8)
        whole[self._start : self._start + content.nbytes] = content.reshape(-1).view(np.uint8)
        self._whole = Buffer(device.allocator, dtype, -(-whole.size // dtype.itemsize))
        padded = np.full(self._whole.nbytes, _GUARD, np.uint8)
        padded[: whole.size] = whole
        self._whole.copyin(padded.data)
        self.buffer = self._whole.view(self._start, content.nbytes, dtype)

    def read(self, name: str) -> Array:
        """The content.

        Raises:
            AssertionError: if a guard byte was written.
        """
        found = np.frombuffer(self._whole.to_bytes(), np.uint8)
        end = self._start + self._nbytes
        assert (found[: self._start] == _GUARD).all(), f"{name} writes before its buffer"
        assert (found[end:] == _GUARD).all(), f"{name} writes behind its buffer"
        return found[self._start : end].view(self.buffer.dtype.numpy)


def make_values(dtype: DType, size: int, seed: int) -> Array:
    """Numbers of all signs, the extremes of integers, and the special floats."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.random(size) < 0.5
    special: tuple[float, ...]
    if dtype.is_float:
        values = (rng.integers(-32, 33, size) / 8).astype(dtype.numpy)
        special = (0.0, -0.0, float("nan"), float("inf"), float("-inf"))
    else:
        values = rng.integers(0 if dtype.is_unsigned else -9, 10, size).astype(dtype.numpy)
        special = (int(dtype.min), int(dtype.max), 0, 1)
    if size > 2 * len(special):
        places = rng.permutation(size)[: len(special)]
        with np.errstate(all="ignore"):
            values[places] = np.array(
                special, np.float64 if dtype.is_float else dtype.numpy
            ).astype(dtype.numpy)
    return values


def check_kernel(
    built: BuiltKernel, device: Device, values: Mapping[str, int], seed: int = 0
) -> None:
    """Launch a kernel and compare every buffer with what the reference evaluation leaves there.

    Raises:
        AssertionError: if one differs, or a byte beside one was written.
    """
    params = sorted({n for n in built.case.linear if n.op is Op.PARAM}, key=lambda n: n.arg.slot)
    before = [make_values(p.dtype, p.arg.size, 1000 * seed + p.arg.slot) for p in params]
    there = [Guarded(device, p.dtype, content) for p, content in zip(params, before, strict=True)]
    spec = built.spec
    dims = spec.launch_dims(values)
    built.program(
        [item.buffer.address for item in there],
        [values[name] for name in spec.var_names],
        dims.global_size,
        dims.local_size,
    )
    expected = {p.arg.slot: content.copy() for p, content in zip(params, before, strict=True)}
    evaluate_linear(built.case.linear, expected, values)
    for param, item in zip(params, there, strict=True):
        what = f"{spec.name} {dict(values)}, buffer {param.arg.slot}"
        assert_close(
            item.read(what), expected[param.arg.slot], loose=tolerance(built.case.sink), what=what
        )
