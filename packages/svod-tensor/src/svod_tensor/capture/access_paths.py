"""Static analysis of bytecode: the values outside of a function that its code can read, as paths
such as `self.layers[0].weight`.

A path begins at a root (a global, a variable of an enclosing function, a parameter) and goes on
through attributes and items with constant keys. In bytecode `a.b["c"]` is one run of consecutive
instructions, so that one scan finds every path. Attributes of values that are not reached by such a
run (local variables, results of calls, elements of an iteration) are known by name only."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Final, Literal, NamedTuple, TypeAlias, cast
from weakref import WeakKeyDictionary

__all__ = ["CodeAccess", "Path", "PathStep", "Root", "analyze_code"]

RootKind: TypeAlias = Literal["global", "nonlocal", "parameter"]


class Root(NamedTuple):
    """Variable at which a path begins."""

    kind: RootKind
    name: str


class PathStep(NamedTuple):
    """One step of a path: an attribute by name, or an item by its constant key."""

    kind: Literal["attribute", "item"]
    key: object


class Path(NamedTuple):
    """A root and the steps from it."""

    root: Root
    steps: tuple[PathStep, ...]


@dataclass(slots=True)
class CodeAccess:
    """Values outside of a code object that it, or a function defined in it, may read.

    Attributes:
        paths: the paths that are read, each once and at its full length, and whether the value at
            the end is used. It is not where one of its attributes or items is only updated, as in
            `x.n += 1`.
        attributes: names of attributes that are read from values whose path is unknown.
        imports: names of modules that it imports while it runs.
        is_dynamic: whether attributes are read by computed names (`getattr`, `vars`, `__dict__`,
            patterns of classes).
    """

    paths: dict[Path, bool] = field(default_factory=dict[Path, bool])
    attributes: set[str] = field(default_factory=set[str])
    imports: set[str] = field(default_factory=set[str])
    is_dynamic: bool = False


_known: WeakKeyDictionary[CodeType, CodeAccess] = WeakKeyDictionary()

# Reading an attribute by a computed name goes through one of these.
_DYNAMIC_NAMES: Final = frozenset(
    {"getattr", "hasattr", "vars", "dir", "attrgetter", "__dict__", "__getattribute__"}
)

# Instructions that leave the value on top of the stack as it is.
_NEUTRAL: Final = frozenset(
    {
        "CACHE",
        "PRECALL",
        "NOP",
        "EXTENDED_ARG",
        "PUSH_NULL",
        "RESUME",
        "NOT_TAKEN",
        "COPY_FREE_VARS",
        "MAKE_CELL",
    }
)
_GLOBAL_LOADS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_NONLOCAL_LOADS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_LOCAL_LOADS: Final = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
# From Python 3.13 on one instruction may load two local variables.
_LOCAL_PAIRS: Final = frozenset(
    {"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "STORE_FAST_LOAD_FAST"}
)
_CONSTANT_LOADS: Final = frozenset(
    {"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL"}
)
_VARIABLE_STORES: Final = frozenset({"STORE_GLOBAL", "STORE_NAME", "STORE_DEREF"})
_NO_CONSTANT: Final = object()


def analyze_code(code: CodeType) -> CodeAccess:
    """Return the accesses of a code object, which are cached."""
    access = _known.get(code)
    if access is None:
        access = _known[code] = _Scan(code).run()
    return access


class _Scan:
    """One pass over the instructions of a code object.

    Attributes:
        path: the path of the value on top of the stack, or None.
        below: the path of the value under a constant on top of the stack.
        constant: the constant on top of the stack.
    """

    def __init__(self, code: CodeType) -> None:
        n_parameters = code.co_argcount + code.co_kwonlyargcount
        n_parameters += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
        self.code, self.parameters = code, code.co_varnames[:n_parameters]
        self.access = CodeAccess()
        self.reads: list[tuple[Path, bool]] = []
        self.path: Path | None = None
        self.below: Path | None = None
        self.constant: object = _NO_CONSTANT
        self.is_update = False

    def run(self) -> CodeAccess:
        for instruction in dis.get_instructions(self.code):
            if instruction.opname not in _NEUTRAL:
                self._scan(instruction)
        self._end_path()
        for path, is_used in self.reads:
            self.access.paths[path] = is_used or self.access.paths.get(path, False)
            if path.root.kind == "parameter":
                # Unless the caller's argument is known, the parameter may be any value.
                self.access.attributes.update(_iter_attributes(path))
        for nested in self.code.co_consts:
            if isinstance(nested, CodeType):
                self._merge(analyze_code(nested))
        return self.access

    def _scan(self, instruction: dis.Instruction) -> None:
        name, value = instruction.opname, instruction.argval
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._load_attribute(str(value))
        elif name in _CONSTANT_LOADS:
            self._end_constant()
            self.below, self.path, self.constant = self.path, None, value
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
            self._load_item()
        elif name == "COPY":
            # Duplicates for an augmented assignment: `x.a += 1` copies x, `x[k] += 1` copies x and
            # then k.
            return
        elif name == "SWAP" and self.is_update:
            return
        elif self.is_update and name in ("STORE_ATTR", "STORE_SUBSCR", *_VARIABLE_STORES):
            self._store_update(name, value)
        elif name in ("IMPORT_NAME", "IMPORT_FROM"):
            self._end_path()
            (self.access.imports if name == "IMPORT_NAME" else self.access.attributes).add(
                str(value)
            )
        else:
            self._end_path()
            self.access.is_dynamic |= name == "MATCH_CLASS"
            self.is_update = (
                name == "BINARY_OP"
                and instruction.argrepr.endswith("=")
                and instruction.argrepr != "=="
            )
            self._load_root(name, value)

    def _load_root(self, name: str, value: object) -> None:
        if name in _GLOBAL_LOADS:
            if value in _DYNAMIC_NAMES:
                self.access.is_dynamic = True
            if value == "super" and self.parameters:
                # `super().run()` reads a method of the first parameter without loading it.
                self.reads.append((Path(Root("parameter", self.parameters[0]), ()), True))
            self.path = Path(Root("global", str(value)), ())
        elif name in _NONLOCAL_LOADS:
            self.path = self._start_local(str(value)) or Path(Root("nonlocal", str(value)), ())
            if value not in self.code.co_freevars and value not in self.parameters:
                self.path = None
        elif name in _LOCAL_LOADS:
            self.path = self._start_local(str(value))
        elif name in _LOCAL_PAIRS:
            first, second = cast("tuple[str, str]", value)
            if not name.startswith("STORE"):
                self.path = self._start_local(first)
                self._end_path()
            self.path = self._start_local(second)

    def _start_local(self, name: str) -> Path | None:
        return Path(Root("parameter", name), ()) if name in self.parameters else None

    def _load_attribute(self, name: str) -> None:
        self._end_constant()
        if name in _DYNAMIC_NAMES:
            self.access.is_dynamic = True
        if self.path is None:
            self.access.attributes.add(name)
        else:
            self.path = Path(self.path.root, (*self.path.steps, PathStep("attribute", name)))

    def _load_item(self) -> None:
        if self.constant is _NO_CONSTANT:
            # The key is computed: the container is read as a whole.
            self._end_path()
            return
        below, key = self.below, self.constant
        self.below, self.constant = None, _NO_CONSTANT
        self.path = (
            None if below is None else Path(below.root, (*below.steps, PathStep("item", key)))
        )

    def _store_update(self, name: str, value: object) -> None:
        """Drop the read of an augmented assignment: a value that is only updated has no effect on
        the trace.
        """
        self.is_update = False
        for index in range(len(self.reads) - 1, -1, -1):
            path, is_used = self.reads[index]
            if is_used and _is_target(path, name, value):
                self.reads[index] = Path(path.root, path.steps[:-1]), False
                if not path.steps:
                    del self.reads[index]
                break
        self.path = None

    def _end_path(self) -> None:
        self._end_constant()
        if self.path is not None:
            self.reads.append((self.path, True))
        self.path = None

    def _end_constant(self) -> None:
        if self.constant is not _NO_CONSTANT:
            if self.below is not None:
                self.reads.append((self.below, True))
            self.below, self.constant = None, _NO_CONSTANT

    def _merge(self, nested: CodeAccess) -> None:
        """Add the accesses of a function that is defined in this function."""
        self.access.attributes |= nested.attributes
        self.access.imports |= nested.imports
        self.access.is_dynamic |= nested.is_dynamic
        for path, is_used in nested.paths.items():
            (kind, name), steps = path
            is_inner = kind == "nonlocal" and name not in self.code.co_freevars
            if kind == "parameter" or is_inner:
                # A variable of the nested function, or one of this function.
                self.access.attributes.update(_iter_attributes(path))
            if is_inner and name in self.parameters:
                kind = "parameter"
            elif kind == "parameter" or is_inner:
                continue
            outer = Path(Root(kind, name), steps)
            self.access.paths[outer] = is_used or self.access.paths.get(outer, False)


def _is_target(path: Path, store: str, name: object) -> bool:
    if store == "STORE_ATTR":
        return bool(path.steps) and path.steps[-1] == PathStep("attribute", name)
    if store == "STORE_SUBSCR":
        return bool(path.steps) and path.steps[-1].kind == "item"
    return not path.steps and path.root.name == name


def _iter_attributes(path: Path) -> Iterator[str]:
    return (str(step.key) for step in path.steps if step.kind == "attribute")
