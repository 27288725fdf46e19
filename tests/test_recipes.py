"""Each recipe of CONTRIBUTING.md, followed in a copy of the checkout.

A file in `tests/recipes/` follows one recipe: it edits the files that the recipe names and lists the
tests that the recipe asks for. The copy must pass these tests and the quick checks of the sources.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECIPES = sorted((ROOT / "tests" / "recipes").glob("*.toml"))
COPIED = (
    *("packages", "plugins", "examples", "docs", "tests", "tools", "benchmarks"),
    *("pyproject.toml", "tox.ini", "conftest.py", "README.md", "CONTRIBUTING.md"),
)
CHECKS = (
    "ruff check --quiet .",
    "python tools/public_api.py --check",
    "python tools/stubs.py --check",
    "python docs/generate.py --check",
)
CHECKS_OF_ALL = (
    "lint-imports --no-cache",
    "python tools/check_borders.py",
    "python tools/check_circles.py",
    "python tools/check_docstrings.py",
)
"""With `CHECKS`, what `tox run -e sources` runs without the type checker, which takes minutes.

No recipe has a step for these, so that one copy with the edits of all recipes is enough.
"""
EXECUTED_ELSEWHERE = {
    # tests/test_new_device.py runs the page that this recipe refers to.
    "Add a device",
}

pytestmark = pytest.mark.skipif(
    shutil.which("ruff") is None or shutil.which("lint-imports") is None,
    reason="ruff or import-linter is not installed: tox run -e whole",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy of the checkout."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    return tmp_path


def read_sections() -> dict[str, str]:
    """Text of each recipe of CONTRIBUTING.md, by its title."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = page.split("\n## Recipes\n")[1].split("\n## ")[0]
    titles_and_texts = re.split(r"^### (.*)\n", recipes, flags=re.MULTILINE)[1:]
    return dict(zip(titles_and_texts[::2], titles_and_texts[1::2], strict=True))


def is_named(file: str, section: str) -> bool:
    """True if a section names a file or its folder by the end of the path.

    A placeholder, as in `<step>` or `name_of_pass.py`, stands for any name.
    """
    path, folder = f"/{file}", f"/{Path(file).parent}/"
    for word in re.findall(r"`([\w./<>-]+)`", section):
        pattern = re.sub(r"<\w+>|name\\?[-_]of\\?[-_]pass", r"[\\w-]+", re.escape(word))
        if re.search(f"/{pattern}$", folder if word.endswith("/") else path):
            return True
    return False


def apply_edit(checkout: Path, edit: dict[str, str], blocks: list[str]) -> None:
    """Create a file, or insert text before or after the only occurrence of an anchor.

    Args:
        checkout: folder of the copy.
        edit: a file, its new text or the index of a block, and an anchor.
        blocks: Python code of the recipe.
    """
    path = checkout / edit["file"]
    text = blocks[int(edit["block"])] if "block" in edit else edit["text"]
    if not edit.keys() & {"after", "before"}:
        assert not path.exists(), f"{edit['file']} exists already"
        path.write_text(text)
        return
    anchor = edit.get("after") or edit["before"]
    content = path.read_text()
    assert content.count(anchor) == 1, (
        f"{edit['file']} has {content.count(anchor)} times {anchor!r}"
    )
    pair = (anchor, text) if "after" in edit else (text, anchor)
    path.write_text(content.replace(anchor, "".join(pair)))


def run(command: str, checkout: Path) -> None:
    """Run a command with the packages of a copy.

    Raises:
        AssertionError: if it fails, with its output.
    """
    words = shlex.split(command)
    sources = [*checkout.glob("*/*/src"), checkout / "tests"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
    }
    if words[0] == "python":
        words[0] = sys.executable
    done = subprocess.run(
        words,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"


def follow(recipe: dict[str, Any], checkout: Path) -> None:
    """Apply the edits of a recipe, and format the sources as `tox run -e format` does."""
    section = read_sections()[recipe["title"]]
    blocks = re.findall(r"```python\n(.*?)```", textwrap.dedent(section), re.DOTALL)
    for edit in recipe["edits"]:
        apply_edit(checkout, edit, blocks)
    run("ruff check --fix --quiet .", checkout)
    run("ruff format --quiet .", checkout)


def test_every_recipe_is_followed() -> None:
    titles = {tomllib.loads(path.read_text())["title"] for path in RECIPES}
    assert titles | EXECUTED_ELSEWHERE == read_sections().keys()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_names_all_files_that_it_needs(path: Path, checkout: Path) -> None:
    recipe = tomllib.loads(path.read_text())
    section = read_sections()[recipe["title"]]
    for edit in recipe["edits"]:
        assert is_named(edit["file"], section), f"{edit['file']} is not named by the recipe"
    follow(recipe, checkout)
    named = re.findall(r"`(python [^`]*)`", section)
    # What a recipe has written is fresh.
    written = {command.replace("--write", "--check") for command in named}
    tests = (f"python -m pytest -q {test}" for test in recipe["tests"])
    for command in (*named, *(check for check in CHECKS if check not in written), *tests):
        run(command, checkout)


def test_all_recipes_together_keep_the_rules_of_the_sources(checkout: Path) -> None:
    for path in RECIPES:
        follow(tomllib.loads(path.read_text()), checkout)
    for command in CHECKS_OF_ALL:
        run(command, checkout)
