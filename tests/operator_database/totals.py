"""Pytest plugin that prints how many samples of PyTorch's operator database agree, after
the tests.
"""

from __future__ import annotations

from collections import defaultdict

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add the samples of all tests: `values` are those of float32 and of second dtypes."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "samples" and report.when == "call":
                    check, total, differing, unsupported = value
                    part = counts["gradients" if check == "gradients" else "values"]
                    amounts = (
                        total - differing,
                        total - unsupported,
                        unsupported,
                        differing == unsupported,
                        1,
                    )
                    for position, amount in enumerate(amounts):
                        part[position] += amount
    for check, (agreeing, supported, unsupported, complete, tests) in sorted(
        counts.items(), reverse=True
    ):
        terminalreporter.write_line(
            f"{check}: {agreeing} of {supported} samples agree, {unsupported} have unsupported"
            f" arguments; {complete} of {tests} pairs of an operator and a dtype agree in all"
            " supported samples"
        )
