"""Protocols for copying and pickling, and for numpy functions applied to tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Final

from svod_dtype import to_dtype
from svod_tensor._data import make_array_node
from svod_tensor.engine import memory_nodes
from svod_tensor.ops.core.operation import special_method
from svod_tensor.ops.interface.reading import host_array
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from typing import SupportsIndex

    import numpy as np

__all__: list[str] = []

_OUT_OF_BAND: Final = 5
"""First pickle protocol with out-of-band buffers."""


@special_method()
def __copy__(x: Tensor) -> Tensor:
    return x.clone()


@special_method()
def __deepcopy__(x: Tensor, memo: object) -> Tensor:
    return x.clone()


@special_method()
def __reduce_ex__(x: Tensor, protocol: SupportsIndex, /) -> tuple[object, ...]:
    sharding = x.sharding
    device = str(x.device) if sharding is None else (sharding.devices, sharding.axis)
    array = host_array(x)
    if operator.index(protocol) >= _OUT_OF_BAND:
        import numpy as np

        # As bytes, since the buffer protocol has no format for narrow floats.
        elements = PickleBuffer(np.ascontiguousarray(array).reshape(-1).view("uint8").data)
    else:
        # PickleBuffer needs protocol 5.
        elements = array.tobytes()
    return _restore, (type(x), elements, x.dtype.name, array.shape, device)


def _restore(
    kind: type[Tensor],
    elements: bytes | memoryview,
    dtype: str,
    shape: tuple[int, ...],
    device: str | tuple[tuple[str, ...], int | None],
) -> Tensor:
    """Rebuild a pickled tensor.

    Out-of-band buffers are shared, not copied.
    """
    import numpy as np

    svod_dtype = to_dtype(dtype)
    array = np.frombuffer(elements, svod_dtype.numpy).reshape(shape)
    # As in numpy, an out-of-band buffer is read where it is; `bytes` are part of the stream, and
    # are copied.
    node = make_array_node(array, may_share=not isinstance(elements, bytes), dtype=svod_dtype)
    tensor = kind.from_uop(node, owns=memory_nodes.is_buffer_identity(node))
    if tensor.device == device:
        return tensor
    return tensor.to(device) if isinstance(device, str) else tensor.shard(*device)


@special_method()
def __array_ufunc__(
    x: Tensor, /, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
) -> object:
    from svod_tensor._numpy_functions import call_ufunc

    return call_ufunc(x, ufunc, method, inputs, kwargs)


@special_method()
def __array_function__(
    x: Tensor,
    /,
    func: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> object:
    from svod_tensor._numpy_functions import call_function

    return call_function(x, func, types, args, kwargs)
