"""Report import cycles in distributions, or in those that are named, and among scripts:
`python tools/check_circles.py [distribution ...]`.

Imports inside functions count, since they hide cycles, and so do imports for the type checker,
since readers follow them too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent

CLEAN = (
    "svod_dtype",
    "svod_ir",
    "svod_schedule",
    "svod_device",
    "svod_codegen",
    "svod_runtime",
    "svod_tensor",
    "svod_nn",
    "svod_onnx",
    "svod_testing",
)
"""Distributions without import cycles."""

SCRIPTS = ("benchmarks", "docs", "examples", "tests", "tools")
"""Folders of scripts, which import each other by file name."""


def main(names: list[str]) -> int:
    cycles = [cycle for name in names or CLEAN for cycle in find_cycles(name)]
    for cycle in cycles:
        print(f"{len(cycle)} modules import each other: {', '.join(cycle)}")
    for folder in SCRIPTS:
        if cycle := find_cycle_of_scripts(ROOT / folder):
            cycles.append(cycle)
            print(f"scripts of {folder} import each other: {', '.join(cycle)}")
    return 1 if cycles else 0


def find_cycles(name: str) -> list[list[str]]:
    """Return the import cycles: strongly connected components of the import graph."""
    graph = grimp.build_graph(name, exclude_type_checking_imports=False, cache_dir=None)
    reached = {module: _find_reachable(graph, module) for module in graph.modules}
    cycles = {
        frozenset(m for m in reached[module] if module in reached[m]) for module in graph.modules
    }
    return sorted(sorted(cycle) for cycle in cycles if cycle)


def find_cycle_of_scripts(folder: Path) -> list[str] | None:
    """Return one import cycle of the scripts in a folder, None if there is none."""
    paths = {path.stem: path for path in folder.glob("*.py")}
    imports = {
        name: {module for module in _iter_imported(path) if module in paths}
        for name, path in paths.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def _iter_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def _find_reachable(graph: grimp.ImportGraph, module: str) -> set[str]:
    reachable: set[str] = set()
    todo = [module]
    while todo:
        new = graph.find_modules_directly_imported_by(todo.pop()) - reachable
        reachable |= new
        todo += new
    return reachable


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
