"""Bytes on disk under a content hash: compiled objects and prepared kernels, shared by processes.

An entry is one file, written under a temporary name and renamed, so that a reader sees all of it
or nothing, whoever writes or dies meanwhile.  It carries a digest of its content: a truncated,
corrupt or foreign file is a miss and is removed.  The directory belongs to the user alone, since
what is read from it is executed.  A cache that cannot be read or written is no error: it misses.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svod_codegen.options import CodegenOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ObjectCache", "make_key"]

_MAGIC: Final = b"svod-object\x01"
_DIGEST_BYTES: Final = 32
_HEADER_BYTES: Final = len(_MAGIC) + _DIGEST_BYTES
_SUFFIX: Final = ".svo"
_TEMPORARY_SUFFIX: Final = ".tmp"
_STALE_SECONDS: Final = 3600.0
# Looking at every entry's size takes a while, so it is done once for this much of new data (and
# once at the first write of a process).
_EVICT_EVERY_FRACTION: Final = 16


def make_key(*parts: str | bytes) -> str:
    """A key for the sequence of `parts`; different sequences give different keys."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class ObjectCache:
    """A bounded map key -> bytes in a directory, safe to use from several threads and processes.

    `kind` names a subdirectory, one for each sort of entry. Keys come from `make_key`. When the
    kind's entries exceed `max_bytes`, those that were not used for longest are removed.
    """

    def __init__(self, directory: Path, *, kind: str, max_bytes: int) -> None:
        self.directory = directory / kind
        self._root = directory
        self.max_bytes = max_bytes
        self._is_usable: bool | None = None  # not known yet
        self._is_writable = True
        self._unchecked_bytes = max_bytes  # so that the first write looks at the size

    @staticmethod
    def from_options(options: CodegenOptions, *, kind: str) -> ObjectCache | None:
        """The cache that the options ask for, `None` where they turn it off."""
        if not options.use_object_cache:
            return None
        return ObjectCache(options.cache_dir, kind=kind, max_bytes=options.object_cache_max_bytes)

    def get(self, key: str) -> bytes | None:
        """The bytes put under `key`, `None` where there are none or they are damaged."""
        if not self._prepare():
            return None
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = file.read()
        except OSError:
            return None
        content = _unpack(data, key)
        if content is None:
            _remove(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of the last use, for eviction
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep `content` under `key`; a directory that cannot be written is reported once, as a warning."""
        if not (self._prepare() and self._is_writable):
            return
        path = self._path(key)
        data = _pack(content, key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _publish(path, data)
        except OSError as error:
            self._is_writable = False
            _warn(f"stores nothing: cannot write {path.parent}: {error.strerror or error}")
            return
        self._unchecked_bytes += len(data)
        if self._unchecked_bytes >= self.max_bytes // _EVICT_EVERY_FRACTION:
            self._unchecked_bytes = 0
            self._evict()

    def clear(self) -> None:
        """Remove every entry."""
        for path in self._iter_files():
            _remove(path)

    def sizes(self) -> list[int]:
        """The bytes of each entry."""
        found: list[int] = []
        for path in self._iter_files():
            with contextlib.suppress(OSError):
                found.append(path.stat().st_size)
        return found

    def _path(self, key: str) -> Path:
        # 256 subdirectories keep each of them short.
        return self.directory / key[:2] / f"{key}{_SUFFIX}"

    def _prepare(self) -> bool:
        """Make the directory at first use, and see that nobody else can write into it."""
        if self._is_usable is None:
            problem = self._find_problem()
            self._is_usable = problem is None
            if problem is not None:
                _warn(f"is off: {problem}")
        return self._is_usable

    def _find_problem(self) -> str | None:
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            return _find_ownership_problem(self._root) or _find_ownership_problem(self.directory)
        except OSError as error:
            return f"cannot use {self.directory}: {error.strerror or error}"

    def _iter_files(self) -> Iterable[Path]:
        return self.directory.glob("*/*")

    def _evict(self) -> None:
        """Remove what was not used for longest until the rest fits, and temporary files of killed writers."""
        entries: list[tuple[float, int, Path]] = []
        for path in self._iter_files():
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        newest = max((time for time, _, _ in entries), default=0.0)
        stale = {path for time, _, path in entries if path.suffix != _SUFFIX and newest - time > _STALE_SECONDS}
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if path in stale or (total > self.max_bytes and path.suffix == _SUFFIX):
                _remove(path)
                total -= size


def _pack(content: bytes, key: str) -> bytes:
    return _MAGIC + _digest(content, key) + content


def _unpack(data: bytes, key: str) -> bytes | None:
    content = data[_HEADER_BYTES:]
    is_whole = data.startswith(_MAGIC) and data[len(_MAGIC) : _HEADER_BYTES] == _digest(content, key)
    return content if is_whole else None


def _digest(content: bytes, key: str) -> bytes:
    """Of content and key, so that an entry that was renamed to another key is damaged too."""
    return hashlib.sha256(key.encode() + b"\0" + content).digest()


_write_numbers = itertools.count()


def _publish(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    # Unique among the writers that live; what a dead one left under this name is overwritten.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.{next(_write_numbers)}{_TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "wb", opener=_open_private) as file:
            file.write(data)
        # Not synced to the disk: after a power cut the digest tells a torn file.
        temporary.replace(path)
    except BaseException:
        _remove(temporary)
        raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _warn(problem: str) -> None:
    # Shown where the caller of put() or get() is; the levels between are ours.
    warnings.warn(f"svod's object cache {problem}", RuntimeWarning, stacklevel=4)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _find_ownership_problem(directory: Path) -> str | None:
    """Why code from this directory must not be trusted."""
    status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{directory} is no directory"
    if not hasattr(os, "getuid"):
        return None  # Windows: the user's local application data is private already
    if status.st_uid != os.getuid():
        return f"{directory} belongs to another user"
    if status.st_mode & 0o022:
        return f"{directory} can be written by other users (chmod 700 {directory})"
    return None
