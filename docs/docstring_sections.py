"""How mkdocstrings is to read our docstrings: an example is code, and sources are a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Module, Object

__all__ = ["DocstringSections"]

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class DocstringSections(Extension):
    """Give the section `Example:` the name by which the parser knows that code follows."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        self.on_object(obj=pkg)  # which the loader calls for what lies in a package

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)
