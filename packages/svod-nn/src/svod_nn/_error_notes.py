"""Says of an error in which module it was raised, by the path from the outermost module that was
called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor

__all__ = ["add_module", "find_wrong_argument"]


class _Noted(Protocol):
    """What is asked of a `Module` here."""

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, _Noted]]: ...

    def extra_repr(self) -> str: ...


class _ModuleNote(str):
    """`in the module layers.0:

    Linear(...)`, and which module that is: those around it know its path.
    """

    module: _Noted

    @classmethod
    def make(cls, module: _Noted, path: str) -> _ModuleNote:
        note = cls(
            f"in the module {path}{path and ': '}{type(module).__name__}({module.extra_repr()})"
        )
        note.module = module
        return note

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # Another process has no use for the module.
        return str, (str(self),)


def add_module(error: Exception, module: _Noted) -> None:
    """Note that an error has passed the call of a module: the innermost one is named, with its path
    from this one.

    Args:
        error: which gets the note.
        module: whose `forward` has raised it.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    found = next(
        (number for number, note in enumerate(notes) if isinstance(note, _ModuleNote)), None
    )
    if found is None:
        error.add_note(_ModuleNote.make(module, ""))
        return
    inner = notes[found].module  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    path = next((name for name, below in module.named_modules() if below is inner), "")
    if path:
        notes[found] = _ModuleNote.make(inner, path)  # pyright: ignore[reportUnknownArgumentType]


def find_wrong_argument(
    error: AttributeError, name: str, args: tuple[object, ...]
) -> LayerArgumentError | None:
    """The error that says that a module was called with something else than a tensor, where that
    made it fail.

    Args:
        error: what `forward` has raised.
        name: of the module.
        args: what it was called with.
    """
    found = error.obj
    is_argument = any(found is given for given in args) and not isinstance(found, Tensor)
    if not is_argument or error.name is None or not hasattr(Tensor, error.name):
        return None
    kind = type(found)
    shown = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return LayerArgumentError(
        name=name, problem=f"it is called with {shown}, no tensor", hint="write Tensor(x)"
    )
