"""Detection of the system's C compiler: its command, version, flags and target features."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from svod_codegen.errors import NoCompilerError
from svod_dtype import float16
from svod_ir import Target
from svod_ir.target import COMMON_DTYPES

__all__ = ["REQUIRED_FLAGS", "Toolchain", "get_toolchain", "make_c_target"]

REQUIRED_FLAGS: Final = ("-fno-strict-aliasing",)
"""Flags of gcc and clang that the code of a `CRenderer` requires: views of one storage may have
several dtypes.
"""

_NAMES: Final = ("cc", "gcc", "clang")
_NATIVE: Final = ("-march=native", "-mcpu=native")
"""Flags that select the host's instructions; on some processors, some compilers accept only the
second.
"""

_FLAGS: Final = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-w",
    # No -ffast-math, or any part of it that changes results. Kernels do not use errno or the
    # floating-point flags.
    "-fno-math-errno",
    "-fno-trapping-math",
    *REQUIRED_FLAGS,
    # Kernels are neither unwound nor linked by a program that would check these.
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-ident",
)
_GCC_FLAGS: Final = ("-fexcess-precision=16", "-mprefer-vector-width=512")
"""Round half after each operation, and keep the width of the vectors in the source."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler with the flags for this machine.

    `identity` identifies compiler, version, flags and processor: objects of equal identities are
    interchangeable."""

    command: tuple[str, ...]
    version: str
    identity: str
    has_half: bool

    def __str__(self) -> str:
        return f"{self.command[0]} ({self.version})"


def get_toolchain(wanted: str | None, *, contracts: bool = True) -> Toolchain:
    """Find the compiler of the command line `wanted`, or the first one on PATH.

    Raises:
        NoCompilerError: if no working compiler is found.
    """
    tried: list[str] = []
    for words in [shlex.split(wanted)] if wanted else [[name] for name in _NAMES]:
        path = shutil.which(words[0]) if words else None
        if path is None:
            tried.append(f"{words[0] if words else wanted}: not found on PATH={os.get_exec_path()}")
            continue
        try:
            return _identify((path, *words[1:]), contracts=contracts)
        except _DoesNotWorkError as error:
            tried.append(f"{path}: {error}")
    raise NoCompilerError(wanted=wanted, tried=tried)


def make_c_target(host: Target, toolchain: Toolchain) -> Target:
    """Restrict the host target to the features of C code: vectors, but no masked access, gathers or
    matrix instructions.
    """
    dtypes = host.native_dtypes if toolchain.has_half else host.native_dtypes - {float16}
    assert dtypes >= COMMON_DTYPES
    return replace(
        host,
        has_masked_access=False,
        has_gather=False,
        native_dtypes=dtypes,
        tensor_cores=(),
        shared_ops=frozenset(),
    )


class _DoesNotWorkError(Exception):
    """Reason for not using a compiler."""


@cache
def _identify(command: tuple[str, ...], *, contracts: bool) -> Toolchain:
    """Identify a compiler by its predefined macros, which include its version and the processor's
    instruction sets.
    """
    problem = ""
    for native in _NATIVE:
        flags = [*_FLAGS, f"-ffp-contract={'fast' if contracts else 'off'}", native]
        try:
            macros = _preprocess((*command, *flags, "-dM"))
        except _DoesNotWorkError as error:
            problem = problem or str(error)
            continue
        names = dict(_iter_macros(macros))
        # Each flag is tested, since a flag of one compiler may be an error for another.
        flags += [flag for flag in _GCC_FLAGS if _takes((*command, *flags, flag))]
        full = (*command, *flags)
        version = names.get("__VERSION__", "unknown version").strip('"')
        digest = hashlib.sha256("\0".join((*full, *sorted(macros))).encode()).hexdigest()
        return Toolchain(
            full, version, f"{command[0]} {version} {digest[:16]}", "__FLT16_MANT_DIG__" in names
        )
    raise _DoesNotWorkError(problem)


def _iter_macros(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        _, name, *value = line.split(None, 2)
        yield name, value[0] if value else ""


def _takes(command: tuple[str, ...]) -> bool:
    try:
        _preprocess((*command, "-Werror"))
    except _DoesNotWorkError:
        return False
    return True


def _preprocess(command: tuple[str, ...]) -> list[str]:
    try:
        finished = subprocess.run(
            [*command, "-E", "-x", "c", "-"],
            input="",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _DoesNotWorkError(str(error)) from None
    if finished.returncode != 0:
        raise _DoesNotWorkError(
            finished.stderr.strip().splitlines()[0]
            if finished.stderr.strip()
            else "it fails without a message"
        )
    return [line for line in finished.stdout.splitlines() if line.startswith("#define ")]
