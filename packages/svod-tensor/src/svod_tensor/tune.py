"""Search the kernels of a script, and keep what is found for its later runs.

    python -m svod_tensor.tune script.py [arguments]
    python -m svod_tensor.tune --seconds 10 script.py [arguments]     # about 10 s of searches, whatever there is to search

The script runs as it always does, except that each new kernel is searched before it is used. A table says
at the end what that gained. A later run of the script, without this, finds the same kernels
(`SVOD_TUNED=0` turns that off). A search that is interrupted is gone on with by the next one.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final, TextIO

from svod_schedule import OptimizerConfig
from svod_schedule.options import read_search
from svod_tensor.options import using_optimizer
from svod_tensor.tuning.choose import limit_searches, observe
from svod_tensor.tuning.progress import Observed, format_table, make_observer

__all__ = ["main"]

_NAMES: Final = (
    "The name of a kernel is r for one that reduces and E for any other, then a letter for the kind and the size of each of its loops: "
    "small u is unrolled over outputs, r over what is added up, R is a loop over that, L one over outputs, t one over threads."
)


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Run a script with tuning and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_tensor.tune", description="Search better opts for the kernels of a script.", epilog=_NAMES
    )
    parser.add_argument("--width", type=int, help="how many kernels a round goes on from (SVOD_BEAM, 4)")
    parser.add_argument("--seconds", type=_read_seconds, help="about so long for all searches of the script together")
    parser.add_argument("--kernel-seconds", type=float, help="the most time for one kernel (BEAM_TIMEOUT, 60)")
    parser.add_argument("--plan-seconds", type=float, help="the most time for one plan (BEAM_PLAN_TIMEOUT, 600)")
    parser.add_argument("--again", action="store_true", help="search what was searched before too")
    parser.add_argument("script", help="a Python file that computes tensors")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    given = parser.parse_args(arguments)
    search = read_search(
        width=given.width, kernel_seconds=given.kernel_seconds, plan_seconds=given.plan_seconds, is_again=given.again
    )
    observer = make_observer(sys.stderr)
    try:
        with nullcontext() if given.seconds is None else limit_searches(given.seconds):
            _run(given.script, given.arguments, observer, search)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what was found so far is kept\n")
        return 130
    finally:
        _write_table(observer, out or sys.stdout)
    return 0


def _read_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


def _run(script: str, arguments: Sequence[str], observer: Observed, search: OptimizerConfig) -> None:
    before = sys.argv
    sys.argv = [script, *arguments]
    try:
        with observer.show(), observe(observer), using_optimizer(search):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before


def _write_table(observer: Observed, out: TextIO) -> None:
    # The same kernel may be part of several plans.
    tuned = list({(t.name, t.device, t.opts): t for t in observer.tuned}.values())
    out.write(format_table(tuned) + "\n" if tuned else "no kernel was searched to the end\n")


if __name__ == "__main__":
    raise SystemExit(main())
