"""Bounded key-value store on disk, shared by processes: objects, whole kernels, records of
measurements.

An entry is one file, written under a temporary name and renamed atomically, so that a reader never
sees a partial entry, even if the writer is killed.  It begins with the version of the format and a
digest of its kind, key and content: a truncated, corrupt or foreign file is a miss and is removed.
The directory and its files are accessible only to the user, since their contents are executed.  A
disk that cannot be read or written is no error: lookups miss, and a warning is issued once.

Example:
    >>> from svod_codegen.disk_store import get_disk_store, make_key
    >>> store = get_disk_store("notes")
    >>> store.put(make_key("a kernel", "a processor"), b"fast")
    >>> store.get(make_key("a kernel", "a processor")), store.get(make_key("a kernel", "another"))
    (b'fast', None)

    A store that its options turn off is empty:

    >>> from svod_codegen.disk_store import DiskStore
    >>> from svod_codegen.options import CodegenOptions
    >>> off = DiskStore.from_options(CodegenOptions(use_object_cache=False), kind="notes")
    >>> off.put(make_key("a kernel"), b"fast")
    >>> off.get(make_key("a kernel")) is None
    True

    Entries that turn out to be useless are removed, and so are all entries:

    >>> key = make_key("a kernel", "a processor")
    >>> store.get(key) is None, store.reject(key), store.get(key) is None
    (False, None, True)

    Of processes that need the same new entry, one claims it, and the others wait:

    >>> if store.claim(key):
    ...     store.put(key, b"slow")
    ...     store.release(key)
    >>> store.wait(key)
    True
    >>> store.get(key)
    b'slow'
    >>> store.remove(key)
    >>> store.clear()
    >>> store.counts().entries, store.counts().hits
    (0, 0)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from svod_codegen._claims import Claims
from svod_codegen.options import CodegenOptions
from svod_ir import CacheCounts, HitCounter, get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DiskStore", "get_disk_store", "make_key"]

_log: Final = get_logger("codegen")

_FORMAT_VERSION: Final = 2
_MAGIC: Final = b"svod-store" + bytes([_FORMAT_VERSION])
_DIGEST_BYTES: Final = 32
_HEADER_BYTES: Final = len(_MAGIC) + _DIGEST_BYTES
_SUFFIX: Final = ".svo"
_CLAIMS: Final = "claims"  # the file that is locked by claims; it has no content
_TEMPORARY_SUFFIX: Final = ".tmp"
_STALE_SECONDS: Final = 3600.0
_FOLDERS: Final = 256  # by the first two digits of the key, so that directories stay small
# Fraction of new data after which the size is checked; it is also checked at the first write.
_CHECK_EVERY_FRACTION: Final = 1 / 16
# A store that is fuller than the first fraction is evicted down to the second, so that eviction,
# which reads the status of every entry, is rare.
_FULL_FRACTION: Final = 7 / 8
_KEPT_FRACTION: Final = 3 / 4
_ATTEMPTS: Final = 3  # in case another process removes directories meanwhile


def make_key(*parts: str | bytes) -> str:
    """Make a key of a sequence of `parts`; different sequences have different keys."""
    digest = hashlib.sha256()
    for item in parts:
        data = item.encode() if isinstance(item, str) else item
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class DiskStore:
    """A bounded map from keys to bytes in a directory, for several threads and processes at once.

    `kind` is the name of a subdirectory, one for each kind of entry; a new kind needs only a name. A
    key is `make_key` of everything that the content depends on (for code: the graph, the compiler,
    the processor). Writing a key again replaces its content; of concurrent writers the last one
    wins. When the entries of the kind approach `max_bytes`, the least recently used ones are
    evicted, so any entry may be missing at any time. A store of 0 bytes is empty and does not access
    the disk.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from svod_codegen.disk_store import DiskStore, make_key
        >>> store = DiskStore(Path(tempfile.mkdtemp()) / "svod", kind="searches", max_bytes=1 << 20)
        >>> key = make_key("hash of a kernel", "compiler", "processor")
        >>> store.put(key, b'{"opts": "UPCAST 0 4", "elapsed_us": 12.5}')
        >>> store.get(key)
        b'{"opts": "UPCAST 0 4", "elapsed_us": 12.5}'
        >>> [content for _, content in store.iter_entries()] == [store.get(key)]
        True
        >>> store.counts().hits
        2
    """

    def __init__(self, root: Path, *, kind: str, max_bytes: int) -> None:
        self.directory = root / kind
        self.max_bytes = max_bytes
        self._root = root
        self._kind = kind
        self._counter = HitCounter()
        self._claims = Claims(f"{self.directory}/{_CLAIMS}")
        self._is_usable: bool | None = None if max_bytes else False  # None: not known yet
        self._is_writable = True
        self._unchecked_bytes = max_bytes  # so that the first write checks the size

    @staticmethod
    def from_options(options: CodegenOptions, *, kind: str) -> DiskStore:
        """Make the store that the options describe; of 0 bytes if they turn it off."""
        max_bytes = options.object_cache_max_bytes if options.use_object_cache else 0
        return DiskStore(options.cache_dir, kind=kind, max_bytes=max_bytes)

    def get(self, key: str) -> bytes | None:
        """Return the content stored under `key`; None if it is missing or damaged."""
        content = self._read(key)
        if content is not None:
            with contextlib.suppress(OSError):
                os.utime(self._path(key))  # the time of the last use, for eviction
        self._counter.record(is_hit=content is not None)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store `content` under `key`; a directory that cannot be written is reported by a warning,
        once.
        """
        if (
            not (self._prepare() and self._is_writable)
            or len(content) + _HEADER_BYTES > self.max_bytes
        ):
            return
        path = self._path(key)
        try:
            self._publish(path, b"".join((_MAGIC, self._digest(key, content), content)))
        except OSError as error:
            self._is_writable = False
            _warn(f"svod cannot write to its cache {self._root}: {error.strerror or error}")
            return
        self._unchecked_bytes += _HEADER_BYTES + len(content)
        if self._unchecked_bytes >= self.max_bytes * _CHECK_EVERY_FRACTION:
            self._unchecked_bytes = 0
            self._check_size(os.path.dirname(path))

    def claim(self, key: str) -> bool:
        """Claim the making of an entry for this process; False if another process is making it, or
        has stored it already.

        A claim is given back by `release`, and ends with the process. It keeps nobody from reading
        or writing the entry. A process that cannot lock files makes all its entries itself.
        """
        if not (self._prepare() and self._is_writable):
            return True
        if not self._claims.claim(key):
            return False
        # Another process may have made it after this one found it missing.
        if os.path.exists(self._path(key)):
            self._claims.release(key)
            return False
        return True

    def wait(self, key: str) -> bool:
        """Wait while another process is making an entry; False if it takes more than 20 s."""
        return not (self._prepare() and self._is_writable) or self._claims.wait(key)

    def release(self, key: str) -> None:
        """Release a claim of this process, for all its threads."""
        self._claims.release(key)

    def reject(self, key: str) -> None:
        """Remove an entry that `get` just returned and that turned out to be unusable; its hit is
        counted as a miss.
        """
        self._counter.withdraw_hit()
        self.remove(key)

    def remove(self, key: str) -> None:
        """Remove an entry, if there is one."""
        _remove(self._path(key))

    def iter_entries(self) -> Iterator[tuple[str, bytes]]:
        """Yield each key with its content, in arbitrary order; entries that are added or removed
        meanwhile may be missed.
        """
        if self._prepare():
            for file in self._iter_files():
                key, suffix = os.path.splitext(file.name)
                content = self._read(key) if suffix == _SUFFIX else None
                if content is not None:
                    yield key, content

    def counts(self) -> CacheCounts:
        """Return the present size of the store, and the hits and misses of this process."""
        sizes: list[int] = []
        for file in self._iter_files():
            with contextlib.suppress(OSError):
                sizes.append(file.stat().st_size)
        return CacheCounts(
            len(sizes),
            self._counter.hits,
            self._counter.misses,
            n_bytes=sum(sizes),
            max_bytes=self.max_bytes,
        )

    def clear(self, *, disk: bool = True) -> None:
        """Forget the counts and, unless `disk` is False, remove every entry."""
        self._counter.reset()
        if disk:
            for file in self._iter_files():
                _remove(file.path)
            if self._is_usable is not False:
                self._claims.remove()

    def _path(self, key: str) -> str:
        return f"{self.directory}/{key[:2]}/{key}{_SUFFIX}"

    def _read(self, key: str) -> bytes | None:
        if not self._prepare():
            return None
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read() if _is_trusted(os.fstat(file.fileno()), self.max_bytes) else b""
        except OSError:
            return None
        content = data[_HEADER_BYTES:]
        if data.startswith(_MAGIC) and data[len(_MAGIC) : _HEADER_BYTES] == self._digest(
            key, content
        ):
            return content
        _remove(path)
        return None

    def _digest(self, key: str, content: bytes) -> bytes:
        """Digest kind, key and content, so that an entry that was moved to another key is invalid."""
        digest = hashlib.sha256(f"{self._kind}\0{key}\0".encode())
        digest.update(content)
        return digest.digest()

    def _prepare(self) -> bool:
        """Create the directory at first use, and check that no other user can write to it."""
        if self._is_usable is None:
            try:
                self._make_directory()
                problem = _find_ownership_problem(self._root) or _find_ownership_problem(
                    self.directory
                )
                if problem is not None:
                    _warn(f"svod does not use its cache {self._root}: {problem}")
            except OSError as error:
                problem = error.strerror or str(error)
                _warn(f"svod cannot write to its cache {self._root}: {problem}")
            self._is_usable = problem is None
        return self._is_usable

    def _make_directory(self, folder: str | None = None) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the root is gone again: writing will tell
            self.directory.mkdir(mode=0o700, exist_ok=True)
            if folder is not None:
                os.makedirs(folder, mode=0o700, exist_ok=True)

    def _publish(self, path: str, data: bytes) -> None:
        """Write an entry atomically."""
        for _ in range(_ATTEMPTS):
            try:
                _write_atomically(path, data)
            except FileNotFoundError:
                # The first entry of its subdirectory, or another process removed the directory.
                self._make_directory(os.path.dirname(path))
            else:
                return
        _write_atomically(path, data)

    def _iter_files(self) -> Iterator[os.DirEntry[str]]:
        """Yield entries and temporary files, and no other files of the directory."""
        if self._is_usable is not False:
            for folder in _list_directory(str(self.directory)):
                if len(folder.name) == 2:
                    yield from _list_files(folder.path)

    def _check_size(self, folder: str) -> None:
        """Evict if one subdirectory is so full that the whole store must be too full; keys are hashes,
        so one subdirectory is a sample.
        """
        size = sum(entry.size_bytes for entry in _list_entries(_list_files(folder)))
        if size * _FOLDERS > self.max_bytes * _FULL_FRACTION:
            self._evict()

    def _evict(self) -> None:
        """Remove the least recently used entries, if the store is full.

        Processes that evict at the same time agree on the oldest entries, so they do not evict more
        together."""
        entries = sorted(_list_entries(self._iter_files()))
        total = sum(entry.size_bytes for entry in entries)
        if total > self.max_bytes * _FULL_FRACTION:
            for entry in entries:
                if total <= self.max_bytes * _KEPT_FRACTION:
                    break
                _remove(entry.path)
                total -= entry.size_bytes


