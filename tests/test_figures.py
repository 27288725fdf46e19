"""Each section of a page, and each docstring, with a measured time, rate or factor of speed names
the script that measures it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIGURE = re.compile(
    r"\d ?(?:ns|us|µs|ms|[MGT]FLOP/s|[MGT]B/s)\b"
    r"|\d(?:\.\d+)? times (?:faster|slower|as (?:fast|slow|long))"
    r"|\d ?% (?:faster|slower|longer|of the time)"
    r"|\b(?:twice|half) (?:as (?:fast|slow|long)|the time)\b"
)
SCRIPT = re.compile(r"\bbenchmarks/(\w+)\.py\b")
SCRIPT_BESIDE = re.compile(r"`(\w+)\.py\b")
"""A script on a page of its own folder."""
CODE = re.compile(r"^```.*?^```$|^ {4}.*?$", re.DOTALL | re.MULTILINE)
SCRIPTS = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
    *sorted(ROOT.glob("*/*/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]


def find_unmeasured(text: str, script: re.Pattern[str] = SCRIPT) -> list[str]:
    """Return the figures of the sections of a page that name no script of benchmarks/.

    A section has the scripts of the sections that it is part of, without the page's first one.
    Code, such as the output of a program, makes no claim.
    """
    scripts: dict[int, bool] = {}
    found: list[str] = []
    # A `#` at the beginning of a line of code is a comment.
    for section in re.split(r"^(?=#+ )", CODE.sub("", text), flags=re.MULTILINE):
        level = len(section) - len(section.lstrip("#"))
        scripts = {k: named for k, named in scripts.items() if 1 < k < level}
        scripts[level] = any(name in SCRIPTS for name in script.findall(section))
        if not any(scripts.values()):
            found += FIGURE.findall(section)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_figures_of_a_page_are_measured_by_a_script(path: Path) -> None:
    script = SCRIPT_BESIDE if path.parent.name == "benchmarks" else SCRIPT
    assert find_unmeasured(path.read_text(), script) == []


def test_figures_of_docstrings_are_measured_by_a_script() -> None:
    found: list[tuple[str, list[str]]] = []
    for path in sorted(ROOT.glob("p*/*/src/**/*.py")):  # packages and plugins
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                figures = find_unmeasured(ast.get_docstring(node) or "")
                if figures:
                    found.append((f"{path.name}:{node.body[0].lineno}", figures))
    assert not found


def test_a_figure_without_a_script_is_found() -> None:
    page = "# Page\n\n## Speed\n\nIt takes 3 ms.\n\n```\n4 ms\n```\n\n## Size\n\nIt has 4 MB.\n"
    assert find_unmeasured(page) == ["3 ms"]
    assert find_unmeasured(page.replace("takes", "(`benchmarks/run.py`) takes")) == []
    assert find_unmeasured("## A\n\n2.5 times faster\n\n### B\n\n`run.py`\n") == [
        "2.5 times faster"
    ]
    assert find_unmeasured("## A\n\n`run.py`\n\n### B\n\ntwice as fast\n") == ["twice as fast"]
    assert find_unmeasured("## A\n\n`run.py`\n\n### B\n\ntwice as fast\n", SCRIPT_BESIDE) == []
