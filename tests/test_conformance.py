"""The CPU and the plugins in this repository keep what `svod_device` asks of a device."""

from __future__ import annotations

import pytest

from svod_device.testing import DeviceConformance

pytest.importorskip("svod_toy", reason="the plugin of examples/svod-toy is not installed")


class TestCpuOfLlvm(DeviceConformance):
    device = "CPU"
    backend_name = "llvm"


class TestToy(DeviceConformance):
    device = "TOY"
