"""Options of compiling and launching; only this module of svod-codegen reads the environment."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svod_codegen._cores import count_usable_cores
from svod_ir import OptionError
from svod_ir.environment import read_integer, read_switch

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CodegenOptions"]

_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CodegenOptions:
    """Options of compilation, caching and launching; arguments take precedence over the environment.

    Attributes:
        threads: number of threads that run and compile kernels (`SVOD_THREADS`, all usable cores).
        cache_dir: directory of the disk cache (`SVOD_CACHE_DIR`, a folder in the user's cache
            directory).
        use_object_cache: whether to use the disk cache, for compiled objects and other entries
            (`SVOD_OBJECT_CACHE`).
        use_kernel_store: whether the disk cache also stores whole kernels, and graphs cut into
            kernels (`SVOD_KERNEL_STORE`; requires the object cache).
        cc: command line of the C compiler of the backend `CPU.c` (`SVOD_CC`; the first of cc, gcc
            and clang on PATH).
        contracts: whether a product and a sum may be contracted to an fma, which is rounded once
            (`SVOD_CONTRACT`). Otherwise both are rounded, as in IEEE 754 and numpy, and matrix
            products take about 1.3 times as long (`benchmarks/run.py matmul1024`).
        object_cache_max_bytes: maximum size of each kind of entry of the disk cache
            (`SVOD_OBJECT_CACHE_MAX_BYTES`, 1 GiB).
    """

    threads: int = field(default_factory=count_usable_cores)
    cache_dir: Path = field(default_factory=lambda: _default_cache_dir(os.environ))
    use_object_cache: bool = True
    use_kernel_store: bool = True
    object_cache_max_bytes: int = _GIB
    cc: str | None = None
    # On, since it doubles the speed of matrix products, and one rounding less is no less accurate.
    contracts: bool = True

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> CodegenOptions:
        """Read the options from environment variables; unset variables give the defaults.

        Args:
            environment: variables by name; by default `os.environ`.

        Raises:
            OptionError: if a variable has an invalid value.
        """
        env = os.environ if environment is None else environment
        return CodegenOptions(
            threads=read_integer(env, "SVOD_THREADS", count_usable_cores(), minimum=1),
            cache_dir=_read_cache_dir(env),
            use_object_cache=read_switch(env, "SVOD_OBJECT_CACHE", default=True),
            use_kernel_store=read_switch(env, "SVOD_KERNEL_STORE", default=True),
            object_cache_max_bytes=read_integer(
                env, "SVOD_OBJECT_CACHE_MAX_BYTES", _GIB, minimum=1
            ),
            cc=env.get("SVOD_CC", "").strip() or None,
            contracts=read_switch(env, "SVOD_CONTRACT", default=True),
        )


def _read_cache_dir(env: Mapping[str, str]) -> Path:
    directory = env.get("SVOD_CACHE_DIR", "")
    if not directory:
        return _default_cache_dir(env)
    try:
        # Absolute, so that the process may change its working directory.
        return Path(directory).expanduser().absolute()
    except RuntimeError as error:
        raise OptionError(
            variable="SVOD_CACHE_DIR",
            value=directory,
            expected="a directory (there is no such home)",
        ) from error


def _default_cache_dir(env: Mapping[str, str]) -> Path:
    """Return the user's cache directory of this platform."""
    # The XDG specification says that a relative path is invalid and must be ignored.
    base = env.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if sys.platform != "darwin" and os.path.isabs(base):
        return Path(base) / "svod"
    try:
        home = Path.home()
    except RuntimeError:  # the user has no passwd entry, as in some containers
        import tempfile

        return (
            Path(tempfile.gettempdir()) / f"svod-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        )
    folders = {"win32": ("AppData", "Local"), "darwin": ("Library", "Caches")}
    return home.joinpath(*folders.get(sys.platform, (".cache",)), "svod")
