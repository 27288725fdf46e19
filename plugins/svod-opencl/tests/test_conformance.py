"""Conformance suite on OPENCL: device interface, and tensors compared with numpy."""

from __future__ import annotations

from svod_device.testing import DeviceConformance
from svod_testing import OperatorConformance


class TestDevice(DeviceConformance):
    device = "OPENCL"


class TestOperators(OperatorConformance):
    device = "OPENCL"
    # The driver compiles a kernel in tenths of a second.
    n_programs = 3
