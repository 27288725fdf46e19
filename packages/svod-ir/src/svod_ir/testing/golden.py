"""Golden tests of passes: files with the text forms of graphs before and after a pass.

A file is named after the pass, in a folder named after its pipeline, and holds one or more cases:

    === x + 0 becomes x
    %0 = DEFINE_VAR index ["x", 0, 9]
    %1 = CONST index [0]
    %2 = ADD index %0, %1
    --- simplify
    %0 = DEFINE_VAR index ["x", 0, 9]

An expected part that begins with `error:` is the message of the error that the pass raises.
`pytest --bless` rewrites the expected parts.

Example:
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from svod_ir.testing import GoldenCase, GoldenMismatch, check_case, list_cases, read_cases
    >>> text = '''=== x + 0 becomes x
    ... %0 = DEFINE_VAR index ["x", 0, 9]
    ... %1 = CONST index [0]
    ... %2 = ADD index %0, %1
    ... --- simplify
    ... %0 = DEFINE_VAR index ["x", 0, 9]
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "simplify.ir")
    ...     _ = path.write_text(text)
    ...     (case,) = read_cases(path)
    ...     list_cases(Path(folder)) == [case]
    True
    >>> isinstance(case, GoldenCase), case.title, case.pass_name
    (True, 'x + 0 becomes x', 'simplify')
    >>> check_case(case, lambda graph: graph.left)
    >>> try:
    ...     check_case(case, lambda graph: graph.right)
    ... except GoldenMismatch as error:
    ...     for line in str(error).splitlines()[4:6]:
    ...         print(line)
    -%0 = DEFINE_VAR index ["x", 0, 9]
    +%0 = CONST index [0]
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from svod_dtype import SvodError
from svod_ir.errors import ParseError
from svod_ir.text import parse_graph, print_graph
from svod_ir.uop import UOp

__all__ = ["GoldenCase", "GoldenMismatch", "bless", "check_case", "list_cases", "read_cases"]


class GoldenMismatch(AssertionError):
    """A pass whose result differs from the expected text; the message is a diff."""


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case: its title, the text before, the name of the pass, and the expected text."""

    path: Path
    title: str
    before: str
    pass_name: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}: {self.title}"


def list_cases(folder: Path) -> list[GoldenCase]:
    """The cases of every `.ir` file below `folder`, in the order of their paths."""
    return [case for path in sorted(folder.rglob("*.ir")) for case in read_cases(path)]


def read_cases(path: Path) -> list[GoldenCase]:
    """The cases of one file.

    Raises:
        ParseError: if a part is missing, or two cases have one title.
    """
    cases: list[GoldenCase] = []
    preamble, *sections = ("\n" + path.read_text()).split("\n=== ")
    if preamble.strip() or not sections:
        raise ParseError(
            line=1,
            text=preamble,
            problem=f"{path.name} does not begin with a title",
            hint="write === and what the case shows",
        )
    for section in sections:
        title, _, body = section.partition("\n")
        before, dashes, after = body.partition("\n--- ")
        pass_name, _, expected = after.partition("\n")
        if not dashes or not title.strip():
            raise ParseError(
                line=0, text=title, problem=f"a case of {path.name} has no line --- with a pass"
            )
        if any(c.title == title.strip() for c in cases):
            raise ParseError(line=0, text=title, problem=f"two cases of {path.name} have one title")
        cases.append(
            GoldenCase(
                path,
                title.strip(),
                before.strip() + "\n",
                pass_name.strip(),
                expected.strip() + "\n",
            )
        )
    return cases


def check_case(
    case: GoldenCase, run: Callable[[UOp], UOp | str], *, is_blessing: bool = False
) -> None:
    """Compare the result of `run` on the case's graph (a graph or a text) with the expected text,
    or write it if blessing.

    Raises:
        GoldenMismatch: with a diff.
    """
    actual = _run(parse_graph(case.before), run)
    if actual == case.expected or _is_same_graph(actual, case.expected):
        return
    if is_blessing:
        bless(case, actual)
        return
    diff = difflib.unified_diff(
        case.expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="", n=8
    )
    raise GoldenMismatch(
        "\n".join([str(case), *diff, "rewrite it with pytest --bless if the new text is right"])
    )


def bless(case: GoldenCase, actual: str) -> None:
    """Write `actual` as the expected part of the case."""
    sections: list[str] = []
    for known in read_cases(case.path):
        expected = actual if known.title == case.title else known.expected
        sections.append(f"=== {known.title}\n{known.before}--- {known.pass_name}\n{expected}")
    case.path.write_text("\n".join(sections))


def _run(before: UOp, run: Callable[[UOp], UOp | str]) -> str:
    try:
        result = run(before)
        return result if isinstance(result, str) else print_graph(result)
    except SvodError as error:
        return f"error: {type(error).__name__}: {error}\n"


def _is_same_graph(actual: str, expected: str) -> bool:
    if actual.startswith("error:") or expected.startswith("error:"):
        return False
    try:
        return parse_graph(actual) is parse_graph(expected)
    except ParseError:
        return False
