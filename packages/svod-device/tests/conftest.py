"""Fixtures of svod-device's tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

numbers = itertools.count()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that installs a distribution, with the text of its module, its declared
    interface version and its entry points.
    """

    def install(name: str, text: str, interface: int | None = 1, **groups: list[str]) -> str:
        module = f"plugin_{next(numbers)}"
        root = tmp_path / module
        info = root / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (root / f"{module}.py").write_text(text)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [
            f"[svod.{group}]\n" + "\n".join(entry.replace("MODULE", module) for entry in entries)
            for group, entries in groups.items()
        ]
        if interface is not None:
            lines.append(f"[svod.interface]\nversion = svod_device.interface:v{interface}")
        (info / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(str(root))
        return module

    return install
