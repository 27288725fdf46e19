"""OPENCL does what every device must."""

from __future__ import annotations

from svod_device.testing import DeviceConformance


class TestOpenCL(DeviceConformance):
    device = "OPENCL"
