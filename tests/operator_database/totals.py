"""Pytest plugin that prints how many samples of PyTorch's operator database agree, after the tests."""

from __future__ import annotations

from collections import defaultdict

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add the samples of all tests: `values` are those of float32 and of second dtypes."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "samples" and report.when == "call":
                    check, total, differing = value
                    part = counts["gradients" if check == "gradients" else "values"]
                    for position, amount in enumerate((total - differing, total, not differing, 1)):
                        part[position] += amount
    for check, (agreeing, total, whole, tests) in sorted(counts.items(), reverse=True):
        terminalreporter.write_line(
            f"{check}: {agreeing} of {total} samples agree; {whole} of {tests} pairs of an operator and a dtype in all samples"
        )
