"""Claims of processes to keys, so that one of several processes does a piece of work and the others
wait for its result.

A claim is a lock of the operating system on one byte of an open file, at a position that the key
determines: it leaves nothing behind in the directory, and it ends with the process that holds it,
even if that is killed. A child process does not inherit the claims of its parent.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from errno import EACCES, EAGAIN
from typing import Final

try:
    import fcntl
except ImportError:  # Windows: every process does all its work
    fcntl = None  # type: ignore[assignment]

__all__ = ["Claims"]

# Positions in a file are signed integers of 64 bits.
_DIGITS: Final = 15
_BITS_PER_DIGIT: Final = 4
# A process that is stopped, by a debugger for example, keeps its claims. Doing its work a second time
# costs less than waiting longer than this.
_MAX_WAIT_SECONDS: Final = 20.0
_SECONDS_BETWEEN_CHECKS: Final = 0.002


class Claims:
    """Claims by the file at `path`, which is created at the first claim.

    Two keys may have the same position, with a probability of 2**-60: their claims exclude each
    other, which costs time at most. Threads of one process share its claims.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        # Stays open: closing any descriptor of the file would release all locks of the process.
        self._descriptor: int | None = None

    def claim(self, key: str) -> bool:
        """Claim a key of at least 15 hexadecimal digits; False if another process has claimed it.

        Where files cannot be locked, every claim is granted.
        """
        if fcntl is None:
            return True
        try:
            file = self._open()
        except OSError:
            return True
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _get_position(key), os.SEEK_SET)
        except OSError as error:
            # POSIX allows both for a lock that another process holds.
            return error.errno not in (EAGAIN, EACCES)
        return True

    def release(self, key: str) -> None:
        """Release the claim of this process to a key."""
        if fcntl is not None and self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _get_position(key), os.SEEK_SET)

    def wait(self, key: str) -> bool:
        """Wait until no other process has a claim to a key; False if that takes 20 s."""
        end = time.monotonic() + _MAX_WAIT_SECONDS
        while not self.claim(key):
            if time.monotonic() >= end:
                return False
            time.sleep(_SECONDS_BETWEEN_CHECKS)
        self.release(key)
        return True

    def remove(self) -> None:
        """Remove the file and give back all claims. Later claims create it again; claims of other
        processes to the removed file do not exclude them.
        """
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _open(self) -> int:
        with self._lock:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            return self._descriptor


def _get_position(key: str) -> int:
    return int(key[:_DIGITS], 1 << _BITS_PER_DIGIT)
