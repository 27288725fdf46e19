"""Conformance suite for the CPU and the plugins in this repository."""

from __future__ import annotations

import shutil

import pytest

from svod_device.testing import DeviceConformance
from svod_testing import OperatorConformance

pytest.importorskip("svod_toy", reason="the plugin of examples/svod-toy is not installed")

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler here"
)


class TestCpuOfLlvm(DeviceConformance):
    device = "CPU"
    backend_name = "llvm"


class TestOperatorsOfLlvm(OperatorConformance):
    device = "CPU"
    backend_name = "llvm"


@needs_compiler
class TestCpuOfC(DeviceConformance):
    device = "CPU"
    backend_name = "c"


@needs_compiler
class TestOperatorsOfC(OperatorConformance):
    device = "CPU"
    backend_name = "c"


class TestToy(DeviceConformance):
    device = "TOY"


class TestOperatorsOfToy(OperatorConformance):
    device = "TOY"
