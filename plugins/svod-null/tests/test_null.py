"""NULL keeps what svod asks of a device."""

from __future__ import annotations

from svod_device.testing import DeviceConformance


class TestNull(DeviceConformance):
    device = "NULL"
