"""Report import cycles in a distribution: `python tools/check_circles.py [distribution ...]`.

Imports inside functions count, since they hide cycles, and so do imports for the type checker,
since readers follow them too."""

from __future__ import annotations

import sys

import grimp

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


def main(names: list[str]) -> int:
    cycles = [cycle for name in names or CLEAN for cycle in find_cycles(name)]
    for cycle in cycles:
        print(f"{len(cycle)} modules import each other: {', '.join(cycle)}")
    return 1 if cycles else 0


def find_cycles(name: str) -> list[list[str]]:
    """Return the import cycles: strongly connected components of the import graph."""
    graph = grimp.build_graph(name, exclude_type_checking_imports=False, cache_dir=None)
    reached = {module: _find_reachable(graph, module) for module in graph.modules}
    cycles = {
        frozenset(m for m in reached[module] if module in reached[m]) for module in graph.modules
    }
    return sorted(sorted(cycle) for cycle in cycles if cycle)


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
