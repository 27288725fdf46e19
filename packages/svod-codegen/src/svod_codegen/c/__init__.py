"""Rendering to C: a base class for the languages of device plugins, and C for gcc and clang."""

from __future__ import annotations

from svod_codegen.c.gnu import GnuCRenderer
from svod_codegen.c.renderer import Buffer, CRenderer, Variable

__all__ = ["Buffer", "CRenderer", "GnuCRenderer", "Variable"]
