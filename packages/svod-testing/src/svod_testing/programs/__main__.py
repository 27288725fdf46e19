"""`python -m svod_testing.programs`: run random programs, and print the shortest one of each kind
of failure.
"""

from __future__ import annotations

import argparse
import sys

from svod_testing.programs.runner import (
    PROGRAMS,
    Found,
    Report,
    fresh_seed,
    run_programs,
    write_report,
)

__all__ = ["main"]


def main(language: str = PROGRAMS) -> int:
    """Run programs of a language as the command line says; 1 if one failed."""
    parser = argparse.ArgumentParser(prog=f"python -m {language}")
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="of the first program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--modes", default="", help="names with commas between; by default all")
    parser.add_argument(
        "--drawn", type=int, default=2, help="how many modes besides `batch` each program is run in"
    )
    parser.add_argument("--device", default=None)
    parser.add_argument(
        "--out", default=None, help="a file for one line of JSON for each kind of failure"
    )
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    seed = fresh_seed() if options.seed is None else options.seed
    _say(f"{options.programs} programs from seed {seed}")
    modes = [m for m in options.modes.split(",") if m]

    def progress(report: Report, failure: Found | None) -> None:
        if options.out:
            write_report(report, options.out)
        if failure is None:
            n = sum(f.count for f in report.found.values())
            _say(
                f"{report.n_programs} programs, {n} failures,"
                f" {report.n_programs / report.seconds:.1f}/s"
            )
            return
        message = "\n".join(failure.message.strip().split("\n")[-3:])
        _say(
            f"--- {failure.kind}\nseed {failure.seed}, mode {failure.mode}\n{failure.program}\n{message}"
        )

    report = run_programs(
        range(seed, seed + options.programs),
        jobs=options.jobs,
        modes=modes,
        n_drawn=options.drawn,
        device=options.device,
        progress=progress,
        shrinks=not options.no_shrink,
        language=language,
    )
    if options.out:
        write_report(report, options.out)
    for failure in sorted(report.found.values(), key=lambda f: -f.count):
        _say(f"{failure.count:5} {failure.kind}  seed {failure.seed}, mode {failure.mode}")
    _say(
        f"{report.n_programs} programs in {report.seconds:.0f} s, {len(report.found)} kinds of"
        " failures"
    )
    return 1 if report.found else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
