"""Notes on errors that name the module whose `forward` raised, by its path in the called model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

__all__ = ["add_module"]


class _Noted(Protocol):
    """Part of the interface of `Module` used in this file."""

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, _Noted]]: ...

    def extra_repr(self) -> str: ...


class _ModuleNote(str):
    """Note such as `in the module layers.0: Linear(...)`, with the module itself.

    Enclosing modules find the module's path with it.
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
        # Pickled as plain text: another process has no use for the module.
        return str, (str(self),)


def add_module(error: Exception, module: _Noted) -> None:
    """Add a note that names the innermost module that raised, with its path from this module.

    Args:
        error: error that receives the note.
        module: module whose `forward` raised it.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    index = next((i for i, note in enumerate(notes) if isinstance(note, _ModuleNote)), None)
    if index is None:
        error.add_note(_ModuleNote.make(module, ""))
        return
    # An inner module has added the note already: make its path start at this module.
    inner = notes[index].module  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    path = next((name for name, child in module.named_modules() if child is inner), "")
    if path:
        notes[index] = _ModuleNote.make(inner, path)  # pyright: ignore[reportUnknownArgumentType]
