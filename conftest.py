"""Where the distribution under test brings `svod_ir` along, golden tests have their option and fixture."""

from __future__ import annotations

from importlib.util import find_spec

# The tests of svod-dtype run without svod-ir.
pytest_plugins = ["svod_ir.testing.pytest_plugin"] if find_spec("svod_ir") else []
