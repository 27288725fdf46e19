"""One name for each pass: that of its row, its module, its function and its golden file."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from inspect import getdoc, getmodule, isfunction
from pathlib import Path

import pytest

from svod_ir.ops import STAGES
from svod_schedule.pipeline import PIPELINES

TESTS = Path(__file__).parent
ROWS = [(pipeline, row.name) for pipeline, rows in PIPELINES.items() for row in rows]

BESIDE_PASSES = {
    # Public, so that their paths stay.
    "optimize": {"beam", "candidates", "result"},
}


def get_folder(pipeline: str) -> Path:
    (folder,) = import_module(f"svod_schedule.{pipeline}").__path__
    return Path(folder)


@pytest.mark.parametrize(("pipeline", "name"), ROWS, ids=map(":".join, ROWS))
def test_a_pass_is_the_function_of_its_module(pipeline: str, name: str) -> None:
    function = name.replace("-", "_")
    module = import_module(f"svod_schedule.{pipeline}.{function}")
    run = getattr(module, function)
    assert isfunction(run)
    assert getmodule(run) is module
    assert function in module.__all__
    (row,) = (row for row in PIPELINES[pipeline] if row.name == name)
    assert function in row.run.__code__.co_names
    title, _, rest = (getdoc(module) or "").partition(":")
    assert title == name
    assert "before → after" in rest


def test_no_two_passes_share_a_name() -> None:
    assert [name for name, n in Counter(name for _, name in ROWS).items() if n > 1] == []


def test_golden_files_are_called_as_the_passes() -> None:
    files = {(path.parent.name, path.stem) for path in (TESTS / "golden").rglob("*.ir")}
    assert files == set(ROWS)


def test_tests_of_a_module_are_called_as_it() -> None:
    for pipeline, _ in PIPELINES.items():
        modules = {path.stem for path in get_folder(pipeline).rglob("*.py")}
        packages = {path.parent.name for path in get_folder(pipeline).glob("*/__init__.py")}
        for path in TESTS.glob(f"test_{pipeline}_*.py"):
            assert path.stem.removeprefix(f"test_{pipeline}_") in modules | packages, path.name


@pytest.mark.parametrize("pipeline", [name for name, _ in PIPELINES.items()])
def test_only_passes_and_public_modules_stand_beside_packages(pipeline: str) -> None:
    passes = {name.replace("-", "_") for owner, name in ROWS if owner == pipeline}
    modules = {path.stem for path in get_folder(pipeline).glob("*.py")} - {"__init__"}
    assert modules - passes == BESIDE_PASSES.get(pipeline, set())


@pytest.mark.parametrize("pipeline", [name for name, _ in PIPELINES.items()])
def test_packages_beside_passes_say_what_belongs_there(pipeline: str) -> None:
    for path in get_folder(pipeline).glob("*/__init__.py"):
        assert getdoc(import_module(f"svod_schedule.{pipeline}.{path.parent.name}")), path


def test_modules_beside_each_other_have_different_names() -> None:
    names = Counter(
        path.stem for name, _ in PIPELINES.items() for path in get_folder(name).rglob("*.py")
    )
    assert [name for name, n in names.items() if n > 1 and name != "__init__"] == []
    assert [name for name in names if f"{name}s" in names] == []


def test_passes_end_in_a_stage_of_the_ir() -> None:
    assert {row.stage for _, rows in PIPELINES.items() for row in rows} <= set(STAGES)
