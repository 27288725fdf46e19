"""The Python code in the READMEs and in the pages of docs/ that show how something is used runs as it stands."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
READMES = [
    ROOT / "README.md",
    ROOT / "docs/debugging.md",
    ROOT / "docs/derivatives.md",
    ROOT / "docs/loops.md",
    ROOT / "docs/modules.md",
    ROOT / "docs/own-passes.md",
    ROOT / "docs/random.md",
    ROOT / "docs/training.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
    *([ROOT / "plugins/svod-null/README.md"] if find_spec("svod_null") else []),
]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", READMES, ids=_name)
def test_a_readme_runs(path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    assert blocks, "a README shows real use"
    names: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)
