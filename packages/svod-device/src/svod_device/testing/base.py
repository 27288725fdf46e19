"""Base class of the conformance classes: the device under test and its expected failures."""

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
    """Base of the classes that a plugin's tests inherit.

    Attributes:
        device: name of the device under test.
        backend_name: name of the backend under test; None selects the device's default.
        limit_s: time limit of tests that may block, of locks and of lost devices. Such a test fails
            at the limit, and the remaining tests still run.
        expected_failures: test name, `test_x` or `test_x[case]` -> reason why the device cannot
            pass it. Such a test must fail: once it passes, remove the entry.
    """

    device: ClassVar[str]
    backend_name: ClassVar[str | None] = None
    limit_s: ClassVar[float] = 60.0
    expected_failures: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.expected_failures:
            # A misspelled name would excuse no test, and never show.
            if not hasattr(cls, name.partition("[")[0]):
                raise TypeError(f"{cls.__name__}.expected_failures: unknown test {name!r}")

    def break_device(self, allocator: Any) -> None:
        """Break the device: the next launch and every later operation must fail, at once or
        asynchronously.

        For example, cause a fault in a launch, or cut the connection. Classes that override this
        method are tested for asynchronous errors and device loss. `allocator` is the plugin's
        allocator, opened for one test only.
        """

    @pytest.fixture(autouse=True)
    def _expect_failures(self, request: pytest.FixtureRequest) -> None:
        name: str = request.node.name
        reason = self.expected_failures.get(name) or self.expected_failures.get(
            name.partition("[")[0]
        )
        if reason:
            # Strict, so that an excuse goes once the device passes.
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def allocator(self) -> Allocator:
        """Allocator of the device under test."""
        return get_allocator(self.device)

    @pytest.fixture
    def owner(self) -> Device:
        """Device under test."""
        return get_device(self.device)

    @pytest.fixture
    def backend(self) -> Backend:
        """Backend under test."""
        return get_device(self.device).get_backend(self.backend_name)
