"""Initial values of parameters: computed before the first read, or none at all, for models that are
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from svod_nn.errors import EmptyParameterError
from svod_tensor import Tensor, defer_values, float32, is_deferred

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["init_empty_weights", "initialize", "realize_derived"]

_NO_VALUES: Final = "svod_nn.no_values"

# Whether initializers of this thread, or task, compute nothing.
_is_empty: Final = ContextVar("_is_empty", default=False)


@contextmanager
def init_empty_weights() -> Generator[None]:
    """Within the block, initializers give tensors that have shapes and dtypes, but no values: for
    models that are loaded.

    No memory is taken, and no generator advances. `load_state_dict`, or an assignment to the whole
    of a tensor, gives it values; to compute with one before, or to read it, raises
    `EmptyParameterError`. Outside of the block a model that is loaded before its parameters are
    read computes no initial values either, but a parameter that the state lacks has them.

    Example:
        >>> with nn.init_empty_weights():
        ...     model = nn.Linear(2, 1, bias=False)
        >>> model.load_state_dict({"weight": [[3.0, 4.0]]})(Tensor([1.0, 1.0])).tolist()
        [7.0]
    """
    token = _is_empty.set(True)
    try:
        yield
    finally:
        _is_empty.reset(token)


def realize_derived(derived: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Compute tensors that are derived from others, as `cast` and `to` derive them; initial values
    stay deferred.

    Args:
        derived: pairs of a tensor and the one derived from it.
    """
    if _is_empty.get():
        return
    ready: list[Tensor] = []
    for tensor, image in derived:
        if is_deferred(tensor):
            defer_values(image)
        else:
            ready.append(image)
    if ready:
        Tensor.realize_batch(ready)


def initialize(shape: Sequence[int], make: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """Return the initial values of a parameter, deferred until they are read; in
    `init_empty_weights` a tensor without values.

    The state of the generator advances at once, so that the numbers do not depend on when they are
    computed."""
    sizes = tuple(shape)
    if not _is_empty.get():
        return defer_values(make(sizes))
    if 0 in sizes:
        return Tensor.zeros(sizes)
    # Imported here: they load the runtime, for which `import svod_nn` need not wait.
    from svod_tensor import custom_function, register_custom_function

    register_custom_function(_NO_VALUES, _raise_empty)
    return custom_function(_NO_VALUES, outputs=(sizes, float32))


def _raise_empty(out: NDArray[np.generic]) -> None:
    raise EmptyParameterError(shape=out.shape)
