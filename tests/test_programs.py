"""Random programs over all operations agree with numpy, computed together and in one random mode
each.
"""

from __future__ import annotations

import pytest

from svod_ir.testing import count_examples
from svod_testing.programs import run_programs
from svod_testing.programs.runner import choose_seed

N_PARTS = 5
N_PROGRAMS = count_examples(2000) // N_PARTS


@pytest.mark.parametrize("part", range(N_PARTS))
def test_random_programs_agree_with_numpy(part: int) -> None:
    seed = choose_seed(part)
    report = run_programs(range(seed, seed + N_PROGRAMS), n_drawn=1)
    assert report.n_programs == N_PROGRAMS
    assert not report.found, "\n\n".join(
        f"{f.kind}: python -m svod_testing.programs --programs 1 --seed {f.seed} --modes"
        f" '{f.mode}'\n{f.program}\n{f.message}"
        for f in report.found.values()
    )
