"""What a captured function's plan depends on besides its arguments: the names that the function reads, and what `depend_on` reads.

A plan serves calls as long as each of them has the value that it was captured with. The names are those outside of the function:
in the functions around it, and among the globals of its module; what functions that it calls read is not known.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Final, NamedTuple, TypeVar

from svod_tensor.capture.signature import is_plain, key_of
from svod_tensor.cells import registry

__all__ = ["Dependency", "depend_on", "find_changed", "list_names", "select_unchanged"]

T = TypeVar("T")

_MISSING: Final = object()


class Dependency(NamedTuple):
    """A value that was read while a function was captured.

    Attributes:
        name: what messages call it.
        read: gives what it is now.
        value: what it was.
    """

    name: str
    read: Callable[[], object]
    value: object

    @property
    def is_current(self) -> bool:
        """Whether it is what it was: the same number or text, or the same object."""
        now = self.read()
        return now is self.value or (self.may_return and key_of(now) == key_of(self.value))

    @property
    def may_return(self) -> bool:
        """Whether what it was may come again: a number or text; an object whose place another one took does not."""
        return is_plain(self.value)

    def describe(self) -> str:
        """How it is another one than it was."""
        now = self.read()
        if is_plain(now) and is_plain(self.value):
            return f"{self.name} is {now!r} instead of {self.value!r}"
        return f"{self.name} is another object"


def depend_on(name: str, read: Callable[[], T]) -> T:
    """Read a Python value on which what is computed depends, such as the mode of a network.

    A captured function that does this is captured anew for calls in which `read` gives another value; nothing happens outside of
    one. Numbers and texts are compared by value, other objects by identity.

    Args:
        name: what `explain` calls the value.
        read: gives the value; it is called at every call of the captured function.

    Returns:
        what `read` gives now.

    Example:
        >>> from svod_tensor import Tensor, depend_on, jit
        >>> settings = {"scale": 2}
        >>> @jit
        ... def scale(x):
        ...     return x * depend_on("the scale", lambda: settings["scale"])
        >>> first = scale(Tensor([1.0])).item()
        >>> settings["scale"] = 3
        >>> first, scale(Tensor([1.0])).item()
        (2.0, 3.0)
    """
    value = read()
    capture = registry.find_capture()
    if capture is not None:
        while capture.outer is not None:
            capture = capture.outer
        capture.dependencies.append((name, read, value))
    return value


def list_names(function: Callable[..., object]) -> list[Dependency]:
    """The names outside of a function that it, and what is defined in it, reads; modules are left out."""
    while isinstance(function, (MethodType, partial)):
        function = function.__func__ if isinstance(function, MethodType) else function.func
    if not isinstance(function, FunctionType):
        return []
    code, names = function.__code__, function.__globals__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    readers = [(f"`{name}`", partial(_read_cell, cell)) for name, cell in cells]
    readers += [
        (f"the global `{name}`", partial(names.get, name, _MISSING))
        for name in dict.fromkeys(_iter_globals(code))
        if name in names
    ]
    found = [Dependency(name, read, read()) for name, read in readers]
    return [one for one in found if one.value is not _MISSING and not isinstance(one.value, ModuleType)]


def select_unchanged(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """Those that are still what they were, each once: what a function changes itself says nothing about its next call."""
    unique = {dependency.read: dependency for dependency in dependencies}
    return tuple(dependency for dependency in unique.values() if dependency.is_current)


def find_changed(dependencies: Iterable[Dependency]) -> Dependency | None:
    """The first that is not what it was; None where a plan is right."""
    for dependency in dependencies:
        if not dependency.is_current:
            return dependency
    return None


def _read_cell(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is assigned to the name
        return _MISSING


def _iter_globals(code: CodeType) -> Iterator[str]:
    yield from (i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iter_globals(constant)
