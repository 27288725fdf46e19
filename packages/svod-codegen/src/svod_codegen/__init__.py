"""Code generation of svod: renderers, in-process compilation, the cache of objects, and the native
launcher.

The CPU backend registers by entry point; `svod_codegen.backend` makes it. llvmlite is imported only
when a kernel has to be compiled.

Example:
    >>> from svod_codegen import CodegenOptions, count_usable_cores
    >>> CodegenOptions.from_env({"SVOD_THREADS": "2"}).threads
    2
    >>> CodegenOptions.from_env({}).threads == count_usable_cores()
    True
"""

from __future__ import annotations

from svod_codegen._cores import count_usable_cores
from svod_codegen.errors import CompileError, LoadError, MissingSymbolError, RenderError
from svod_codegen.options import CodegenOptions

__all__ = [
    "CodegenOptions",
    "CompileError",
    "LoadError",
    "MissingSymbolError",
    "RenderError",
    "count_usable_cores",
]
