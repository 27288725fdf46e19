"""Tensors as chunks of dask arrays. `import svod_tensor.dask` registers them with dask.

- Chunks compute with `numpy`'s functions, which build graphs of svod, so each task of a dask graph
  is one graph. `optimize`, dask's optimization of arrays from now on, realizes the tensors that a
  task returns; otherwise they would keep the task's inputs in memory.
- The array backend `"svod"` creates arrays of tensors:
  `dask.config.set({"array.backend": "svod"})` and `x.to_backend("svod")`.
- Operators take dask arrays and tensors together: `dask_array + tensor` is a dask array.

A process that receives a task imports this module with it, so workers need no set-up. Tensors are
transferred by pickle, whose out-of-band buffers are the tensors' memory.
"""

# dask's annotations are partial.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, cast

import dask.array as da
import dask.config as dask_config
import numpy as np
from dask._task_spec import GraphNode, Task, convert_legacy_graph
from dask.array.backends import ArrayBackendEntrypoint, array_creation_dispatch
from dask.array.dispatch import percentile_lookup, to_numpy_dispatch
from dask.array.optimization import optimize as optimize_arrays
from dask.utils import ensure_dict

from svod_tensor.ops.interface.reading import host_array
from svod_tensor.ops.interface.sources import asarray
from svod_tensor.tensor import Tensor

__all__ = ["optimize", "realize_tensors"]


def optimize(dsk: Mapping[Any, Any], keys: Any, **options: Any) -> MutableMapping[Any, Any]:
    """Optimize a graph of dask arrays as dask does, and realize the tensors that each task returns.

    It is set as dask's option `array_optimize`, unless that is set already; a function that is set
    instead should return its result through this one.

    Args:
        dsk: the graph.
        keys: keys of the results.
        options: options of dask's own optimization.

    Example:
        >>> import dask, dask.array, svod_tensor.dask
        >>> dask.config.get("array_optimize").__name__
        'optimize'
    """
    nodes = convert_legacy_graph(ensure_dict(optimize_arrays(dsk, keys, **options)))
    return {
        key: Task(key, realize_tensors, node) if _computes(node) else node
        for key, node in nodes.items()
    }


def _computes(node: GraphNode) -> bool:
    # Not the nodes for data and for other names of a key, nor a task that is wrapped already.
    return isinstance(node, Task) and node.func is not realize_tensors


def realize_tensors(result: Any) -> Any:
    """Realize the tensors of a task's result, in lists, tuples and dicts too, and return the result.

    Example:
        >>> from svod_tensor import Tensor
        >>> from svod_tensor.dask import realize_tensors
        >>> realize_tensors({"total": Tensor([1, 2]).sum()})["total"].is_realized
        True
    """
    tensors = list[Tensor]()
    _collect_tensors(result, tensors)
    if tensors:
        Tensor.realize_batch(tensors)
    return result


def _collect_tensors(value: object, tensors: list[Tensor]) -> None:
    if isinstance(value, Tensor):
        tensors.append(value)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[object]", value):
            _collect_tensors(item, tensors)
    elif isinstance(value, dict):
        for item in cast("dict[object, object]", value).values():
            _collect_tensors(item, tensors)


def _as_chunk(block: Any) -> Tensor:
    return asarray(block)


def _create(name: str, /, *args: Any, meta: Any = None, **kwargs: Any) -> da.Array:
    """Call dask's function of this name, with chunks like the array `meta`: a tensor by default."""
    like = Tensor.zeros(0) if meta is None else meta
    with dask_config.set({"array.backend": "numpy"}):
        return getattr(da, name)(*args, meta=like, **kwargs)


class _SvodBackend(ArrayBackendEntrypoint):
    """dask's array backend `"svod"`: `ones`, `zeros`, `empty`, `full` and `arange` create arrays of
    tensors. Random arrays have numpy's generators and chunks; `x.to_backend("svod")` converts them.

    Example:
        >>> import dask, dask.array as da, svod_tensor.dask
        >>> with dask.config.set({"array.backend": "svod"}):
        ...     x = da.ones((4, 4), chunks=2)
        >>> type(x.sum().compute()).__name__
        'Tensor'
    """

    @classmethod
    def to_backend_dispatch(cls) -> Any:
        return _as_chunk

    @classmethod
    def to_backend(cls, data: da.Array, **kwargs: Any) -> da.Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Convert the chunks of an array to tensors."""
        if isinstance(data._meta, Tensor):  # pyright: ignore[reportPrivateUsage]
            return data
        return data.map_blocks(_as_chunk, **kwargs)

    @property
    def RandomState(self) -> type[np.random.RandomState]:
        return np.random.RandomState

    @property
    def default_bit_generator(self) -> type[np.random.BitGenerator]:
        return np.random.PCG64

    @staticmethod
    def ones(*args: Any, **kwargs: Any) -> da.Array:
        return _create("ones", *args, **kwargs)

    @staticmethod
    def zeros(*args: Any, **kwargs: Any) -> da.Array:
        return _create("zeros", *args, **kwargs)

    @staticmethod
    def empty(*args: Any, **kwargs: Any) -> da.Array:
        return _create("empty", *args, **kwargs)

    @staticmethod
    def full(*args: Any, **kwargs: Any) -> da.Array:
        return _create("full", *args, **kwargs)

    @staticmethod
    def arange(*args: Any, meta: Any = None, **kwargs: Any) -> da.Array:
        with dask_config.set({"array.backend": "numpy"}):
            created = da.arange(*args, **kwargs)
        return created if meta is not None else _SvodBackend.to_backend(created)


def _percentile(a: Tensor, q: Any, method: str = "linear") -> Any:
    # dask merges the percentiles of chunks in numpy.
    return percentile_lookup(host_array(a), np.asarray(q), method)


def _to_numpy(data: Tensor, **_options: Any) -> np.ndarray[Any, np.dtype[Any]]:
    return np.asarray(data)


def _register() -> None:
    da.register_chunk_type(Tensor)
    percentile_lookup.register(Tensor, _percentile)
    to_numpy_dispatch.register(Tensor, _to_numpy)
    array_creation_dispatch.register_backend("svod", _SvodBackend())
    if dask_config.get("array_optimize", None) is None:
        dask_config.set(array_optimize=optimize)


_register()