class _Entry(NamedTuple):
    used_at: float
    size_bytes: int
    path: str


@cache
def get_disk_store(kind: str) -> DiskStore:
    """Return the process's store of a kind, in the folder of this name in the disk cache
    (`SVOD_CACHE_DIR`). The store is empty if `SVOD_OBJECT_CACHE` turns it off.
    """
    return DiskStore.from_options(CodegenOptions.from_env(), kind=kind)


def _write_atomically(path: str, data: bytes) -> None:
    folder, name = os.path.split(path)
    # Random, since process ids may be equal in two containers that share the directory.
    temporary = f"{folder}/.{name}.{os.urandom(8).hex()}{_TEMPORARY_SUFFIX}"
    with open(temporary, "xb", opener=_open_private) as file:
        try:
            file.write(data)
            file.close()  # may fail with a delayed write error
            # Not synced to the disk: after a power failure the digest reveals a torn file.
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@cache
def _warn(problem: str) -> None:
    """Issue a warning, once per process even if several stores have the problem.

    Under `-W error` the problem is logged instead: the results are right without a cache, so its
    state must not make a program fail.
    """
    try:
        warnings.warn(problem, RuntimeWarning, stacklevel=5)
    except RuntimeWarning:
        _log.warning("cache.failed", problem=problem)


