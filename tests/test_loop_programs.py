"""Random programs with loops agree with Python loops over numpy, in each mode."""

from __future__ import annotations

import pytest

from svod_ir.testing import count_examples
from svod_testing.programs import run_programs

LANGUAGE = "svod_testing.loop_programs"
N_PARTS = 4
N_PROGRAMS = count_examples(200)


@pytest.mark.parametrize("part", range(N_PARTS))
def test_random_programs_agree_with_pythons_loops_over_numpy(part: int):
    n = N_PROGRAMS // N_PARTS
    report = run_programs(range(part * n, (part + 1) * n), n_drawn=1, language=LANGUAGE)
    assert report.n_programs == n
    assert not report.found, "\n\n".join(
        f"{f.kind}: python -m {LANGUAGE} --programs 1 --seed {f.seed} --modes"
        f" '{f.mode}'\n{f.program}\n{f.message}"
        for f in report.found.values()
    )
