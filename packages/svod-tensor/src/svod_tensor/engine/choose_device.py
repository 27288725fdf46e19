"""Choice of device and backend by a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_device import Device, get_device

if TYPE_CHECKING:
    from svod_tensor.options import PrepareConfig

__all__ = ["choose_device"]


def choose_device(name: str, config: PrepareConfig) -> Device:
    """The device of this name, with the backend that the configuration selects.

    Raises:
        UnknownBackendError: if the device has no such backend.
    """
    return get_device(name).with_backend(config.find_backend(name))
