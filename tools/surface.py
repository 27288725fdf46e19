"""Public modules and names of each distribution, read from its sources without imports.

A distribution lists its public modules in `[tool.svod] public-modules` of its pyproject.toml, and a
module its public names in `__all__`. docs/adr/0042 has the reasons, docs/versions.md the stability
guarantees."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias

__all__ = ["ROOT", "Definition", "Distribution", "get_distributions", "read_tree"]

ROOT = Path(__file__).resolve().parent.parent

Definition: TypeAlias = "tuple[str, ast.AST | None]"
"""Defining module of a name and its syntax node there; the node is None in another distribution."""


@dataclass(frozen=True)
class Distribution:
    """Folder of a distribution in this checkout, and the package that it installs."""

    folder: Path
    package: str

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Paths of all modules by dotted name."""
        return {
            _name_module(path, self.source.parent): path
            for path in sorted(self.source.rglob("*.py"))
        }

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.package

    @cached_property
    def public_modules(self) -> list[str]:
        """Public modules that the distribution declares, the package itself first."""
        settings = tomllib.loads((self.folder / "pyproject.toml").read_text())
        return settings.get("tool", {}).get("svod", {}).get("public-modules", [])

    def get_public_names(self, module: str) -> list[str]:
        """Return the names in a module's `__all__`; empty if it has none."""
        for node in read_tree(self.modules[module]).body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return ast.literal_eval(node.value)  # type: ignore[union-attr]
        return []

    def read_declarations(self, module: str) -> ast.Module:
        """Return the syntax tree of a module's stub, or of its source if it has no stub."""
        stub = self.modules[module].with_suffix(".pyi")
        return read_tree(stub if stub.exists() else self.modules[module])

    def find_definition(self, module: str, name: str) -> Definition | None:
        """Return the definition of a name bound in a module, followed through imports."""
        for node in iter_statements(self.read_declarations(module).body):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        if node.module.split(".")[0] != self.package:
                            return node.module, None
                        submodule = f"{node.module}.{alias.name}"
                        definition = (
                            self.find_definition(node.module, alias.name)
                            if node.module != module
                            else None
                        )
                        if definition is None and submodule in self.modules:
                            return submodule, read_tree(self.modules[submodule])
                        return definition
            elif name in get_bound_names(node):
                return module, node
        return None


def get_bound_names(node: ast.stmt) -> set[str]:
    """Return the names that a module-level statement defines, except imports."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return {
        name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
    }


def iter_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a module or class, including the branches of conditions."""
    statements: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If):
            statements += iter_statements([*node.body, *node.orelse])
        else:
            statements.append(node)
    return statements


@cache
def get_distributions() -> dict[str, Distribution]:
    """Return the distributions in `packages/` by the name of the package that each installs."""
    sources = sorted(path.parent for path in ROOT.glob("packages/*/src/*/__init__.py"))
    return {path.name: Distribution(path.parent.parent, path.name) for path in sources}


@cache
def read_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _name_module(path: Path, base: Path) -> str:
    names = path.relative_to(base).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)
