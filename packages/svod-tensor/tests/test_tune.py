"""`python -m svod_tensor.tune`: a script is run, searched and told about; later runs use what was
found.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from svod_ir import OptionError, parse_opts
from svod_schedule import ConfigError, OptimizerConfig
from svod_schedule.options import read_search
from svod_tensor.options import resolve_config, using_optimizer
from svod_tensor.tuning.choose import Tuned
from svod_tensor.tuning.progress import (
    Lines,
    RichBar,
    format_run_gain,
    format_seconds,
    format_table,
    make_observer,
)

SCRIPT = """\
import sys
import numpy as np
from svod_tensor import Tensor
x = np.random.default_rng(0).random((64, 48), np.float32)
plan = (Tensor(x) @ Tensor(x.T)).prepare()
plan.execute()
print(sys.argv[1:], plan.prepared_ops[0].kernel.name)
"""


def tuned(
    name: str,
    before: float | None,
    after: float | None,
    opts: str = "UPCAST(0, 4)",
    *,
    was_known: bool = False,
) -> Tuned:
    return Tuned(
        name=name,
        device="CPU",
        opts=parse_opts(opts),
        seconds=after,
        heuristic_opts=parse_opts("UNROLL(0, 8)"),
        heuristic_seconds=before,
        n_tried=10,
        n_dropped=3,
        spent_seconds=1.5,
        was_known=was_known,
    )


def run(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "SVOD_CACHE_DIR": str(path / "cache"),
        "BEAM_ROUNDS_MAX": "1",
        "BEAM_MEASURED_MAX": "4",
        **environment,
    }
    return subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_a_script_is_tuned_and_later_runs_use_the_results(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    tuning = run(
        tmp_path, "-m", "svod_tensor.tune", "--width", "2", str(script), "an", "--argument"
    )
    assert tuning.returncode == 0, tuning.stderr
    first, header, row, total = tuning.stdout.splitlines()
    assert first.startswith("['an', '--argument'] ")
    assert header.split() == ["kernel", "before", "after", "gain", "tried", "dropped", "opts"]
    assert total.startswith("total")
    assert "searching 1 kernel, " in tuning.stderr
    again = run(tmp_path, "-m", "svod_tensor.tune", "--width", "2", str(script))
    assert "searching" not in again.stderr
    assert again.stdout.splitlines()[2] == row
    # The row has the name that the kernel has with the stored opts.
    assert row.startswith(run(tmp_path, str(script)).stdout.split()[-1])


def test_with_a_limit_kernels_are_searched_after_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "sys.exit(0)\n")
    plain = run(tmp_path, str(script)).stdout
    tuning = run(tmp_path, "-m", "svod_tensor.tune", "--seconds", "5", str(script))
    assert tuning.returncode == 0, tuning.stderr
    first, header, *_ = tuning.stdout.splitlines()
    assert (first, header.split()[:2]) == (plain.strip(), ["kernel", "before"])


def test_without_a_limit_the_kernels_with_the_most_work_are_searched_first(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    small, large = "Tensor(x[:8]).exp().realize()", "(Tensor(x) @ Tensor(x.T)).realize()"
    script.write_text("\n".join([*SCRIPT.splitlines()[:4], small, large]))
    tuning = run(tmp_path, "-m", "svod_tensor.tune", "--width", "1", str(script))
    assert tuning.returncode == 0, tuning.stderr
    first, second = [line for line in tuning.stderr.splitlines() if " left" in line or "->" in line]
    assert (first[:2], second[:2]) == ("r_", "E_")
    assert "searching 2 kernels, " in tuning.stderr


def test_the_gain_of_a_run_counts_launches() -> None:
    often, once = replace(tuned("a", 1e-3, 5e-4), n_launches=400), tuned("b", 0.1, 0.1)
    assert format_run_gain([once]) is None
    assert (
        format_run_gain([often, once])
        == "all 401 launches of this run: 500 ms before, 300 ms after, 1.67x"
    )
    assert format_run_gain([replace(often, seconds=None)]) is None


def test_an_unknown_plan_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    tuning = run(tmp_path, "-m", "svod_tensor.tune", "--plan", "step", str(script))
    assert (tuning.returncode, tuning.stderr) == (
        2,
        "no captured function 'step' has kernels that were not searched before; there is none\n",
    )


def test_invalid_options_are_reported_before_the_script_runs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    wrong = run(tmp_path, "-m", "svod_tensor.tune", "--seconds", "-1", str(script))
    assert wrong.returncode != 0
    assert "ran" not in wrong.stdout


def test_unspecified_settings_stay_as_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "SVOD_BEAM",
        "BEAM_TIMEOUT",
        "BEAM_PLAN_TIMEOUT",
        "BEAM_IGNORE_CACHE",
        "SVOD_NOOPT",
    ):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("BEAM_TIMEOUT", "7")
    before = dict(os.environ)
    found = read_search(width=None, kernel_seconds=None, plan_seconds=20.0, ignore_cache=True)
    assert (found.strategy, found.width, found.kernel_seconds, found.plan_seconds) == (
        "beam",
        4,
        7.0,
        20.0,
    )
    assert not found.use_cache
    with pytest.raises((OptionError, ConfigError)):
        read_search(width=None, kernel_seconds=-1.0, plan_seconds=None)
    assert dict(os.environ) == before
    monkeypatch.setenv("SVOD_BEAM", "")
    monkeypatch.setenv("SVOD_NOOPT", "1")
    with pytest.raises(OptionError):
        read_search(width=None, kernel_seconds=None, plan_seconds=None)


def test_an_optimizer_is_the_default_in_its_block() -> None:
    before = resolve_config(None)
    search = OptimizerConfig(strategy="beam", width=2)
    with using_optimizer(search):
        assert resolve_config(None) == replace(before, optimizer=search)
        assert resolve_config(before) is before
    assert resolve_config(None) == before


TABLE = """\
kernel  before  after   gain  tried  dropped  opts
slow      2 ms   2 ms  1.00x     10        3  as the heuristics chose
fast      2 us   1 us  2.00x     10        3  UPCAST(0, 4)
lost         -      -      -     10        3  none
total     2 ms   2 ms  1.00x     30        9"""


def test_the_table_has_a_row_for_each_kernel_the_slowest_first_and_their_total() -> None:
    rows = [
        tuned("fast", 2e-6, 1e-6),
        tuned("slow", 0.002, 0.002, "UNROLL(0, 8)"),
        tuned("lost", None, None, ""),
    ]
    assert format_table(rows) == TABLE


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0125, "12.5 ms"), (3.14159e-5, "31.4 us"), (5e-10, "0.0005 us")],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_without_a_terminal_there_are_lines() -> None:
    out = io.StringIO()
    observer = make_observer(out)
    assert isinstance(observer, Lines)
    with observer.show():
        observer.begin(2, 600.0)
        observer.end(tuned("known", 1.0, 1.0, was_known=True))
        observer.end(tuned("k", 2e-3, 1e-3))
    assert (
        out.getvalue()
        == "searching 2 kernels, for 600 s at most\nk: 2 ms -> 1 ms (2.00x) in 1.5 s, 1 left\n"
    )
    assert len(observer.tuned) == 2


def test_with_rich_there_is_a_bar() -> None:
    pytest.importorskip("rich")
    bar = RichBar()
    bar.begin(2, 600.0)
    bar.end(tuned("k", 2e-3, 1e-3))
    assert bar.tuned == [tuned("k", 2e-3, 1e-3)]
