"""Deferred initialization of parameters, and parameters without values for models to be loaded."""

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

# True inside `init_empty_weights`; a context variable, so that other threads and tasks keep theirs.
_is_empty: Final = ContextVar("_is_empty", default=False)


@contextmanager
def init_empty_weights() -> Generator[None]:
    """Create the parameters of modules built in this block without values, for models to be loaded.

    The tensors have shapes and dtypes, but allocate no memory, and no generator advances. Set their
    values with `load_state_dict` or by assigning to a whole tensor; reading or computing with one
    before that raises `EmptyParameterError`. Outside of this block, a model that is loaded before
    its parameters are read does not compute initial values either, but parameters that the state
    lacks still have them.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
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
    """Compute tensors derived by `cast`, `to` or a copy, unless their sources are deferred.

    Args:
        derived: pairs of a source tensor and the tensor derived from it.
    """
    if _is_empty.get():
        return
    # Values that the user may still replace, as by loading, are not computed for nothing.
    ready: list[Tensor] = []
    for source, result in derived:
        if is_deferred(source):
            defer_values(result)
        else:
            ready.append(result)
    if ready:
        Tensor.realize_batch(ready)


def initialize(shape: Sequence[int], make: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """Return a parameter whose initial values are deferred until they are read.

    In `init_empty_weights` the tensor has no values. The generator's state advances immediately, so
    that the values do not depend on when they are computed."""
    sizes = tuple(shape)
    if not _is_empty.get():
        return defer_values(make(sizes))
    # Without elements there are no values to be read by mistake.
    if 0 in sizes:
        return Tensor.zeros(sizes)
    # Imported lazily: these names load the runtime, which would slow down `import svod_nn`.
    from svod_tensor import custom_function, register_custom_function

    register_custom_function(_NO_VALUES, _raise_empty)
    return custom_function(_NO_VALUES, outputs=(sizes, float32))


def _raise_empty(out: NDArray[np.generic]) -> None:
    raise EmptyParameterError(shape=out.shape)
