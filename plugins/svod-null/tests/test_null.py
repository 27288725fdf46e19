"""Conformance suite on the device NULL."""

from __future__ import annotations

from svod_device.testing import DeviceConformance
from svod_null import NullAllocator
from svod_testing import OperatorConformance


class TestNull(DeviceConformance):
    device = "NULL"

    def break_device(self, allocator: NullAllocator) -> None:
        allocator.is_unplugged = True


class TestOperatorsOfNull(OperatorConformance):
    device = "NULL"
