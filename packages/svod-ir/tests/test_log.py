"""Loggers: silent by default; structlog is imported only if events are written."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from svod_ir import get_logger


def test_events_carry_their_data(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="svod"):
        get_logger("schedule").debug("kernelize.done", n_kernels=3, rate="100%")
    (record,) = caplog.records
    assert record.name == "svod.schedule"
    assert record.getMessage() == "kernelize.done n_kernels=3 rate=100%"
    assert record.__dict__["svod_data"] == {"n_kernels": 3, "rate": "100%"}
    assert record.__dict__["svod_event"] == "kernelize.done"


def test_levels_are_those_of_the_stdlib_logger(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("tensor")
    with caplog.at_level(logging.INFO, logger="svod"):
        log.debug("hidden")
        log.info("shown")
        log.warning("loud", why="test")
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "shown"),
        ("WARNING", "loud why=test"),
    ]


def test_a_name_below_svod_is_taken_as_it_is() -> None:
    assert get_logger("svod.tensor") is get_logger("svod.tensor")


def test_an_unconfigured_process_stays_silent_and_imports_no_structlog() -> None:
    program = (
        "import sys, svod_ir; log = svod_ir.get_logger('x'); log.debug('a', b=1); log.info('c')\n"
        "assert 'structlog' not in sys.modules and 'numpy' not in sys.modules\n"
        "log.warning('d', e=2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
