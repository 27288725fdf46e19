"""Rendering to C: a base class for the languages of device plugins, and C for gcc and clang."""

from __future__ import annotations

from svod_codegen._float_bits import storage_bits
from svod_codegen.c.gnu import GnuCRenderer
from svod_codegen.c.language import Buffer, Variable
from svod_codegen.c.renderer import CRenderer
from svod_codegen.c.toolchain import REQUIRED_FLAGS

__all__ = ["REQUIRED_FLAGS", "Buffer", "CRenderer", "GnuCRenderer", "Variable", "storage_bits"]
