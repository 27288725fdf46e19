"""Where tensors are: moving them between devices, and spreading one over several."""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import DType, UnknownDTypeError, to_dtype
from svod_ir import OperandError, Sharding
from svod_ir.placement import split_evenly
from svod_tensor._data import copy_to_device
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor._shards import join_shards, shards_of, spread
from svod_tensor.cells.views import Shard
from svod_tensor.errors import ShardError
from svod_tensor.ops.core.operation import operation
from svod_tensor.tensor import Tensor

__all__ = ["shard", "shards", "to", "to_device"]


def _is_dtype(device: object) -> bool:
    """Whether what stands in the place of a device is a dtype; names of dtypes are lower case, and
    those of devices are not.
    """
    if isinstance(device, str) and device.islower():
        try:
            to_dtype(device)
        except UnknownDTypeError:
            return False
        return True
    return isinstance(device, DType)


@operation(test="test_devices.py::test_the_first_device_of_a_kind_has_two_names", is_function=False)
def to(x: Tensor, /, device: str) -> Tensor:
    """The values of this tensor on `device`, as a new tensor. The shards of a sharded one are
    joined there.

    Raises:
        UnknownDeviceError: if nothing provides the device.
        OperandError: if it is a dtype, as PyTorch takes one here.

    Example:
        >>> Tensor([1, 2]).to("CPU:1").device
        'CPU:1'
    """
    if _is_dtype(device):
        found, hint = f"the dtype {device}", f'write x.cast("{device}")'
        raise OperandError(operation="to", found=found, expected="the name of a device", hint=hint)
    return x.from_uop(copy_to_device(x.uop, device))


@operation(
    test="test_devices.py::test_the_first_device_of_a_kind_has_two_names",
    standard=True,
    is_function=False,
)
def to_device(x: Tensor, device: str, /, *, stream: object = None) -> Tensor:
    """`to`, as the array API standard calls it: a tensor of its own, also where this one is on
    `device`.

    Args:
        device: where the values are wanted.
        stream: None: svod orders what is computed on devices itself.

    Raises:
        UnknownDeviceError: if nothing provides the device.
        OperandError: if a stream is given.

    Example:
        >>> Tensor([1, 2]).to_device("CPU:1").device
        'CPU:1'
    """
    if stream is not None:
        raise OperandError(
            operation="to_device",
            found=f"stream={stream!r}",
            expected="no stream",
            hint=f'write x.to("{device}")',
        )
    return x.to(device)


@operation(
    test="test_sharding.py::test_a_sharded_program_agrees_with_the_reference", is_function=False
)
def shard(x: Tensor, /, devices: Sequence[str], axis: int | None = None) -> Tensor:
    """This tensor spread over several devices, each of which computes its part of the results.

    Operations on sharded tensors are the same as on others, and give the same values; `.to(device)`
    and reading values join the shards. All operands must be on the same devices.

    Args:
        devices: what the parts are on, in order.
        axis: split along this axis, the first parts larger by one where its size does not divide;
            by default each device has the whole tensor.

    Example:
        >>> from svod_tensor import Tensor
        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("CPU", "CPU:1"), axis=0)
        >>> w = Tensor([[1.0], [10.0]]).shard(("CPU", "CPU:1"))
        >>> (x @ w).tolist()
        [[21.0], [43.0]]

    Raises:
        ShardError: if there is no device, or one is named twice.
        AxisError: if there is no such axis.
        SymbolicShapeError: if the size of the axis is symbolic.
        UnknownDeviceError: if nothing provides a device.
    """
    from svod_tensor import _storage as storage

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
    if len(names) == 1:
        return x.to(names[0])
    return (
        x.clone()
        if sharding == x.sharding
        else x.from_uop(join_shards(spread(x.uop, sharding), axis))
    )


@operation(test="test_sharding.py::test_one_device_needs_no_shards", is_function=False)
def shards(x: Tensor, /) -> tuple[Tensor, ...]:
    """The part of this tensor on each of its devices, as views of one device; the tensor itself if
    it has one.

    Example:
        >>> x = Tensor([1, 2, 3]).shard(("CPU", "CPU:1"), axis=0)
        >>> [shard.tolist() for shard in x.shards()]
        [[1, 2], [3]]
    """
    if x.sharding is None:
        return (x,)
    parts = shards_of(x.uop)
    return tuple(x.along(Shard(position, part.shape)) for position, part in enumerate(parts))
