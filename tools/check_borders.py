"""Check imports between distributions: `python tools/check_borders.py`.

- A module is public if `[tool.svod] public-modules` of its distribution lists it. The name of any
  other top-level module begins with an underscore. A module in a subpackage is private unless it is
  listed.
- Other distributions, plugins and examples import only public names of public modules. A name that
  the package itself exports is imported from the package.
- The operands of a node have names: only svod-ir accesses them by index, as in `node.src[0]`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from surface import ROOT, Distribution, get_distributions, read_tree

OUTSIDE = ("plugins/*/src/*", "plugins/*/tests", "examples")
"""Folders with code like a user's, which may use only public names."""

EXCEPTIONS: dict[str, tuple[str, ...]] = {}
"""Accepted violations by file; should stay empty."""


def main(arguments: list[str]) -> int:
    distributions = get_distributions()
    problems = [p for d in distributions.values() for p in iter_declared(d)]
    n_imports, n_deep = 0, 0
    for path, package in iter_files(distributions):
        name = str(path.relative_to(ROOT))
        if package != "svod_ir" and ".src[" in path.read_text():
            problems += [
                f"{name}:{line}: operand accessed by index; use its name on `UOp`"
                for line in iter_indexed_operands(read_tree(path))
            ]
        for statement in iter_statements(read_tree(path)):
            for line, module, imported in iter_imports(statement):
                owner = distributions.get(module.split(".")[0])
                if owner is None or owner.package == package:
                    continue
                n_imports += 1
                n_deep += "." in module
                problem = find_problem(owner, module, imported)
                if problem is not None and problem not in EXCEPTIONS.get(name, ()):
                    problems.append(f"{name}:{line}: {problem}")
    print(*problems, sep="\n", end="\n" if problems else "")
    print(
        f"{n_imports} imports between distributions, {n_deep} of them from submodules,"
        f" {len(problems)} problems"
    )
    return 1 if problems else 0


def iter_declared(distribution: Distribution) -> Iterator[str]:
    """Yield the problems in a distribution's list of public modules and in private module names."""
    listed = distribution.public_modules
    for module in listed:
        if module not in distribution.modules:
            yield f"{distribution.name}: {module} is declared public, but does not exist"
        elif not distribution.get_public_names(module):
            yield f"{distribution.name}: {module} is declared public, but has no `__all__`"
        if any(part.startswith("_") for part in module.split(".")):
            yield (
                f"{distribution.name}: {module} is declared public, but its name begins with an"
                " underscore"
            )
    if listed[:1] != [distribution.package] or listed[1:] != sorted(set(listed[1:])):
        yield (
            f"{distribution.name}: public-modules must be the package, then the other public"
            " modules, sorted"
        )
    for module, path in distribution.modules.items():
        if (
            path.parent == distribution.source
            and not path.stem.startswith("_")
            and module not in listed
        ):
            yield (
                f"{distribution.name}: {module} is not declared public, so its name must"
                " begin with _"
            )


def iter_files(distributions: dict[str, Distribution]) -> Iterator[tuple[Path, str]]:
    """Yield the checked files, each with its package."""
    for distribution in distributions.values():
        for path in distribution.modules.values():
            yield path, distribution.package
    for pattern in OUTSIDE:
        for folder in sorted(ROOT.glob(pattern)):
            for path in sorted(folder.rglob("*.py")):
                yield path, folder.name


def iter_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below a node without visiting expressions, which are most of a tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from iter_statements(child)


def iter_imports(node: ast.AST) -> Iterator[tuple[int, str, str | None]]:
    """Yield line, module and name of each import; the name is None for `import module`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield node.lineno, alias.name, None
    elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        for alias in node.names:
            yield node.lineno, node.module, alias.name


def iter_indexed_operands(tree: ast.AST) -> Iterator[int]:
    """Yield the lines with `.src[0]` or another constant index; slices are allowed."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "src"
        ):
            index = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
            if isinstance(index, ast.Constant) and isinstance(index.value, int):
                yield node.lineno


def find_problem(owner: Distribution, module: str, name: str | None) -> str | None:
    """Return the rule that an import of another distribution breaks, or None."""
    if (
        name is not None
        and f"{module}.{name}" in owner.modules
        and name not in owner.get_public_names(module)
    ):
        module, name = f"{module}.{name}", None
    if module not in owner.public_modules:
        return f"{module} is private{'' if name is None else f' ({name})'}"
    if name is None:
        return None
    if name not in owner.get_public_names(module):
        return f"{name} is not in `{module}.__all__`"
    is_exported = module != owner.package and name in owner.get_public_names(owner.package)
    if is_exported and owner.find_definition(module, name) == owner.find_definition(
        owner.package, name
    ):
        return f"import {name} from {owner.package} itself"
    return None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
