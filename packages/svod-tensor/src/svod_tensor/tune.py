"""Search opts for the kernels of a script, and store them for its later runs.

    python -m svod_tensor.tune script.py [arguments]
    python -m svod_tensor.tune --seconds 10 script.py [arguments]     # about 10 s of searches in total

The script runs normally, and searches run after it has ended: the kernels with the largest share of
the run's time come first, as the cost model predicts it, where a kernel counts as often as its
captured function was called. With `--seconds` they also get the most time. `--plan step` searches
only the kernels of the captured function `step`. A table at the end shows the gains. Later runs of
the script use the stored opts (`SVOD_TUNED=0` disables that). An interrupted search is resumed by
the next one.

Example:
    >>> import io
    >>> from svod_schedule import OptimizerConfig
    >>> from svod_tensor import Tensor
    >>> from svod_tensor.tune import searching
    >>> with searching(table := io.StringIO(), OptimizerConfig(strategy="beam", width=1, max_measured=2), seconds=5):
    ...     (Tensor.ones(64, 64) * 3 + Tensor.eye(64)).sum(axis=0)[0].item()
    193.0
    >>> table.getvalue() != ""
    True
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, TextIO

from svod_schedule import OptimizerConfig
from svod_schedule.options import read_search
from svod_tensor.errors import UnknownPlanError
from svod_tensor.options import using_optimizer
from svod_tensor.tuning.choose import limit_searches, observe, search_at_end
from svod_tensor.tuning.progress import Observed, format_run_gain, format_table, make_observer

__all__ = ["main", "searching"]

_NAMES: Final = (
    "The name of a kernel is r for one that reduces and E for any other, then a letter for the kind"
    " and the size of each of its loops: small u is unrolled over outputs, r over reductions,"
    " R is a loop over reductions, L over outputs, t over threads."
)


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run a script with tuning and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_tensor.tune",
        description="Search better opts for the kernels of a script.",
        epilog=_NAMES,
    )
    parser.add_argument(
        "--width", type=int, help="number of candidates kept in each round (SVOD_BEAM, 4)"
    )
    parser.add_argument(
        "--seconds",
        type=_read_seconds,
        help="approximate time for all searches of the script together",
    )
    parser.add_argument(
        "--plan", metavar="NAME", help="search only the kernels of this captured function"
    )
    parser.add_argument(
        "--kernel-seconds", type=float, help="maximum time for one kernel (BEAM_TIMEOUT, 60)"
    )
    parser.add_argument(
        "--plan-seconds", type=float, help="maximum time for one plan (BEAM_PLAN_TIMEOUT, 600)"
    )
    parser.add_argument("--again", action="store_true", help="repeat finished searches")
    parser.add_argument("script", help="a Python file that computes tensors")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    options = parser.parse_args(arguments)
    search = read_search(
        width=options.width,
        kernel_seconds=options.kernel_seconds,
        plan_seconds=options.plan_seconds,
        ignore_cache=options.again,
    )
    try:
        with searching(
            out or sys.stdout, search, seconds=options.seconds, at_end=True, plan=options.plan
        ):
            _run(options.script, options.arguments)
    except UnknownPlanError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; results so far are stored\n")
        # 128 + SIGINT, as shells report it.
        return 130
    return 0


@contextmanager
def searching(
    out: TextIO,
    search: OptimizerConfig | None = None,
    *,
    seconds: float | None = None,
    at_end: bool = False,
    plan: str | None = None,
) -> Generator[None]:
    """Search each new kernel that is prepared in the block, show the progress, and write a table at
    its end.

    Args:
        out: where the table is written; progress is shown on the standard error.
        search: how to search; by default the environment's configuration.
        seconds: approximate time for all searches together.
        at_end: search at the end of the block, for plans that are made later; the kernels of all
            plans are searched in order of decreasing predicted time.
        plan: search only the kernels of the captured function of this name, at the end of the
            block.

    Raises:
        UnknownPlanError: if no captured function `plan` has kernels to search.
    """
    search = (
        read_search(width=None, kernel_seconds=None, plan_seconds=None)
        if search is None
        else search
    )
    observer = make_observer(sys.stderr)
    if at_end or plan is not None:
        when = search_at_end(seconds, plan)
    else:
        when = nullcontext() if seconds is None else limit_searches(seconds)
    try:
        with observer.show(), observe(observer), using_optimizer(search), when:
            yield
    finally:
        _write_table(observer, out)


def _read_seconds(text: str) -> float:
    seconds = float(text)
    # Also refuses NaN, for which every comparison is false.
    if not seconds > 0:
        raise ValueError(text)
    return seconds


def _run(script: str, arguments: Sequence[str]) -> None:
    before = sys.argv
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before


def _write_table(observer: Observed, out: TextIO) -> None:
    # A kernel may be part of several plans.
    tuned = list({(t.name, t.device, t.opts): t for t in observer.tuned}.values())
    out.write(format_table(tuned) + "\n" if tuned else "no search was completed\n")
    if (gain := format_run_gain(tuned)) is not None:
        out.write(gain + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
