"""What all suites share: how many random examples they draw, and the option and fixture of golden
tests.

The profile `quick` draws few, the same in each run of the same test, so that a run says something
of the change and nothing of chance. `HYPOTHESIS_PROFILE=thorough`, or
`--hypothesis-profile=thorough`, draws all, and others in every run. Any profile whose
`max_examples` is not hypothesis's 100 scales the numbers of all tests
(`svod_ir.testing.count_examples`)."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

# A test that looks at a pass must see it run, not what an earlier run of the tests stored.
os.environ.setdefault("SVOD_KERNEL_STORE", "0")

if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile(
        "quick", max_examples=25, deadline=None, derandomize=True, print_blob=True
    )
    settings.register_profile(
        "thorough", settings.get_profile("quick"), max_examples=100, derandomize=False
    )
    settings.register_profile("many", settings.get_profile("thorough"), max_examples=1000)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# The tests of svod-dtype run without svod-ir.
pytest_plugins = ["svod_ir.testing.pytest_plugin"] if find_spec("svod_ir") else []


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Where all tests are asked to run with the C compiler of the system, and it has none, there is
    nothing to run.
    """
    names = ("cc", "gcc", "clang")
    if os.environ.get("SVOD_CPU_BACKEND") == "c" and not (
        "SVOD_CC" in os.environ or any(map(shutil.which, names))
    ):
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no C compiler here: install gcc or clang"))


def pytest_collection_finish() -> None:
    """Freeze the objects that exist, as after each module of tests, and collect less often.

    A compilation allocates many objects and keeps most of them. With the default threshold of 700
    allocations, a fifth of the time of tests that compile passes in collections.
    """
    freeze_objects()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        freeze_objects()


def freeze_objects() -> None:
    """Exempt all objects that exist from later collections.

    Caches of graphs and plans grow during a session, and tests ask for many collections. In the
    middle of the tests of svod-tensor, test_jit_lifetimes takes 17 seconds if each collection
    visits all objects, and less than one if it visits those of the current module.
    """
    gc.collect()
    gc.freeze()
