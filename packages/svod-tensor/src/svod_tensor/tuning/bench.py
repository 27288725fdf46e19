"""Bench: runs compiled candidates on a device, with filled buffers and programs by key.

It is used in a child process, or in this process for devices that no other process can load."""

from __future__ import annotations

from array import array
from time import perf_counter
from typing import TYPE_CHECKING, Final

from svod_codegen.kernel_store import decode_kernel
from svod_device import (
    Buffer,
    CompiledSpec,
    Device,
    Launch,
    LaunchDims,
    ProgramSpec,
    TimedProgram,
    get_device,
)
from svod_tensor.tuning.buffer_data import BufferData, make_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

__all__ = ["Bench", "describe_difference", "fit_grid", "make_bench", "middle_values"]

MAX_GROUPS: Final = 65536
"""Maximum number of workgroups that are timed; a larger grid is timed in part."""


def make_bench(
    device: str, backend: str | None, buffer_data: Sequence[BufferData], tolerance: float
) -> Bench:
    """A bench with new buffers on a device of this process."""
    return Bench(get_device(device).with_backend(backend), buffer_data, tolerance)


def middle_values(spec: ProgramSpec) -> dict[str, int]:
    """The variables of a launch, in order, at the midpoint of their bounds."""
    middle = {v.name: (v.min + v.max) // 2 for v in spec.variables}
    return {name: middle[name] for name in spec.var_names}


def fit_grid(dims: LaunchDims) -> tuple[LaunchDims, float]:
    """A grid of at most 65,536 workgroups, made by halving the largest sizes, and the factor by
    which the full grid is larger.
    """
    if dims.local_size is None:
        return dims, 1.0
    sizes, scale = list(dims.global_size), 1.0
    while sizes[0] * sizes[1] * sizes[2] > MAX_GROUPS:
        # The largest axis has the most workgroups that are alike.
        largest = max(range(3), key=lambda i: sizes[i])
        half = sizes[largest] // 2
        scale *= sizes[largest] / half
        sizes[largest] = half
    return LaunchDims((sizes[0], sizes[1], sizes[2]), dims.local_size), scale


class Bench:
    """Runs the candidates of one kernel on `device`."""

    def __init__(self, device: Device, buffer_data: Sequence[BufferData], tolerance: float) -> None:
        self._device = device
        self._data_of = {data.slot: data for data in buffer_data}
        self._tolerance = tolerance
        self._buffers: dict[int, Buffer] = {}
        self._programs: dict[str, _Loaded] = {}
        self._reference: dict[int, Array] = {}

    def load(self, key: str, kernel: bytes) -> None:
        """Load a kernel that `svod_codegen.kernel_store.encode_kernel` wrote."""
        spec, compiled = decode_kernel(kernel)
        buffers = [self._get_buffer(slot) for slot in spec.globals]
        self._programs[key] = _Loaded(self._device, spec, compiled, buffers)

    def drop(self, key: str) -> None:
        """Drop a kernel."""
        self._programs.pop(key, None)

    def time(self, key: str, n_launches: int) -> float:
        """Seconds of one launch, from a batch; scaled to the full grid if only a part of
        it is run.
        """
        return self._programs[key].time(n_launches)

    def compare(self, key: str, reference: str) -> str:
        """Describe how the results of a kernel differ from the results of `reference`; empty if
        they agree.
        """
        if not self._reference:
            self._reference = self._compute(reference)
        results = self._compute(key)
        for slot, expected in self._reference.items():
            difference = describe_difference(expected, results[slot], self._tolerance)
            if difference:
                return f"buffer {slot}: {difference}"
        return ""

    def _compute(self, key: str) -> dict[int, Array]:
        """The outputs of a kernel on buffers with their initial data."""
        loaded = self._programs[key]
        for slot in loaded.spec.globals:
            # Filled again for each kernel, which may update a buffer in place.
            self._fill(slot)
        loaded.run()
        return {slot: self._buffers[slot].as_numpy().copy() for slot in loaded.spec.outs}

    def _get_buffer(self, slot: int) -> Buffer:
        if slot not in self._buffers:
            data = self._data_of[slot]
            self._buffers[slot] = Buffer(
                self._device.allocator, data.element_type, data.size
            ).ensure_allocated()
            self._fill(slot)
        return self._buffers[slot]

    def _fill(self, slot: int) -> None:
        self._buffers[slot].copyin(make_array(self._data_of[slot]).tobytes())


class _Loaded:
    """A program with its arguments, ready to run."""

    def __init__(
        self, device: Device, spec: ProgramSpec, compiled: CompiledSpec, buffers: Sequence[Buffer]
    ) -> None:
        self.spec = spec
        self._device = device
        self._program = device.loader(compiled)
        self._addresses = array("Q", (buffer.address for buffer in buffers))
        self._values = array("q", middle_values(spec).values())
        self._grid = spec.launch_dims(middle_values(spec))
        self._timed_grid, self._scale = fit_grid(self._grid)

    def run(self) -> None:
        """Run the full grid once."""
        self._call(self._grid)
        self._device.allocator.synchronize()

    def time(self, n_launches: int) -> float:
        """Seconds of one launch, by the device's clock if it has one."""
        if isinstance(self._program, TimedProgram):
            nanoseconds = [
                self._program.timed_call(*self._arguments(self._timed_grid))
                for _ in range(n_launches)
            ]
            # The minimum: disturbances only add time.
            return min(nanoseconds) * 1e-9 * self._scale
        run = self._make_batch(n_launches)
        # Work that is still queued would be timed, too.
        self._device.allocator.synchronize()
        started = perf_counter()
        run()
        self._device.allocator.synchronize()
        return (perf_counter() - started) / n_launches * self._scale

    def _arguments(
        self, dims: LaunchDims
    ) -> tuple[array[int], array[int], tuple[int, int, int], tuple[int, int, int] | None]:
        return self._addresses, self._values, dims.global_size, dims.local_size

    def _call(self, dims: LaunchDims) -> None:
        self._program(*self._arguments(dims))

    def _make_batch(self, n_launches: int) -> Callable[[], None]:
        """Several launches, through the batch launcher as in a plan if the device has one."""
        launcher = self._device.launcher
        if launcher is not None:
            try:
                launch = self._arguments(self._timed_grid)
                table = launcher.make_table(
                    [Launch(self._program, *launch, i) for i in range(n_launches)]
                )
            except ValueError:
                pass  # this program cannot be batched
            else:
                return lambda: launcher.run(table)

        def call() -> None:
            for _ in range(n_launches):
                self._call(self._timed_grid)

        return call


def describe_difference(right: Array, found: Array, tolerance: float) -> str:
    """Describe how `found` differs from `right`; empty if it does not.

    Integers and bools must be equal. The error of a float may be `tolerance` times its magnitude
    plus the largest magnitude; NaNs and infinities must match."""
    import numpy as np

    if right.dtype.kind in "iub":
        wrong: NDArray[np.bool] = np.not_equal(right, found)
    else:
        expected, actual = right.astype(np.float64), found.astype(np.float64)
        is_finite = np.isfinite(expected)
        # An element that cancels to nearly zero has the error of its summands.
        largest = float(np.max(np.abs(expected), initial=0.0, where=is_finite))
        # inf - inf; such elements are compared below.
        with np.errstate(invalid="ignore"):
            is_near = np.abs(actual - expected) <= tolerance * (np.abs(expected) + largest)
        is_same = np.logical_or(
            actual == expected, np.logical_and(np.isnan(actual), np.isnan(expected))
        )
        wrong = np.logical_not(np.logical_or(is_same, np.logical_and(is_finite, is_near)))
    n_wrong = int(np.count_nonzero(wrong))
    if not n_wrong:
        return ""
    first = int(np.argmax(wrong))
    return (
        f"{n_wrong} of {wrong.size} elements differ, the first at {first}: {found[first]} instead"
        f" of {right[first]}"
    )
