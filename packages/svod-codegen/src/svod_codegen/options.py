"""What the environment may say about compiling and launching: the only reader of the environment in svod-codegen."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svod_codegen.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CodegenOptions", "count_usable_cores"]

_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CodegenOptions:
    """How svod-codegen compiles, caches and launches; a field given by the caller wins over the environment.

    `threads` (SVOD_THREADS) bounds the threads that run kernels and that compile them.
    `cache_dir` (SVOD_CACHE_DIR) holds the object cache, `use_object_cache` (SVOD_OBJECT_CACHE)
    turns it off, `object_cache_max_bytes` (SVOD_OBJECT_CACHE_MAX_BYTES) bounds its size.
    """

    threads: int = field(default_factory=lambda: count_usable_cores())
    cache_dir: Path = field(default_factory=lambda: _default_cache_dir(os.environ))
    use_object_cache: bool = True
    object_cache_max_bytes: int = _GIB

    @staticmethod
    def from_env(environment: Mapping[str, str] | None = None) -> CodegenOptions:
        """Read the options.

        Raises:
            OptionError: A variable that is set to something it cannot mean.
        """
        env = os.environ if environment is None else environment
        directory = env.get("SVOD_CACHE_DIR", "")
        return CodegenOptions(
            threads=_positive(env, "SVOD_THREADS", count_usable_cores()),
            cache_dir=Path(directory).expanduser() if directory else _default_cache_dir(env),
            use_object_cache=_switch(env, "SVOD_OBJECT_CACHE", default=True),
            object_cache_max_bytes=_positive(env, "SVOD_OBJECT_CACHE_MAX_BYTES", _GIB),
        )


def count_usable_cores() -> int:
    """How many cores this process may run on: its affinity mask, not the machine's size."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _default_cache_dir(env: Mapping[str, str]) -> Path:
    """The user's cache directory of this platform."""
    if sys.platform == "win32":
        base = env.get("LOCALAPPDATA", "")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "svod" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "svod"
    base = env.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path is invalid and must be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "svod"


def _positive(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise OptionError(name=name, given=text, expected="a positive integer")
    return int(text)


def _switch(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name, "").strip().lower()
    if not text:
        return default
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise OptionError(name=name, given=text, expected="0 or 1")
