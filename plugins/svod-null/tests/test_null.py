"""NULL keeps what svod asks of a device."""

from __future__ import annotations

from svod_device.testing import DeviceConformance
from svod_tensor.testing import OperatorConformance


class TestNull(DeviceConformance):
    device = "NULL"


class TestOperatorsOfNull(OperatorConformance):
    device = "NULL"
