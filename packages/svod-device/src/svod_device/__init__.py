"""Devices: buffers and allocators, the protocols of device plugins, and the device registry.

Example:
    Buffers allocate at first use; the last buffer over a block frees it:

    >>> import numpy as np
    >>> from svod_device import Buffer, copy_buffer, get_allocator, release_memory
    >>> from svod_dtype import float32
    >>> x, y = (Buffer(get_allocator("CPU"), float32, 4) for _ in range(2))
    >>> x.copyin(np.arange(4, dtype="float32"))
    >>> copy_buffer(y, x)
    >>> y.view(8, 8).as_numpy().tolist()
    [2.0, 3.0]
    >>> del x, y
    >>> release_memory() > 0
    True

    Devices by name:

    >>> from svod_device import Device, base_device_key, canonical_device, get_device, get_registry
    >>> cpu = get_device("cpu:0")
    >>> isinstance(cpu, Device), cpu.name, canonical_device("cuda:1"), base_device_key("CUDA:1")
    (True, 'CPU', 'CUDA:1', 'CUDA')
    >>> "DISK" in get_registry().list_kinds()
    True

    A plugin. The device EVAL has host memory, and its backend interprets the text form of kernels:

    >>> from svod_device import Backend, CompiledSpec, Compiler, HostAllocator, Loader, Program, Renderer
    >>> from svod_device import clear, close_device, register_allocator, register_backend
    >>> from svod_device.host_memory import view_host
    >>> from svod_dtype import void
    >>> from svod_ir import Op, Target, UOp, parse_graph, print_graph
    >>> from svod_ir.evaluate import evaluate_linear
    >>> class EvalMemory(HostAllocator):
    ...     def close(self):
    ...         print(f"{self.device} is closed")
    >>> class EvalRenderer(Renderer):
    ...     def render(self, linear, name):
    ...         return print_graph(UOp(Op.LINEAR, void, tuple(linear)))
    >>> class EvalCompiler(Compiler):
    ...     cache_key = "eval-1"
    ...     def compile(self, spec):
    ...         return CompiledSpec.from_source(spec)
    >>> class EvalProgram(Program):
    ...     name, entry = "kernel", None
    ...     def __init__(self, compiled):
    ...         self.nodes, self.var_names = parse_graph(compiled.source).src, compiled.var_names
    ...     def __call__(self, buffers, values, global_size, local_size=None):
    ...         params = sorted((n for n in self.nodes if n.op is Op.PARAM), key=lambda n: n.arg.slot)
    ...         arrays = {}
    ...         for param, address in zip(params, buffers):
    ...             view = view_host(address, param.arg.size * param.dtype.itemsize, None)
    ...             arrays[param.arg.slot] = np.frombuffer(view, param.dtype.numpy)
    ...         evaluate_linear(self.nodes, arrays, dict(zip(self.var_names, values)))
    >>> load: Loader = EvalProgram
    >>> def make_backend(device):
    ...     return Backend(EvalRenderer(), EvalCompiler(), load, Target.generic(cores=1))
    >>> register_allocator("EVAL", EvalMemory)
    >>> register_backend("EVAL.text", make_backend)
    >>> from svod_tensor import Tensor
    >>> (Tensor([1.0, 2.0], device="EVAL") * 3).tolist()
    [3.0, 6.0]
    >>> close_device("EVAL")
    EVAL is closed
    >>> clear()
"""

from __future__ import annotations

from svod_device._buffer import Buffer, copy_buffer
from svod_device._cache import CachingAllocator
from svod_device._device import Device, base_device_key
from svod_device._launch_size import (
    LaunchSizes,
    evaluate_expression,
    evaluate_launch_sizes,
    format_expression,
    is_constant,
)
from svod_device._loops import (
    BatchItem,
    LoopCarried,
    LoopingLauncher,
    LoopSlice,
    Move,
    Repeat,
    Word,
)
from svod_device._protocols import (
    Allocator,
    Backend,
    BatchLauncher,
    ChoosingAllocator,
    ClosableAllocator,
    Compiler,
    Dims,
    ExclusiveAllocator,
    Launch,
    Loader,
    Memory,
    PermanentAllocator,
    Program,
    Renderer,
    TimedProgram,
)
from svod_device._registry import (
    Registry,
    canonical_device,
    clear,
    close_device,
    get_allocator,
    get_device,
    get_registry,
    register_allocator,
    register_backend,
    release_memory,
)
from svod_device._spec import CORE_ID, CompiledSpec, LaunchDims, ProgramSpec, Variable
from svod_device.cpu import HostAllocator
from svod_device.disk import DiskAllocator
from svod_device.errors import (
    DeviceLostError,
    DiskError,
    DuplicatePluginError,
    LaunchSizeError,
    NotAllocatedError,
    NotHostAddressableError,
    OutOfMemoryError,
    PluginInterfaceError,
    PluginLoadError,
    ProgramStageError,
    ReadOnlyError,
    SizeMismatchError,
    UnknownBackendError,
    UnknownDeviceError,
    ViewError,
)
from svod_device.interface import INTERFACE_VERSION
from svod_device.options import DeviceOptions

__all__ = [
    "CORE_ID",
    "INTERFACE_VERSION",
    "Allocator",
    "Backend",
    "BatchItem",
    "BatchLauncher",
    "Buffer",
    "CachingAllocator",
    "ChoosingAllocator",
    "ClosableAllocator",
    "CompiledSpec",
    "Compiler",
    "Device",
    "DeviceLostError",
    "DeviceOptions",
    "Dims",
    "DiskAllocator",
    "DiskError",
    "DuplicatePluginError",
    "ExclusiveAllocator",
    "HostAllocator",
    "Launch",
    "LaunchDims",
    "LaunchSizeError",
    "LaunchSizes",
    "Loader",
    "LoopCarried",
    "LoopSlice",
    "LoopingLauncher",
    "Memory",
    "Move",
    "NotAllocatedError",
    "NotHostAddressableError",
    "OutOfMemoryError",
    "PermanentAllocator",
    "PluginInterfaceError",
    "PluginLoadError",
    "Program",
    "ProgramSpec",
    "ProgramStageError",
    "ReadOnlyError",
    "Registry",
    "Renderer",
    "Repeat",
    "SizeMismatchError",
    "TimedProgram",
    "UnknownBackendError",
    "UnknownDeviceError",
    "Variable",
    "ViewError",
    "Word",
    "base_device_key",
    "canonical_device",
    "clear",
    "close_device",
    "copy_buffer",
    "evaluate_expression",
    "evaluate_launch_sizes",
    "format_expression",
    "get_allocator",
    "get_device",
    "get_registry",
    "is_constant",
    "register_allocator",
    "register_backend",
    "release_memory",
]
