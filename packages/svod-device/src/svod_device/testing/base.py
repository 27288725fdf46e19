"""What the conformance classes share: the device's name, and opting out of a case with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from svod_device._device import Device
from svod_device._protocols import Allocator, Backend
from svod_device._registry import get_allocator, get_device

__all__ = ["Conformance"]


class Conformance:
    """Base of the classes that a plugin's tests inherit from.

    Attributes:
        device: the name of the device under test.
        backend_name: the backend under test; None takes the device's default.
        limit_s: what a test of locks or of a lost device may take at most; it fails then, and does
            not stop the others.
        expected_failures: why a case cannot work on this device, by the name of the test, as
            `test_x` or `test_x[case]`. Such a case must fail: when it passes, the entry has to go.
    """

    device: ClassVar[str]
    backend_name: ClassVar[str | None] = None
    limit_s: ClassVar[float] = 60.0
    expected_failures: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.expected_failures:
            if not hasattr(cls, name.partition("[")[0]):
                raise TypeError(
                    f"{cls.__name__}.expected_failures names {name!r}, which is no test of it"
                )

    def break_device(self, allocator: Any) -> None:
        """Let the device fail: the next launch must fail, at once or late, and so must everything
        after it.

        As when a launch faults, or the way to the device is cut. Where a class defines this, late
        errors and the loss of the device are tried; `allocator` is what the plugin's factory made
        for one test alone."""

    @pytest.fixture(autouse=True)
    def _expect_failures(self, request: pytest.FixtureRequest) -> None:
        name: str = request.node.name
        reason = self.expected_failures.get(name) or self.expected_failures.get(
            name.partition("[")[0]
        )
        if reason:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def allocator(self) -> Allocator:
        """The memory of the device."""
        return get_allocator(self.device)

    @pytest.fixture
    def owner(self) -> Device:
        """The device."""
        return get_device(self.device)

    @pytest.fixture
    def backend(self) -> Backend:
        """The backend under test."""
        return get_device(self.device).get_backend(self.backend_name)
