"""The tool that changes sources and shows what no test notices."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"

SOURCE = '''\
"""A box."""

__all__ = ["clamp"]


def clamp(x: int, high: int) -> int:
    """At most `high`."""
    if x < high:
        return x
    return high
'''

TEST = """\
import subprocess
import sys

def test_what_is_in_the_box_stays():
    subprocess.run([sys.executable, "-c", "from box import clamp; assert clamp(1, 3) == 1"], check=True)

def test_what_is_not_is_put_there():
    from box import clamp
    assert clamp(5, 3) == 3

def test_that_fails():
    assert False
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("mutate")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "box.py").write_text(SOURCE)
    (tmp_path / "test_box.py").write_text(TEST)
    return tmp_path


def test_mutants_that_no_test_notices_are_shown_as_diffs_and_counted(
    tool: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["box.py:7-8", "--tests", "test_box.py", "--root", str(checkout)]
    assert tool.main(arguments) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("3 tests in ")
    assert printed[1:] == [
        "these fail as it is, and are left out:",
        "    test_box.py::test_that_fails",
        "box.py:8: comparison swapped",
        '     """At most `high`."""',
        "-    if x < high:",
        "+    if (x <= high):",
        "         return x",
        "",
        "   tried       of   killed survived",
        "       3        3        2        1 box.py",
    ]
    assert (checkout / "box.py").read_text() == SOURCE


def test_a_test_is_known_to_run_what_its_processes_run(
    tool: ModuleType, checkout: Path, tmp_path: Path
) -> None:
    copy = tool.Copy(checkout, tmp_path / "copy")
    record = copy.record(["test_box.py"], [Path("box.py")])
    inside, outside = (
        "test_box.py::test_what_is_in_the_box_stays",
        "test_box.py::test_what_is_not_is_put_there",
    )
    assert [record.find_near(Path("box.py"), range(n, n + 1)) for n in (8, 9, 10)] == [
        {inside, outside},
        {inside},
        {outside},
    ]
    assert record.failed == {"test_box.py::test_that_fails"}
    assert record.choose(Path("box.py"), range(10, 11), 60.0) == [outside, inside]
    assert record.choose(Path("box.py"), range(10, 11), 0.0) == [outside]


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("x = a and not b\n", ["x = (a or not b)", "x = (not b)", "x = a", "x = a and b"]),
        ("x = a < b <= 1\n", ["x = (a <= b <= 1)", "x = (a < b < 1)", "x = a < b <= 2"]),
        ("key = a, b, c\n", ["key = (b, c)", "key = (a, c)", "key = (a, b)"]),
        ("f(x, y=[z])\n", ["pass", "f(x)"]),
        ("if x:\n    del y\n", ["if False:\n    del y", "if True:\n    del y", "if x:\n    pass"]),
        (
            "x = [max(y) for y in z if w]\n",
            ["x = [max(y) for y in z if True]", "x = [min(y) for y in z if w]"],
        ),
        (
            "def f(x=1.5):\n    y[0] = x + 2\n    return y if x else z\n",
            [
                "def f(x=1.5):\n    return None",
                "def f(x=2.5):\n    y[0] = x + 2\n    return y if x else z",
                "def f(x=1.5):\n    pass\n    return y if x else z",
                "def f(x=1.5):\n    y[1] = x + 2\n    return y if x else z",
                "def f(x=1.5):\n    y[0] = (x - 2)\n    return y if x else z",
                "def f(x=1.5):\n    y[0] = x + 3\n    return y if x else z",
                "def f(x=1.5):\n    y[0] = x + 2\n    return z",
                "def f(x=1.5):\n    y[0] = x + 2\n    return y",
            ],
        ),
        (
            "match x:\n    case 1 if y:\n        z()\n    case _:\n        pass\n",
            ["match x:\n    case 1 if y:\n        pass\n    case _:\n        pass"],
        ),
        (
            "try:\n    é = 'ö', a[0]\nexcept E:\n    pass\n",
            [
                "try:\n    é = 'ö', a[0]\nexcept E:\n    raise",
                "try:\n    é = (a[0],)\nexcept E:\n    pass",
                "try:\n    é = ('ö',)\nexcept E:\n    pass",
                "try:\n    é = 'ö', a[1]\nexcept E:\n    pass",
            ],
        ),
    ],
)
def test_each_kind_of_change_is_made_to_the_text(
    tool: ModuleType, source: str, mutants: list[str]
) -> None:
    found = {m.source.rstrip("\n") for m in tool.iter_mutants(source)}
    assert found == set(mutants)


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""\n__all__ = ["a", "b"]\n',
        "import a, b\n",
        "@cache(maxsize=1)\ndef f(x: dict[int, str]) -> tuple[int, str]:\n    ...\n",
        "def __repr__(self):\n    return f'{a + 1}'\n",
        "_log.info('text', x=1)\n",
        "x = zip(a, b, strict=True)\n",
        "x = dict[int, str]()\n",
        "if TYPE_CHECKING:\n    x = 1\n",
    ],
)
def test_what_no_test_has_to_notice_is_left_alone(tool: ModuleType, source: str) -> None:
    assert list(tool.iter_mutants(source)) == []


def test_the_message_of_an_error_is_left_alone_but_not_the_error(tool: ModuleType) -> None:
    assert [m.source for m in tool.iter_mutants("raise E(1 + 2, a=b)\n")] == ["pass\n"]


def test_a_sample_is_the_same_each_time(
    tool: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for seed in ("0", "0", "1"):
        assert (
            tool.main(
                ["box.py", "--root", str(checkout), "--list", "--sample", "2", "--seed", seed]
            )
            == 0
        )
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert printed[0].count("box.py:") == 2
