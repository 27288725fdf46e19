"""Search the kernels of a script, and keep what is found for its later runs.

    python -m svod_tensor.tune script.py [arguments]
    python -m svod_tensor.tune --seconds 10 script.py [arguments]     # about 10 s of searches, whatever there is to search

The script runs as it always does, except that each new kernel is searched before it is used. With
`--seconds` it is searched after the script has ended: the kernels that do the most work come first
and get the most time, those that make a network's first weights last. A table says at the end what
that gained. A later run of the script, without this, finds the same kernels (`SVOD_TUNED=0` turns
that off). A search that is interrupted is gone on with by the next one.

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
from svod_tensor.options import using_optimizer
from svod_tensor.tuning.choose import limit_searches, observe, search_at_end
from svod_tensor.tuning.progress import Observed, format_table, make_observer

__all__ = ["main", "searching"]

_NAMES: Final = (
    "The name of a kernel is r for one that reduces and E for any other, then a letter for the kind"
    " and the size of each of its loops: small u is unrolled over outputs, r over what is added up,"
    " R is a loop over that, L one over outputs, t one over threads."
)


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run a script with tuning and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_tensor.tune",
        description="Search better opts for the kernels of a script.",
        epilog=_NAMES,
    )
    parser.add_argument(
        "--width", type=int, help="how many candidates each round keeps (SVOD_BEAM, 4)"
    )
    parser.add_argument(
        "--seconds",
        type=_read_seconds,
        help="about so long for all searches of the script together",
    )
    parser.add_argument(
        "--kernel-seconds", type=float, help="the most time for one kernel (BEAM_TIMEOUT, 60)"
    )
    parser.add_argument(
        "--plan-seconds", type=float, help="the most time for one plan (BEAM_PLAN_TIMEOUT, 600)"
    )
    parser.add_argument("--again", action="store_true", help="search what was searched before too")
    parser.add_argument("script", help="a Python file that computes tensors")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    given = parser.parse_args(arguments)
    search = read_search(
        width=given.width,
        kernel_seconds=given.kernel_seconds,
        plan_seconds=given.plan_seconds,
        ignore_cache=given.again,
    )
    try:
        with searching(
            out or sys.stdout, search, seconds=given.seconds, at_end=given.seconds is not None
        ):
            _run(given.script, given.arguments)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what was found so far is kept\n")
        return 130
    return 0


@contextmanager
def searching(
    out: TextIO,
    search: OptimizerConfig | None = None,
    *,
    seconds: float | None = None,
    at_end: bool = False,
) -> Generator[None]:
    """Search each new kernel that is prepared in the block, show how that goes, and write a table
    at its end.

    Args:
        out: where the table is written; what goes on is shown on the standard error.
        search: how to search; by default as the environment says.
        seconds: about so long for all searches together.
        at_end: search at the end of the block, for plans that are made later; the kernels that do
            the most work come first, of whatever plan they are.
    """
    search = (
        read_search(width=None, kernel_seconds=None, plan_seconds=None)
        if search is None
        else search
    )
    observer = make_observer(sys.stderr)
    if at_end:
        when = search_at_end(seconds)
    else:
        when = nullcontext() if seconds is None else limit_searches(seconds)
    try:
        with observer.show(), observe(observer), using_optimizer(search), when:
            yield
    finally:
        _write_table(observer, out)


def _read_seconds(text: str) -> float:
    seconds = float(text)
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
    # The same kernel may be part of several plans.
    tuned = list({(t.name, t.device, t.opts): t for t in observer.tuned}.values())
    out.write(format_table(tuned) + "\n" if tuned else "no kernel was searched to the end\n")


if __name__ == "__main__":
    raise SystemExit(main())
