"""Records of searches, in the process and on disk: the next search uses a result, or resumes.

A record belongs to one kernel, target, compiler and configuration, and is updated during the
search, so a killed process leaves its partial results. If the disk is disabled or not writable, the
process still searches each kernel only once."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from cachetools import FIFOCache

from svod_codegen.disk_store import make_key
from svod_ir import Opt, ParseError, format_opts, parse_opts
from svod_ir.forks import hold_across_fork
from svod_schedule.optimize.result import SearchResult, find_result
from svod_tensor.tuning.tuned import get_store, name_kernel

if TYPE_CHECKING:
    from svod_device import Device
    from svod_schedule import OptimizerConfig

__all__ = ["Record", "clear", "find_record", "make_record_key", "reject_record", "store_record"]

_MAX_KNOWN: Final = 4096


@dataclass(frozen=True, slots=True)
class Record:
    """Progress of the search for one kernel.

    Attributes:
        opts: the verified opts to use; None while the search is unfinished.
        result: the search's result, or an intermediate state.
        spent_seconds: the total search time, over all processes.
    """

    name: str
    result: SearchResult
    spent_seconds: float
    opts: tuple[Opt, ...] | None = None

    def to_text(self) -> str:
        """JSON text of the record."""
        opts = None if self.opts is None else format_opts(self.opts)
        return json.dumps(
            {
                "name": self.name,
                "opts": opts,
                "spent": self.spent_seconds,
                "result": self.result.to_text(),
            }
        )

    @staticmethod
    def from_text(text: str) -> Record | None:
        """The record that `to_text` wrote; None for any other text."""
        try:
            data = cast("dict[str, object]", json.loads(text))
            result = find_result(str(data["result"]))
            opts = None if data["opts"] is None else parse_opts(str(data["opts"]))
            return result and Record(
                str(data["name"]), result, float(cast("float", data["spent"])), opts
            )
        # Another version of svod may have written it: the kernel is searched again.
        except (ValueError, KeyError, TypeError, ParseError):
            return None


def make_record_key(ast_hash: str, device: Device, config: OptimizerConfig) -> str:
    """Key of the search for a kernel. The kernel's name and the device's index are not part of it."""
    return make_key("record", *name_kernel(ast_hash, device), config.fingerprint)


class _Records:
    """Records of this process, backed by the records on disk that all processes share."""

    def __init__(self) -> None:
        self._known: FIFOCache[str, Record] = FIFOCache(_MAX_KNOWN)
        self._lock = hold_across_fork(threading.RLock())

    def find(self, key: str) -> Record | None:
        """The record of a search: the finished one, or the one with the longest search time, here
        or on disk.
        """
        with self._lock:
            known = self._known.get(key)
        # A finished record does not change, so the disk is not read.
        if known is not None and known.opts is not None:
            return known
        stored = _read(key)
        # Another process may have searched longer, or finished.
        if known is None or stored is None:
            return stored or known
        return (
            stored
            if stored.opts is not None or stored.spent_seconds > known.spent_seconds
            else known
        )

    def store(self, key: str, record: Record) -> None:
        """Store the progress of a search."""
        with self._lock:
            self._known[key] = record
        # Without the lock: another thread's look-ups do not wait for the disk.
        get_store().put(key, record.to_text().encode())

    def reject(self, key: str) -> None:
        """Remove a record whose opts do not apply any more."""
        with self._lock:
            self._known.pop(key, None)
        get_store().remove(key)

    def clear(self) -> None:
        """Remove the records of this process, not the disk's."""
        with self._lock:
            self._known.clear()


def _read(key: str) -> Record | None:
    data = get_store().get(key)
    record = None if data is None else Record.from_text(data.decode(errors="replace"))
    # So that it is not read and parsed again.
    if data is not None and record is None:
        get_store().reject(key)
    return record


_records: Final = _Records()

find_record = _records.find
store_record = _records.store
reject_record = _records.reject
clear = _records.clear
