"""Watched plans: kernels run one by one, and the first that makes a NaN (or an infinity) of
arguments without any is an error.

What a kernel reads tells whether it may write one. What lay in the memory of its results before
tells whether it did: where the same bits are there afterwards, it is asked again, with zeros in
their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from svod_runtime.errors import NonFiniteError
from svod_runtime.kernels.kernel_state import KernelState

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
    floats = [
        (slot, buffer)
        for slot, buffer in zip(spec.globals, state.buffers, strict=True)
        if buffer.dtype.is_float
    ]
    if any(_find(_read(buffer), watched).any() for slot, buffer in floats if slot in spec.ins):
        state.run()
        return
    results = [
        (p, state.buffers[p]) for p in state.op.output_indices if state.buffers[p].dtype.is_float
    ]
    before = [_read(buffer) for _, buffer in results]
    state.run()
    for (position, buffer), old in zip(results, before, strict=True):
        new = _read(buffer)
        found = _find(new, watched)
        unclear = found & _find(old, watched) & _have_equal_bits(old, new)
        found &= ~unclear
        if unclear.any() and not found.any():
            found = _get_written(state, buffer, new, unclear, watched)
        if found.any():
            raise _make_error(state, position, new, found)


def _get_written(
    state: KernelState,
    buffer: Buffer,
    values: NDArray[np.generic],
    where: NDArray[np.bool_],
    watched: Watched,
) -> NDArray[np.bool_]:
    """Which of these places the kernel, which does not read them, writes; the others get their old
    values again.
    """
    cleared = values.copy()
    cleared[where] = 0
    buffer.copyin(cleared.tobytes())
    state.run()
    found = _find(_read(buffer), watched)
    if not found.any():
        buffer.copyin(values.tobytes())
    return found


def _read(buffer: Buffer) -> NDArray[np.generic]:
    return buffer.as_numpy().copy()


def _find(values: NDArray[np.generic], watched: Watched) -> NDArray[np.bool_]:
    import numpy as np

    # numpy asks no such question of the narrow floats of ml_dtypes.
    wide = values.astype(np.float32) if values.itemsize < 4 else values
    return np.isnan(wide) if watched == "nan" else ~np.isfinite(wide)


def _have_equal_bits(old: NDArray[np.generic], new: NDArray[np.generic]) -> NDArray[np.bool_]:
    bits = f"u{old.itemsize}"
    return old.view(bits) == new.view(bits)


def _make_error(
    state: KernelState, position: int, values: NDArray[np.generic], found: NDArray[np.bool_]
) -> NonFiniteError:
    first = int(found.argmax())
    return NonFiniteError(
        kernel=state.op.kernel.name,
        op_id=state.op.id,
        buffer=position,
        element=first,
        value=float(values[first]),
        count=int(found.sum()),
        origins=state.origins,
    )
