"""Extension of mkdocstrings for svod's docstring sections: `Example` is parsed as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Module, Object

__all__ = ["DocstringSections"]

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class DocstringSections(Extension):
    """Rename the section `Example:` to `Examples:`, which the parser reads as code."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        self.on_object(obj=pkg)  # the loader calls `on_object` only for the members of a package

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)
