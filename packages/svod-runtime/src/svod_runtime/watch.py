"""Watched plans: kernels run one by one, and the first that makes a NaN (or an infinity) of arguments without any is an error.

What a kernel reads tells whether it may. What it writes is told from what lay there before: other results' bits, or
nobody's, may be NaNs as well, so that these are zeros while the kernel runs.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, TypeAlias

from svod_runtime.errors import NonFiniteError
from svod_runtime.execute import KernelState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svod_device import Buffer

__all__ = ["Watched", "run_watched"]

Watched: TypeAlias = Literal["nan", "inf"]
"""What must not arise: NaNs, or NaNs and infinities."""


def run_watched(state: KernelState, watched: Watched) -> None:
    """Run one kernel by itself.

    Raises:
        NonFiniteError: if it reads no such value, and writes one.
    """
    spec = state.op.kernel.spec
    floats = [(slot, buffer) for slot, buffer in zip(spec.globals, state.buffers, strict=True) if buffer.dtype.is_float]
    if any(_find(_read(buffer), watched).any() for slot, buffer in floats if slot in spec.ins):
        state.run()
        return
    written = {position: state.buffers[position] for position in state.op.output_indices}
    with ExitStack() as stack:
        for buffer in written.values():
            if buffer.dtype.is_float:
                stack.enter_context(_Cleared(buffer, watched))
        state.run()
        for position, buffer in written.items():
            if buffer.dtype.is_float:
                _check(state, position, _read(buffer), watched)


class _Cleared:
    """A buffer whose NaNs are zeros for a while; those that are zeros still are NaNs again afterwards."""

    def __init__(self, buffer: Buffer, watched: Watched) -> None:
        self._buffer, self._old = buffer, _read(buffer)
        self._where = _find(self._old, watched)

    def __enter__(self) -> None:
        if self._where.any():
            cleared = self._old.copy()
            cleared[self._where] = 0
            self._buffer.copyin(cleared.tobytes())

    def __exit__(self, *_: object) -> None:
        if self._where.any():
            new = _read(self._buffer)
            kept = self._where & (new == 0)
            new[kept] = self._old[kept]
            self._buffer.copyin(new.tobytes())


def _read(buffer: Buffer) -> NDArray[np.generic]:
    return buffer.as_numpy().copy()


def _find(values: NDArray[np.generic], watched: Watched) -> NDArray[np.bool_]:
    import numpy as np

    # numpy asks no such question of the narrow floats of ml_dtypes.
    wide = values.astype(np.float32) if values.itemsize < 4 else values
    return np.isnan(wide) if watched == "nan" else ~np.isfinite(wide)


def _check(state: KernelState, position: int, values: NDArray[np.generic], watched: Watched) -> None:
    found = _find(values, watched)
    if found.any():
        first = int(found.argmax())
        raise NonFiniteError(
            kernel=state.op.kernel.name, op_id=state.op.id, buffer=position, element=first, value=float(values[first]),
            count=int(found.sum()), origins=state.origins,
        )  # fmt: skip
