"""Write the public API of each distribution to its `api.txt` with `--write`; `--check` compares.

Each file lists the distribution's public modules and their names with signatures, fields and types.
It is read from the sources, so it does not depend on the machine. A removed or added line is a
change of the public API; docs/versions.md says which version it requires."""

from __future__ import annotations

import ast
import difflib
import sys
from copy import deepcopy

from surface import Distribution, get_bound_names, get_distributions, iter_statements

_HEAD = (
    "# Public API of {name}. Written by tools/public_api.py; docs/versions.md says which version"
    " a change requires.\n"
)


def main(arguments: list[str]) -> int:
    writes = "--write" in arguments
    n_stale = 0
    for distribution in get_distributions().values():
        path = distribution.folder / "api.txt"
        old, new = path.read_text() if path.exists() else "", describe(distribution)
        if old == new:
            continue
        n_stale += 1
        if writes:
            path.write_text(new)
        lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[2:]
        removed, added = ([line for line in lines if line.startswith(sign)] for sign in "-+")
        if old:
            print(*(line for line in lines if not line.startswith("@@")), sep="\n")
        required = (
            "an incompatible version (before 1.0, the next minor version)"
            if removed
            else "a compatible version (before 1.0, the next patch version)"
        )
        print(
            f"{distribution.name}: {len(removed)} public lines removed, {len(added)} added, which"
            f" requires {required}"
        )
    if n_stale and not writes:
        print(
            "docs/versions.md lists the changes that a version may make;"
            " `python tools/public_api.py --write` updates api.txt"
        )
    return 1 if n_stale and not writes else 0


def describe(distribution: Distribution) -> str:
    """Return the text of `api.txt`."""
    known: dict[tuple[str, str], str] = {}
    lines = [_HEAD.format(name=distribution.name)]
    for module in distribution.public_modules:
        lines.append(module)
        for name in sorted(distribution.get_public_names(module)):
            lines += [f"    {line}" for line in _describe_name(distribution, module, name, known)]
        lines.append("")
    return "\n".join(lines)


def _describe_name(
    distribution: Distribution, module: str, name: str, known: dict[tuple[str, str], str]
) -> list[str]:
    """Describe a definition in the first module that exports it; other modules refer to it."""
    definition = distribution.find_definition(module, name)
    if definition is None:
        raise SystemExit(f"{module}.__all__ has {name!r}, which the module does not define")
    home, node = definition
    if node is None:
        return [f"{name}: from {home}"]
    if (home, name) in known:
        return [f"{name}: from {known[home, name]}"]
    known[home, name] = module
    if isinstance(node, ast.ClassDef):
        return _describe_class(distribution, home, node)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        nodes = iter_statements(distribution.read_declarations(home).body)
        overloads = [n for n in nodes if _is_overload(n, node.name)]
        return [_describe_function(n, name) for n in overloads or [node]]
    if isinstance(node, ast.Module):
        return [f"module {name}"]
    return [_describe_value(node, name)]


def _describe_class(distribution: Distribution, module: str, node: ast.ClassDef) -> list[str]:
    bases = ", ".join(map(ast.unparse, [*node.bases, *(k.value for k in node.keywords)]))
    members = _get_members(distribution, module, node)
    return [
        f"class {node.name}({bases})" if bases else f"class {node.name}",
        *(f"    {m}" for m in members),
    ]


def _get_members(distribution: Distribution, module: str, node: ast.ClassDef) -> list[str]:
    """Return the public members of a class, including members inherited from private classes of
    the distribution.
    """
    members: dict[str, list[str]] = {}
    # In reverse, so that members of an earlier base replace members of a later base.
    for base in reversed(node.bases):
        name = ast.unparse(base).split("[")[0]
        origin = distribution.find_definition(module, name) if name.isidentifier() else None
        if (
            origin is not None
            and isinstance(origin[1], ast.ClassDef)
            and not _is_public(distribution, *origin)
        ):
            members |= _group_by_name(_get_members(distribution, origin[0], origin[1]))
    statements = iter_statements(node.body)
    members |= _group_by_name(
        [line for s in statements for line in _describe_member(s, is_enum=_is_enum(node))]
    )
    return [line for name in sorted(members) for line in members[name]]


