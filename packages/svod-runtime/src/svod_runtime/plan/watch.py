"""Watched plans: kernels run sequentially, and the first kernel that produces a NaN (or an
infinity) from finite inputs raises an error.

The inputs decide whether an output may be non-finite. A kernel may leave parts of an output
unwritten, so old non-finite values in that memory are not evidence. If the bits did not change, the
kernel runs again with zeros in these elements.
"""

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
"""Values that must not arise: NaNs, or NaNs and infinities."""


def run_watched(state: KernelState, watched: Watched) -> None:
    """Run one kernel on its own.

    Raises:
        NonFiniteError: if it reads no such value and writes one.
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
        mask = _find(new, watched)
        unclear = mask & _find(old, watched) & _have_equal_bits(old, new)
        mask &= ~unclear
        if unclear.any() and not mask.any():
            mask = _get_written(state, buffer, new, unclear, watched)
        if mask.any():
            raise _make_error(state, position, new, mask)


def _get_written(
    state: KernelState,
    buffer: Buffer,
    values: NDArray[np.generic],
    where: NDArray[np.bool_],
    watched: Watched,
) -> NDArray[np.bool_]:
    """Mask of the elements in `where` that the kernel writes; it must not read the buffer.

    If it writes none, the old values are restored.
    """
    cleared = values.copy()
    cleared[where] = 0
    buffer.copyin(cleared.tobytes())
    state.run()
    mask = _find(_read(buffer), watched)
    if not mask.any():
        buffer.copyin(values.tobytes())
    return mask


def _read(buffer: Buffer) -> NDArray[np.generic]:
    # A copy: the kernel overwrites the memory that the array views.
    return buffer.as_numpy().copy()


def _find(values: NDArray[np.generic], watched: Watched) -> NDArray[np.bool_]:
    import numpy as np

    # numpy has no isnan or isfinite for the narrow float dtypes of ml_dtypes.
    wide = values.astype(np.float32) if values.itemsize < 4 else values
    return np.isnan(wide) if watched == "nan" else ~np.isfinite(wide)


def _have_equal_bits(old: NDArray[np.generic], new: NDArray[np.generic]) -> NDArray[np.bool_]:
    # By bits, since a NaN differs from itself.
    bits = f"u{old.itemsize}"
    return old.view(bits) == new.view(bits)


def _make_error(
    state: KernelState, position: int, values: NDArray[np.generic], mask: NDArray[np.bool_]
) -> NonFiniteError:
    first = int(mask.argmax())
    return NonFiniteError(
        kernel=state.op.kernel.name,
        op_id=state.op.id,
        buffer=position,
        element=first,
        value=float(values[first]),
        count=int(mask.sum()),
        origins=state.origins,
    )
