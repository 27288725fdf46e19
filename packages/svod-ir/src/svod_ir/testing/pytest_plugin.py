"""A pytest plugin for golden tests: the option `--bless` and the fixture `check_golden`.

Add it to the root `conftest.py`: `pytest_plugins = ["svod_ir.testing.pytest_plugin"]`.

Example:
    >>> from pathlib import Path
    >>> from svod_ir.derivatives import drop_marks
    >>> from svod_ir.testing import list_cases
    >>> from svod_ir.testing.pytest_plugin import CheckGolden, pytest, pytest_addoption
    >>> @pytest.mark.parametrize("case", list_cases(Path("golden")))
    ... def test_drop_marks(case, check_golden: CheckGolden):
    ...     check_golden(case, drop_marks)
    >>> parser = pytest.Parser(_ispytest=True)
    >>> pytest_addoption(parser)
    >>> parser.parse_known_args(["--bless"]).bless
    True
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svod_ir.testing.golden import GoldenCase, check_case
from svod_ir.uop import UOp

__all__ = ["CheckGolden", "check_golden", "pytest_addoption"]

CheckGolden = Callable[[GoldenCase, Callable[[UOp], UOp | str]], None]
"""The fixture's function: checks a pass against a golden case."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--bless`."""
    parser.addoption(
        "--bless", action="store_true", help="rewrite the expected parts of golden files"
    )


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> CheckGolden:
    """Function that checks (or blesses) one case: `check_golden(case, run)`."""
    is_blessing = bool(request.config.getoption("--bless", default=False))

    def check(case: GoldenCase, run: Callable[[UOp], UOp | str]) -> None:
        check_case(case, run, is_blessing=is_blessing)

    return check
