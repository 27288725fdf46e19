"""OPENCL does what every device must, and its tensors agree with numpy."""

from __future__ import annotations

from svod_device.testing import DeviceConformance
from svod_testing import OperatorConformance


class TestDevice(DeviceConformance):
    device = "OPENCL"


class TestOperators(OperatorConformance):
    device = "OPENCL"
    # A driver takes some tenths of a second for each kernel.
    n_programs = 3
