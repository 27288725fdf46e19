"""Kernel tests: build a kernel, run it, and compare its results with the reference evaluation."""

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

# Not zero, which a stray store is likely to write.
_GUARD: Final = 0xA5
# The widest vector of a CPU: a store that is one vector too long stays within the guard.
_GUARD_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """Kernel that is ready to launch."""

    case: KernelCase
    spec: ProgramSpec
    compiled: CompiledSpec
    program: Program


def make_spec(case: KernelCase, backend: Backend, device: str) -> ProgramSpec:
    """Render the kernel of `case` with `backend` for `device` and return its spec."""
    return render_spec(case.name, case.sink, case.linear, backend, device)


def build(case: KernelCase, backend: Backend, device: str) -> BuiltKernel:
    """Render, compile and load the kernel of `case` with `backend` for `device`.

    The loader gets no graph, as from a disk cache.
    """
    return BuiltKernel(case, *build_kernel(case.name, case.sink, case.linear, backend, device))


class Guarded:
    """Buffer between guard bytes, at an offset that is aligned to one element only."""

    def __init__(self, device: Device, dtype: DType, values: Array) -> None:
        # An odd multiple of the element size, so that kernels cannot rely on vector alignment.
        self._start = _GUARD_BYTES + dtype.itemsize
        self._nbytes = values.nbytes
        guarded = np.full(self._start + values.nbytes + _GUARD_BYTES, _GUARD, np.uint8)
        guarded[self._start : self._start + values.nbytes] = values.reshape(-1).view(np.uint8)
        self._base = Buffer(device.allocator, dtype, -(-guarded.size // dtype.itemsize))
        padded = np.full(self._base.nbytes, _GUARD, np.uint8)
        padded[: guarded.size] = guarded
        self._base.copyin(padded.data)
        self.buffer = self._base.view(self._start, values.nbytes, dtype)

    def read(self, name: str) -> Array:
        """Return the buffer's elements.

        Raises:
            AssertionError: if a guard byte was overwritten.
        """
        data = np.frombuffer(self._base.to_bytes(), np.uint8)
        end = self._start + self._nbytes
        assert (data[: self._start] == _GUARD).all(), (
            f"{name} writes before the start of its buffer"
        )
        assert (data[end:] == _GUARD).all(), f"{name} writes past the end of its buffer"
        return data[self._start : end].view(self.buffer.dtype.numpy)


def make_values(dtype: DType, size: int, seed: int) -> Array:
    """Sample values of both signs, with integer limits or special floats at random indices."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.random(size) < 0.5
    special: tuple[float, ...]
    if dtype.is_float:
        # Multiples of 1/8: short sums and products are exact in float32, in whatever order.
        values = (rng.integers(-32, 33, size) / 8).astype(dtype.numpy)
        special = (0.0, -0.0, float("nan"), float("inf"), float("-inf"))
    else:
        values = rng.integers(0 if dtype.is_unsigned else -9, 10, size).astype(dtype.numpy)
        special = (int(dtype.min), int(dtype.max), 0, 1)
    # In a short buffer, special values would replace most ordinary ones.
    if size > 2 * len(special):
        indices = rng.permutation(size)[: len(special)]
        with np.errstate(all="ignore"):
            values[indices] = np.array(
                special, np.float64 if dtype.is_float else dtype.numpy
            ).astype(dtype.numpy)
    return values


def check_kernel(
    built: BuiltKernel, device: Device, values: Mapping[str, int], seed: int = 0
) -> None:
    """Launch a kernel and compare every buffer with the reference evaluation.

    Args:
        built: kernel from `build`.
        device: device to launch on.
        values: values of the variables by name.
        seed: seed of the buffers' elements.

    Raises:
        AssertionError: if a buffer differs, or a guard byte was overwritten.
    """
    params = sorted({n for n in built.case.linear if n.op is Op.PARAM}, key=lambda n: n.arg.slot)
    initial = [make_values(p.dtype, p.arg.size, 1000 * seed + p.arg.slot) for p in params]
    guarded = [Guarded(device, p.dtype, array) for p, array in zip(params, initial, strict=True)]
    spec = built.spec
    dims = spec.launch_dims(values)
    built.program(
        [item.buffer.address for item in guarded],
        [values[name] for name in spec.var_names],
        dims.global_size,
        dims.local_size,
    )
    expected = {p.arg.slot: array.copy() for p, array in zip(params, initial, strict=True)}
    evaluate_linear(built.case.linear, expected, values)
    for param, item in zip(params, guarded, strict=True):
        what = f"{spec.name} {dict(values)}, buffer {param.arg.slot}"
        assert_close(
            item.read(what), expected[param.arg.slot], loose=tolerance(built.case.sink), what=what
        )
