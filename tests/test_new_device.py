"""The code in docs/new-device.md is code of plugins/svod-null, or runs."""

from __future__ import annotations

import re
from array import array
from dataclasses import fields
from pathlib import Path

import pytest

from svod_codegen.c import REQUIRED_FLAGS, toolchain
from svod_device import Launch, get_device
from svod_device.testing import LauncherConformance, build, get_case, iter_kernels
from svod_ir import Target

pytest.importorskip("svod_null", reason="the plugin of plugins/svod-null is not installed")

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "new-device.md").read_text()
PLUGIN = "\n".join(
    path.read_text() for path in sorted((ROOT / "plugins" / "svod-null").rglob("*.py"))
)


def find_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def run_page() -> dict[str, object]:
    """Execute the blocks that are not quoted from the plugin, and return the names that they
    define.
    """
    names: dict[str, object] = {"__name__": "new_device"}
    for block in find_blocks("python"):
        if block not in PLUGIN:
            exec(compile(block, "docs/new-device.md", "exec"), names)
    return names


def test_most_of_the_code_is_the_plugin_s() -> None:
    blocks = find_blocks("python")
    assert sum(block in PLUGIN for block in blocks) >= 6
    assert all(
        block in (ROOT / "plugins/svod-null/pyproject.toml").read_text()
        for block in find_blocks("toml")
    )


def test_the_remaining_code_runs() -> None:
    assert {"MyRenderer", "LoopLauncher", "TestMine"} <= run_page().keys()


def test_the_renderer_of_the_page_writes_every_kernel_without_vectors() -> None:
    names = run_page()
    target = names["TARGET"]
    for case in iter_kernels(target):  # type: ignore[arg-type]
        text = names["MyRenderer"](target).render(case.linear, case.name)  # type: ignore[operator]
        assert f"kernel void {case.name}(" in text


def test_the_launcher_of_the_page_launches() -> None:
    launcher = run_page()["LoopLauncher"]()  # type: ignore[operator]
    device = get_device("NULL")
    built = build(get_case(device.target, "symbolic_loop"), device.backend, "NULL")
    memory = [device.allocator.allocate(64) for _ in range(2)]
    device.allocator.copy_in(memory[1].address, memoryview(array("i", range(13)).tobytes()))
    addresses = array("Q", [block.address for block in memory])
    launcher.run(
        launcher.make_table(
            [Launch(built.program, addresses, array("q", [3]), (1, 1, 1), (1, 1, 1), 0)]
        )
    )
    found = bytearray(12)
    device.allocator.copy_out(memoryview(found), memory[0].address)
    assert array("i", bytes(found)).tolist() == [3, 4, 5]


def test_the_page_explains_every_field_of_a_target() -> None:
    assert [field.name for field in fields(Target) if f"`{field.name}`" not in PAGE] == []


def test_the_page_names_the_flags_that_a_compiler_of_c_needs() -> None:
    assert REQUIRED_FLAGS and set(REQUIRED_FLAGS) <= set(toolchain._FLAGS)
    assert all(f"`{flag}`" in PAGE for flag in (*REQUIRED_FLAGS, "-ffast-math"))


def test_the_page_names_what_the_suites_are_called() -> None:
    assert issubclass(LauncherConformance, object)
    for name in (
        "AllocatorConformance",
        "DeviceConformance",
        "OperatorConformance",
        "expected_failures",
        "break_device",
    ):
        assert name in PAGE
