"""Python code in the READMEs and in docs/ runs unchanged, and gives the results that are written
there.

The blocks of a page run sequentially, in one namespace and in a separate folder. The text after `#
-> ` behind a statement, and at the beginning of lines below it, is the statement's output or the
repr of its value. White space is ignored, and `...` matches anything.
"""

from __future__ import annotations

import ast
import contextlib
import io
import logging
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import structlog

from svod_tensor import manual_seed

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"# -> (.*)")
# Pages whose code is not a program of its own, and the tests that run it.
RUN_ELSEWHERE = {
    ROOT / "docs/new-device.md": "tests/test_new_device.py",
    ROOT / "docs/journey.md": "docs/journey.py",
}
# Optional packages of pages: without one, the remainder of the page is skipped (`tox run -e
# interop` has all).
OPTIONAL = {
    "dask", "distributed", "jax", "mpi4py", "onnx", "safetensors", "scipy", "sklearn", "svod_mpi",
    "torch",
}  # fmt: skip
READMES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
    *([ROOT / "plugins/svod-null/README.md"] if find_spec("svod_null") else []),
    *([ROOT / "plugins/svod-mpi/README.md"] if find_spec("svod_mpi") else []),
]
PAGES = [
    page
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if page not in RUN_ELSEWHERE and BLOCK.search(page.read_text()) is not None
]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", READMES + PAGES, ids=_name)
def test_a_page_runs(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    manual_seed(0)  # a page that trains takes the same way in each run
    text = path.read_text()
    blocks = list(BLOCK.finditer(text))
    assert blocks, "a README shows real use"
    names: dict[str, object] = {"__name__": "page"}
    # Pages show settings of the whole process.
    request.addfinalizer(structlog.reset_defaults)
    request.addfinalizer(lambda: logging.getLogger("svod").setLevel(logging.NOTSET))
    for block in blocks:
        # Pad with newlines, so that a traceback has the line of the page.
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        try:
            _run(source, str(path), names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed: tox run -e interop")


def _run(source: str, path: str, names: dict[str, object]) -> None:
    """Run statements, and compare the result of each with the expected text."""
    lines = source.splitlines()
    for statement in ast.parse(source, path).body:
        shown = _expected(lines, statement.end_lineno or 0)
        if shown is None:
            exec(compile(ast.Module([statement], []), path, "exec"), names)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), path, "eval"), names)
                if value is not None:
                    print(repr(value))
            else:
                exec(compile(ast.Module([statement], []), path, "exec"), names)
        given, wanted = " ".join(printed.getvalue().split()), " ".join(shown.split())
        pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
        assert re.fullmatch(pattern, given), (
            f"{path}:{statement.lineno} gives\n{given}\nand not\n{wanted}"
        )


def _expected(lines: list[str], end: int) -> str | None:
    """Return the text after `# -> ` on the last line of a statement, and on the comment lines below
    it.
    """
    beside = OUTPUT.search(lines[end - 1])
    below: list[str] = []
    for line in lines[end:]:
        if (found := OUTPUT.match(line)) is None:
            break
        below.append(found[1])
    return (
        None
        if beside is None and not below
        else "\n".join([*([beside[1]] if beside else []), *below])
    )
