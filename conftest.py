"""Where the distribution under test brings `svod_ir` along, golden tests have their option and fixture."""

from __future__ import annotations

import os
from importlib.util import find_spec

# A test that looks at a pass must see it run, not what an earlier run of the tests stored.
os.environ.setdefault("SVOD_KERNEL_STORE", "0")

# The tests of svod-dtype run without svod-ir.
pytest_plugins = ["svod_ir.testing.pytest_plugin"] if find_spec("svod_ir") else []
