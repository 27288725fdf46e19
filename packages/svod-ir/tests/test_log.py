"""Loggers: silent by default; structlog is imported only if events are written."""

from __future__ import annotations

import json
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


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_an_unconfigured_process_stays_silent_and_imports_no_structlog() -> None:
    program = (
        "import sys, svod_ir; log = svod_ir.get_logger('x'); log.debug('a', b=1); log.info('c')\n"
        "assert 'structlog' not in sys.modules and 'numpy' not in sys.modules\n"
        "log.warning('d', e=2)"
    )
    done = run_program(program)
    assert (done.stdout, done.stderr) == ("", "")


def run_and_read_json(program: str) -> list[dict[str, object]]:
    """Run a program whose log, on its standard output, has one JSON object per line."""
    done = run_program(program)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_applications_structlog_configuration_gets_fields_as_keys() -> None:
    program = (
        "import logging, structlog\n"
        "from svod_ir import get_logger\n"
        "log = get_logger('tensor')\n"
        "log.warning('early')\n"  # before the application has configured structlog
        "logging.getLogger('svod').setLevel('INFO')\n"
        "structlog.configure(processors=[structlog.contextvars.merge_contextvars,\n"
        "    structlog.processors.add_log_level, structlog.processors.JSONRenderer()])\n"
        "structlog.contextvars.bind_contextvars(request=7)\n"
        "log.info('realize.done', kernels=3)\n"
        "log.debug('hidden')"
    )
    assert run_and_read_json(program) == [
        {"request": 7, "kernels": 3, "event": "realize.done", "level": "info"}
    ]


def test_a_structlog_that_goes_through_the_stdlib_gets_fields_as_keys() -> None:
    program = (
        "import logging, sys, structlog\n"
        "from svod_ir import get_logger\n"
        "shared = [structlog.stdlib.add_logger_name, structlog.stdlib.add_log_level]\n"
        "structlog.configure(\n"
        "    processors=[structlog.stdlib.filter_by_level, *shared,\n"
        "        structlog.stdlib.ProcessorFormatter.wrap_for_formatter],\n"
        "    logger_factory=structlog.stdlib.LoggerFactory())\n"
        "handler = logging.StreamHandler(sys.stdout)\n"
        "handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared,\n"
        "    processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta,\n"
        "        structlog.processors.JSONRenderer()]))\n"
        "logging.getLogger().addHandler(handler)\n"
        "logging.getLogger('svod').setLevel('INFO')\n"
        "get_logger('tensor').info('realize.done', kernels=3)\n"
    )
    assert run_and_read_json(program) == [
        {"kernels": 3, "event": "realize.done", "logger": "svod.tensor", "level": "info"}
    ]
