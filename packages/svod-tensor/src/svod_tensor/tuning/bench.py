"""Where compiled candidates run: a device, buffers with content, programs by key.

It is used in a process of its own, or in this one for devices that no other process can load.
"""

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
from svod_tensor.tuning.contents import Content, make_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

__all__ = ["Bench", "describe_difference", "fit_grid", "make_bench", "middle_values"]

MAX_GROUPS: Final = 65536
"""A larger grid of workgroups is timed in part."""


def make_bench(
    device: str, backend: str | None, contents: Sequence[Content], tolerance: float
) -> Bench:
    """A bench with fresh buffers on a device of this process."""
    return Bench(get_device(device).with_backend(backend), contents, tolerance)


def middle_values(spec: ProgramSpec) -> dict[str, int]:
    """The variables of a launch, in its order, in the middle of their bounds."""
    middle = {v.name: (v.min + v.max) // 2 for v in spec.variables}
    return {name: middle[name] for name in spec.var_names}


def fit_grid(dims: LaunchDims) -> tuple[LaunchDims, float]:
    """A grid of at most 65,536 workgroups, its largest sizes halved, and how many times as large
    the whole one is.
    """
    if dims.local_size is None:
        return dims, 1.0
    sizes, scale = list(dims.global_size), 1.0
    while sizes[0] * sizes[1] * sizes[2] > MAX_GROUPS:
        largest = max(range(3), key=lambda i: sizes[i])
        half = sizes[largest] // 2
        scale *= sizes[largest] / half
        sizes[largest] = half
    return LaunchDims((sizes[0], sizes[1], sizes[2]), dims.local_size), scale


class Bench:
    """Runs the candidates of one kernel on `device`."""

    def __init__(self, device: Device, contents: Sequence[Content], tolerance: float) -> None:
        self._device = device
        self._contents = {content.slot: content for content in contents}
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
        """Forget a kernel."""
        self._programs.pop(key, None)

    def time(self, key: str, n_launches: int) -> float:
        """The seconds of one launch out of several without a pause; of a whole grid also where a
        part of it was run.
        """
        return self._programs[key].time(n_launches)

    def compare(self, key: str, reference: str) -> str:
        """In what the results of a kernel differ from those of `reference`; nothing where they
        agree.
        """
        if not self._reference:
            self._reference = self._compute(reference)
        found = self._compute(key)
        for slot, right in self._reference.items():
            difference = describe_difference(right, found[slot], self._tolerance)
            if difference:
                return f"buffer {slot}: {difference}"
        return ""

    def _compute(self, key: str) -> dict[int, Array]:
        """What a kernel writes, all buffers being as at first."""
        loaded = self._programs[key]
        for slot in loaded.spec.globals:
            self._fill(slot)
        loaded.run()
        return {slot: self._buffers[slot].as_numpy().copy() for slot in loaded.spec.outs}

    def _get_buffer(self, slot: int) -> Buffer:
        if slot not in self._buffers:
            content = self._contents[slot]
            self._buffers[slot] = Buffer(
                self._device.allocator, content.element_type, content.size
            ).ensure_allocated()
            self._fill(slot)
        return self._buffers[slot]

    def _fill(self, slot: int) -> None:
        self._buffers[slot].copyin(make_array(self._contents[slot]).tobytes())


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
        self._whole = spec.launch_dims(middle_values(spec))
        self._part, self._scale = fit_grid(self._whole)

    def run(self) -> None:
        """Run the whole kernel once."""
        self._call(self._whole)
        self._device.allocator.synchronize()

    def time(self, n_launches: int) -> float:
        """The seconds of one launch, by the device's clock where it has one."""
        if isinstance(self._program, TimedProgram):
            nanoseconds = [
                self._program.timed_call(*self._arguments(self._part)) for _ in range(n_launches)
            ]
            return min(nanoseconds) * 1e-9 * self._scale
        run = self._make_batch(n_launches)
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
        """Several launches, by the batch launcher as in a plan where there is one."""
        launcher = self._device.launcher
        if launcher is not None:
            try:
                launch = self._arguments(self._part)
                table = launcher.make_table(
                    [Launch(self._program, *launch, i) for i in range(n_launches)]
                )
            except ValueError:
                pass  # this program can only be called
            else:
                return lambda: launcher.run(table)

        def call() -> None:
            for _ in range(n_launches):
                self._call(self._part)

        return call


def describe_difference(right: Array, found: Array, tolerance: float) -> str:
    """In what `found` is wrong, as text; nothing where it is right.

    Integers and bools have to be equal. Floats may differ by `tolerance` times themselves and the
    largest of all; NaNs and infinities stand in the same places."""
    import numpy as np

    if right.dtype.kind in "iub":
        wrong: NDArray[np.bool] = np.not_equal(right, found)
    else:
        expected, actual = right.astype(np.float64), found.astype(np.float64)
        is_finite = np.isfinite(expected)
        largest = float(np.max(np.abs(expected), initial=0.0, where=is_finite))
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
