"""Devices: buffers and the memory behind them, what a plugin implements, and the registry of what is installed."""

from __future__ import annotations

from svod_device.buffer import Buffer, copy_buffer
from svod_device.cache import CachingAllocator
from svod_device.cpu import HostAllocator
from svod_device.device import CompiledCache, Device, base_device_key
from svod_device.disk import DiskAllocator
from svod_device.errors import (
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
)  # fmt: skip
from svod_device.interface import INTERFACE_VERSION
from svod_device.launch_size import (
    LaunchSizes,
    evaluate_expression,
    evaluate_launch_sizes,
    format_expression,
    is_constant,
)
from svod_device.options import DeviceOptions
from svod_device.protocols import (
    Allocator,
    Backend,
    BatchLauncher,
    Compiler,
    Dims,
    Launch,
    Loader,
    Memory,
    Program,
    Renderer,
    TimedProgram,
)  # fmt: skip
from svod_device.registry import (
    Registry,
    canonical_device,
    clear,
    get_allocator,
    get_device,
    get_registry,
    register_allocator,
    register_backend,
)  # fmt: skip
from svod_device.spec import CORE_ID, CompiledSpec, LaunchDims, ProgramSpec, Variable

__all__ = [
    "CORE_ID",
    "INTERFACE_VERSION",
    "Allocator",
    "Backend",
    "BatchLauncher",
    "Buffer",
    "CachingAllocator",
    "CompiledCache",
    "CompiledSpec",
    "Compiler",
    "Device",
    "DeviceOptions",
    "Dims",
    "DiskAllocator",
    "DiskError",
    "DuplicatePluginError",
    "HostAllocator",
    "Launch",
    "LaunchDims",
    "LaunchSizeError",
    "LaunchSizes",
    "Loader",
    "Memory",
    "NotAllocatedError",
    "NotHostAddressableError",
    "OutOfMemoryError",
    "PluginInterfaceError",
    "PluginLoadError",
    "Program",
    "ProgramSpec",
    "ProgramStageError",
    "ReadOnlyError",
    "Registry",
    "Renderer",
    "SizeMismatchError",
    "TimedProgram",
    "UnknownBackendError",
    "UnknownDeviceError",
    "Variable",
    "ViewError",
    "base_device_key",
    "canonical_device",
    "clear",
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
]