def _group_by_name(lines: list[str]) -> dict[str, list[str]]:
    """Group lines by name. A name with overloads or a setter has several lines."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(_name_of(line), []).append(line)
    return groups


def _is_public(distribution: Distribution, module: str, node: ast.AST | None) -> bool:
    name = getattr(node, "name", "")
    return any(
        name in distribution.get_public_names(m)
        and distribution.find_definition(m, name) == (module, node)
        for m in distribution.public_modules
    )


def _describe_member(node: ast.stmt, *, is_enum: bool) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if node.name == "__init__":
            return [_describe_function(node), *_describe_attributes(node)]
        return [_describe_function(node)] if _is_public_name(node.name) else []
    names = sorted(
        name for name in get_bound_names(node) if _is_public_name(name) and name != "__slots__"
    )
    if is_enum:
        return [name for name in names if not name.startswith("__")]
    return [_describe_value(node, name) for name in names]


def _describe_attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Describe the public attributes that `__init__` sets."""
    attributes: dict[str, str] = {}
    for node in ast.walk(init):
        targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
        typed = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
        for target in (inner for t in targets if isinstance(t, ast.expr) for inner in ast.walk(t)):
            if (
                isinstance(target, ast.Attribute)
                and ast.unparse(target.value) == "self"
                and _is_public_name(target.attr)
            ):
                attributes.setdefault(target.attr, f"{target.attr}{typed}")
    return list(attributes.values())


def _describe_function(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str = "") -> str:
    """Describe the signature of a function under its own name or an alias."""
    kinds = {ast.unparse(d).split("(")[0].split(".")[-1] for d in node.decorator_list}
    returns = "" if node.returns is None else ast.unparse(node.returns)
    if kinds & {"property", "cached_property"}:
        return f"{node.name}: {returns}"
    if "setter" in kinds:
        return f"{node.name} = {ast.unparse(node.args.args[-1])}"
    kind = "".join(
        f"{k} " for k in ("staticmethod", "classmethod", "contextmanager", "overload") if k in kinds
    )
    arguments = deepcopy(node.args)
    if "operation" in kinds:
        # The decorator converts the first operand.
        arguments.posonlyargs[0].annotation = ast.Name("Operand")
    return f"{kind}def {name or node.name}({ast.unparse(arguments)})" + (
        f" -> {returns}" if returns else ""
    )


def _describe_value(node: ast.AST, name: str) -> str:
    """Describe a field or constant by its type, and a type alias by its value."""
    value = getattr(node, "value", None)
    if isinstance(node, ast.AnnAssign):
        typed = ast.unparse(node.annotation)
        if typed == "TypeAlias" and value is not None:
            return (
                f"{name} ="
                f" {ast.literal_eval(value) if isinstance(value, ast.Constant) else ast.unparse(value)}"
            )
        if typed not in ("Final", "ClassVar"):
            typed = (
                typed.removeprefix("Final[").removesuffix("]")
                if typed.startswith("Final[")
                else typed
            )
            return f"{name}: {typed}" + (
                " = ..." if value is not None and not typed.startswith("ClassVar") else ""
            )
    if isinstance(value, ast.Constant):
        return f"{name}: {type(value.value).__name__}"
    if isinstance(value, ast.Call):
        called = ast.unparse(value.func)
        return (
            f"{name} = {ast.unparse(value)}"
            if called in ("NewType", "TypeVar")
            else f"{name} = {called}(...)"
        )
    literals = {
        ast.Dict: "dict",
        ast.DictComp: "dict",
        ast.Tuple: "tuple",
        ast.List: "list",
        ast.Set: "set",
        ast.JoinedStr: "str",
    }
    return f"{name}: {literals.get(type(value), 'value')}"


def _is_overload(node: ast.stmt, name: str) -> bool:
    return (
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and "overload" in map(ast.unparse, node.decorator_list)
    )


def _is_enum(node: ast.ClassDef) -> bool:
    return any(
        ast.unparse(base).split(".")[-1] in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")
        for base in node.bases
    )


def _is_public_name(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _name_of(line: str) -> str:
    return line.split("def ")[-1].split("(")[0].split(":")[0].split(" =")[0]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
