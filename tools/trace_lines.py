"""Notes which test runs which line of some files, in every process: loaded at the start by
`mutate.py`'s environment.

The variable `MUTATE_TRACE` names the file to which the lines are appended, then the files to look
at, one on each line. (This is loaded before pytest: PYTEST_DONT_REWRITE.)"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

__all__: list[str] = []

_log, *_files = os.environ.get("MUTATE_TRACE", "").split("\n")
_wanted = frozenset(_files)
_seen: set[tuple[str, str, int]] = set()
# A process that a test starts finds its name here.
_test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


def pytest_runtest_logstart(nodeid: str) -> None:
    """What runs from now on runs for this test."""
    global _test
    _test = nodeid


def pytest_runtest_logfinish() -> None:
    """What runs between tests runs for all of them."""
    global _test
    _test = ""


def pytest_runtest_logreport(report: Any) -> None:
    """Note how long a test took, and whether it passed."""
    _write(["test", report.nodeid, report.duration, not report.failed])


def _trace_calls(frame: FrameType, _event: str, _value: object) -> Any:
    return _trace_lines if frame.f_code.co_filename in _wanted else None


def _trace_lines(frame: FrameType, _event: str, _value: object) -> Any:
    entry = (_test, frame.f_code.co_filename, frame.f_lineno)
    if entry not in _seen:
        # A test may let no file grow, or no file be opened: an exception from here would end all
        # tracing.
        with suppress(OSError):
            _write(["line", *entry])
            _seen.add(entry)
    return _trace_lines


def _write(entry: list[object]) -> None:
    # One call, to a file that is opened for appending: processes do not mix their lines, and one
    # that is killed loses none.
    descriptor = os.open(_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{json.dumps(entry)}\n".encode())
    os.close(descriptor)


if _wanted:
    threading.settrace(_trace_calls)
    sys.settrace(_trace_calls)