def _list_files(folder: str) -> list[os.DirEntry[str]]:
    return [
        file for file in _list_directory(folder) if file.name.endswith((_SUFFIX, _TEMPORARY_SUFFIX))
    ]


def _list_entries(files: Iterable[os.DirEntry[str]]) -> list[_Entry]:
    """List the entries of `files`, and remove temporary files of killed writers."""
    entries: list[_Entry] = []
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            entries.append(_Entry(status.st_mtime, status.st_size, file.path))
    # The newest entry instead of this machine's clock: the file system may be remote.
    now = max((entry.used_at for entry in entries), default=0.0)
    for entry in entries:
        if entry.path.endswith(_TEMPORARY_SUFFIX) and now - entry.used_at > _STALE_SECONDS:
            _remove(entry.path)
    return [entry for entry in entries if entry.path.endswith(_SUFFIX)]


def _list_directory(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _is_trusted(status: os.stat_result, max_bytes: int) -> bool:
    """Whether an open file can be an entry: no other user can have written it, and it fits into the
    store.
    """
    return _find_writers(status) is None and status.st_size <= max_bytes


def _find_ownership_problem(directory: Path) -> str | None:
    """Find the reason why code from this directory must not be trusted; None if it can be."""
    status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{directory} is not a directory"
    writers = _find_writers(status)
    return writers and f"{directory} {writers} (it must be yours, with mode 700)"


def _find_writers(status: os.stat_result) -> str | None:
    """Find who else may write to a file; None if only the user may."""
    if not hasattr(os, "geteuid"):
        return None  # Windows: the user's local application data is private already
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written by other users" if status.st_mode & 0o022 else None
