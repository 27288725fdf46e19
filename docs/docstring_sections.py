"""Extension of mkdocstrings for svod's docstrings: the section `Example` is parsed as code, and a
class shows the sections of its constructor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import Class, Extension, Module, Object

__all__ = ["DocstringSections"]

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
SECTION = re.compile(r"^[A-Z][a-z]+:", re.MULTILINE)


class DocstringSections(Extension):
    """Rename the section `Example:` to `Examples:`, which the parser reads as code, and insert the
    sections of `__init__`, which a private base class may define, into a class's docstring.
    """

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        self.on_object(obj=pkg)  # the loader calls `on_object` only for the members of a package
        # All modules are loaded by now, so that base classes are found.
        for class_ in _iter_classes(pkg):
            _insert_constructor(class_)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)


def _iter_classes(owner: Object) -> Iterator[Class]:
    for member in owner.members.values():
        if not member.is_alias and isinstance(member, (Module, Class)):
            if isinstance(member, Class):
                yield member
            yield from _iter_classes(member)


def _insert_constructor(class_: Class) -> None:
    constructor = class_.all_members.get("__init__")
    if class_.docstring is None or constructor is None or constructor.docstring is None:
        return
    sections = SECTION.search(constructor.docstring.value)
    if sections is None:
        return
    text = class_.docstring.value
    own = SECTION.search(text)
    position = own.start() if own else len(text)
    inserted = constructor.docstring.value[sections.start() :]
    class_.docstring.value = f"{text[:position].rstrip()}\n\n{inserted}\n\n{text[position:]}"
