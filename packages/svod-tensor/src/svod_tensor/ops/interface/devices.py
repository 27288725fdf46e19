"""Devices of tensors: transfer between devices, and sharding over several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svod_dtype import DType, UnknownDTypeError, to_dtype
from svod_ir import Mesh, OperandError, Sharding
from svod_ir.placement import split_evenly
from svod_tensor._data import copy_to_device
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor._shards import distribute, shards_of
from svod_tensor.cells.views import Shard
from svod_tensor.errors import ShardError
from svod_tensor.ops.core.operation import operation
from svod_tensor.tensor import Tensor

__all__ = ["shard", "shards", "to", "to_device"]


def _is_dtype(device: object) -> bool:
    """True if a device argument is a dtype; names of dtypes are lower case, device names are not."""
    # Other strings are not searched for among the names of dtypes.
    if isinstance(device, str) and device.islower():
        try:
            to_dtype(device)
        except UnknownDTypeError:
            return False
        return True
    return isinstance(device, DType)


@operation(test="test_devices.py::test_the_first_device_of_a_kind_has_two_names", is_function=False)
def to(x: Tensor, /, device: str) -> Tensor:
    """Return a copy of this tensor on `device`. A sharded tensor is gathered there.

    Raises:
        UnknownDeviceError: if no installed backend provides the device.
        OperandError: if it is a dtype, which PyTorch accepts here.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1, 2]).to("CPU:1").device
        'CPU:1'
    """
    # torch takes a dtype here; a device of that name would otherwise be reported as unknown.
    if _is_dtype(device):
        dtype_text, hint = f"the dtype {device}", f'write x.cast("{device}")'
        raise OperandError(operation="to", found=dtype_text, expected="a device name", hint=hint)
    return x.from_uop(copy_to_device(x.uop, device))


@operation(
    test="test_devices.py::test_the_first_device_of_a_kind_has_two_names",
    standard=True,
    is_function=False,
)
def to_device(x: Tensor, device: str, /, *, stream: object = None) -> Tensor:
    """Return a copy of this tensor on `device`, as the array API standard specifies it.

    Args:
        device: the target device.
        stream: must be None; svod orders the work on devices itself.

    Raises:
        UnknownDeviceError: if no installed backend provides the device.
        OperandError: if `stream` is not None.

    Example:
        >>> from svod_tensor import Tensor
        >>> Tensor([1, 2]).to_device("CPU:1").device
        'CPU:1'
    """
    if stream is not None:
        raise OperandError(
            operation="to_device",
            found=f"stream={stream!r}",
            expected="stream=None",
            hint=f'write x.to("{device}")',
        )
    return x.to(device)


@operation(
    test="test_sharding.py::test_a_sharded_program_agrees_with_the_reference", is_function=False
)
def shard(
    x: Tensor,
    /,
    devices: Sequence[str] | Mesh,
    axis: int | Mapping[str, int] | None = None,
) -> Tensor:
    """Shard this tensor over several devices, each of which computes its shard of the results.

    Over a mesh of processes, each process keeps its own part: `x.shard(mesh, {"data": 0})` splits
    the first axis over the processes along `data`, and replicates it along the other axes of the
    mesh. All processes call this with the same tensor.

    Sharded tensors support the same operations, with the same values; `.to(device)` and reading
    values gather the shards. All operands must be on the same devices.

    Args:
        devices: devices of the shards, in order, or the mesh.
        axis: the axis to split, the first shards larger by one if the size is not divisible; by
            default the tensor is replicated on each device. For a mesh, the axis of the tensor
            that each named axis of the mesh splits.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("CPU", "CPU:1"), axis=0)
        >>> w = Tensor([[1.0], [10.0]]).shard(("CPU", "CPU:1"))
        >>> (x @ w).tolist()
        [[21.0], [43.0]]

    Raises:
        ShardError: if `devices` is empty or has duplicates, or a mesh has no such axis, or more
            positions along it than there are elements.
        AxisError: if `axis` is out of bounds.
        SymbolicShapeError: if the size of the axis is symbolic.
        UnknownDeviceError: if no installed backend provides a device.
    """
    from svod_tensor import _storage as storage

    if isinstance(devices, Mesh):
        return _shard_on_mesh(x, devices, axis)
    if isinstance(axis, Mapping):
        raise ShardError(devices=tuple(devices), problem="named axes are axes of a mesh")
    names = tuple(
        storage.check_device(d) for d in ([devices] if isinstance(devices, str) else devices)
    )
    if not names or len(set(names)) < len(names):
        raise ShardError(devices=names)
    sharding = Sharding(names)
    if axis is not None:
        axis = normalize_axis("shard", axis, x.ndim)
        (size,) = concrete_shape("shard", x.shape[axis : axis + 1])
        sharding = Sharding(names, axis, split_evenly(size, len(names)))
    # One device needs no shards: the graph has a single tensor.
    if len(names) == 1:
        return x.to(names[0])
    return x.clone() if sharding == x.sharding else x.from_uop(distribute(x.uop, sharding))


def _shard_on_mesh(x: Tensor, mesh: Mesh, axes: int | Mapping[str, int] | None) -> Tensor:
    if axes is not None and not isinstance(axes, Mapping):
        if len(mesh.names) != 1:
            raise ShardError(devices=mesh.names, problem="the mesh has several axes: name one")
        axes = {mesh.names[0]: axes}
    axes = {name: normalize_axis("shard", axis, x.ndim) for name, axis in (axes or {}).items()}
    unknown = [name for name in axes if name not in mesh.names]
    if unknown or len(set(axes.values())) < len(axes):
        problem = (
            f"the mesh has no axis {unknown[0]!r}"
            if unknown
            else "two axes of the mesh split one axis of the tensor"
        )
        raise ShardError(devices=mesh.names, problem=problem)
    for name, axis in axes.items():
        (size,) = concrete_shape("shard", x.shape[axis : axis + 1])
        n_parts = mesh.sizes[mesh.names.index(name)]
        # Each process has a part of each tensor, so that all of them take the same steps.
        if size < n_parts:
            problem = f"{size} elements along axis {axis} are fewer than {n_parts} processes"
            raise ShardError(devices=mesh.names, problem=problem)
    sharding = Sharding((mesh.device,), layout=mesh.lay_out(axes, x.shape))
    return x.clone() if sharding == x.sharding else x.from_uop(distribute(x.uop, sharding))


@operation(test="test_sharding.py::test_one_device_needs_no_shards", is_function=False)
def shards(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the shard of this tensor on each of its devices, as views; the tensor itself if it is on
    one device.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([1, 2, 3]).shard(("CPU", "CPU:1"), axis=0)
        >>> [shard.tolist() for shard in x.shards()]
        [[1, 2], [3]]
    """
    if x.sharding is None:
        return (x,)
    nodes = shards_of(x.uop)
    return tuple(x.along(Shard(index, node.shape)) for index, node in enumerate(nodes))
