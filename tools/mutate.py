"""Change sources in small ways, one at a time, and show the changes that no test notices.

    python tools/mutate.py packages/svod-runtime/src/svod_runtime/plan/execution_plan.py --sample 40
    python tools/mutate.py .../execution_plan.py:120-140 --tests .../test_plan.py     # these lines alone, after a test was added

The tests run once to find which of them run which lines. Then each mutant is put into a copy of the
checkout, with an environment that imports from there, and the tests that run its line are run, then
others of the same file, the quickest first, until one fails or `--seconds` of tests have passed.
What survives is a test that is missing, code that is not needed, or a change that makes no
difference: which of these, people must judge."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from importlib.util import cache_from_source
from pathlib import Path
from random import Random
from typing import Final

from mutations import Mutant, iter_mutants

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
_SKIPPED: Final = shutil.ignore_patterns(".*", "__pycache__", "build")
_MAX_MEMORY: Final = 16 << 30
_STARTUP_SECONDS: Final = 20
_SLOWNESS: Final = 4
"""A mutant whose tests take this multiple of their time has a loop without end."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file to change, as a path from the top of the checkout, and the lines of interest."""

    path: Path
    lines: range

    @staticmethod
    def parse(text: str) -> Target:
        """The target of `path`, `path:line` or `path:first-last`."""
        path, _, lines = text.partition(":")
        first, _, last = lines.partition("-")
        return Target(
            Path(path), range(int(first), int(last or first) + 1) if lines else range(sys.maxsize)
        )

    def find_tests(self) -> str:
        """The folder of tests of the distribution that the file belongs to."""
        parts = self.path.parts
        return str(Path(*parts[: parts.index("src")], "tests"))


@dataclass(slots=True)
class Tally:
    """How many mutants a file has, and what became of those that were tried."""

    n_listed: int
    n_tried: int = 0
    n_killed: int = 0


@dataclass(slots=True)
class Record:
    """Which tests ran which lines of which files, how long each test took, and those that
    failed.
    """

    tests_of_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    tests_of_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    failed: set[str] = field(default_factory=set)

    def find_near(self, path: Path, lines: range) -> set[str]:
        """The tests that run one of these lines; the empty name stands for what runs between tests,
        as imports do.
        """
        return {test for line in lines for test in self.tests_of_line[str(path), line]}

    def choose(self, path: Path, lines: range, limit: float) -> list[str]:
        """Tests that take no more than `limit` seconds together, at least one if there is one."""
        near = self.find_near(path, lines)
        known = self.tests_of_file[str(path)] & self.seconds.keys() - self.failed
        chosen: list[str] = []
        for test in sorted(known, key=lambda test: (test not in near, self.seconds[test])):
            limit -= self.seconds[test]
            if chosen and limit < 0:
                break
            chosen.append(test)
        return chosen


class Copy:
    """A copy of the checkout, and an environment of Python that imports from there, and all else as
    this one does.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder, self.root, self._cache = folder, folder / "checkout", folder / "cache"
        shutil.copytree(root, self.root, ignore=_SKIPPED)
        self._cache.mkdir()
        self._python = folder / "venv/bin/python"
        venv.create(folder / "venv", symlinks=True)
        (site,) = (folder / "venv").glob("lib/python*/site-packages")
        sources = [*self.root.glob("packages/*/src"), *self.root.glob("plugins/*/src")]
        others = [path for path in sys.path if path.endswith("site-packages")]
        (site / "mutate.pth").write_text(
            "\n".join([*map(str, sources), *others, "import trace_lines"])
        )
        shutil.copy(Path(__file__).with_name("trace_lines.py"), site)

    def record(self, tests: Sequence[str], paths: Sequence[Path]) -> Record:
        """Run tests, with the sources as they are."""
        log = self._folder / "trace.jsonl"
        log.touch()
        trace = "\n".join(map(str, [log, *(self.root / path for path in paths)]))
        self._run(
            ["-p", "trace_lines", *tests], None, MUTATE_TRACE=trace, SVOD_CACHE_DIR=str(self._cache)
        )
        return _read_record(log, self.root)

    def is_noticed(self, path: Path, mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
        """Whether one of these tests, which took `seconds` before, fails or does not end with the
        mutant in place.
        """
        arguments = self._folder / "tests.txt"
        arguments.write_text("\n".join(tests))
        original = (self.root / path).read_text()
        with tempfile.TemporaryDirectory() as cache:
            # What a mutant leaves in a cache is not for the next one.
            shutil.copytree(self._cache, cache, dirs_exist_ok=True)
            try:
                _replace(self.root / path, mutant.source)
                status = self._run(
                    ["-x", f"@{arguments}"],
                    _STARTUP_SECONDS + _SLOWNESS * seconds,
                    SVOD_CACHE_DIR=cache,
                )
            finally:
                _replace(self.root / path, original)
        return status != 0

    def _run(self, arguments: Sequence[str], limit: float | None, **environment: str) -> int:
        """The exit status of pytest, -1 where it did not end in time; the processes that it leaves
        behind are ended.
        """
        process = subprocess.Popen(
            [str(self._python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=self.root,
            # A PYTHONPATH would put this checkout before the copy.
            env={
                **os.environ,
                "PYTHONPATH": "",
                "PYTHONHASHSEED": "0",
                "PYTHONDONTWRITEBYTECODE": "",
                **environment,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limit_memory,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _replace(file: Path, text: str) -> None:
    """Write a source, and remove its bytecode: Python compares times and sizes alone."""
    file.write_text(text)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def _read_record(log: Path, root: Path) -> Record:
    record = Record()
    for kind, test, *entry in map(json.loads, log.read_text().splitlines()):
        if kind == "line":
            file, line = entry
            path = str(Path(file).relative_to(root))
            record.tests_of_line[path, line].add(test)
            record.tests_of_file[path].add(test)
        else:
            seconds, has_passed = entry
            record.seconds[test] += seconds
            record.failed |= set() if has_passed else {test}
    return record


def _choose_mutants(
    source: str, target: Target, n_wanted: int | None, seed: int
) -> tuple[list[Mutant], int]:
    """The mutants to try, and how many there are."""
    mutants = [mutant for mutant in iter_mutants(source) if mutant.line in target.lines]
    if n_wanted is None or len(mutants) <= n_wanted:
        return mutants, len(mutants)
    chosen = sorted(Random(f"{seed} {target.path.name}").sample(range(len(mutants)), n_wanted))
    return [mutants[index] for index in chosen], len(mutants)


def _show(path: Path, source: str, mutant: Mutant, note: str = "") -> None:
    changes = list(unified_diff(source.splitlines(), mutant.source.splitlines(), n=1, lineterm=""))[
        3:
    ]
    print(f"{path}:{mutant.line}: {mutant.what}{note}", *changes, "", sep="\n", flush=True)


def _try_mutants(copy: Copy, target: Target, options: argparse.Namespace, record: Record) -> Tally:
    """Show the mutants of a file that survive, and count."""
    path, source = target.path, (copy.root / target.path).read_text()
    mutants, n_listed = _choose_mutants(source, target, options.sample, options.seed)
    tally = Tally(n_listed)
    for mutant in mutants:
        tests = record.choose(path, mutant.lines, options.seconds)
        tally.n_tried += 1
        if tests and copy.is_noticed(
            path, mutant, tests, sum(record.seconds[test] for test in tests)
        ):
            tally.n_killed += 1
        else:
            _show(
                path,
                source,
                mutant,
                "" if record.find_near(path, mutant.lines) else " (no test runs it)",
            )
    return tally


def _list_mutants(options: argparse.Namespace) -> None:
    for target in options.targets:
        source = (options.root / target.path).read_text()
        for mutant in _choose_mutants(source, target, options.sample, options.seed)[0]:
            _show(target.path, source, mutant)


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "targets", nargs="+", type=Target.parse, help="`path`, `path:line` or `path:first-last`"
    )
    parser.add_argument(
        "--tests", nargs="+", help="files or folders (default: the tests of the distribution)"
    )
    parser.add_argument(
        "--sample", type=int, help="so many mutants of each file, drawn at random (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="another one draws others")
    parser.add_argument(
        "--seconds", type=float, default=20, help="of tests for each mutant (default: 20)"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and try none")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Print what survives and a table; the exit status is 1 where something did, 2 where there was
    nothing to run.
    """
    options = _parse_arguments(arguments)
    if options.list:
        _list_mutants(options)
        return 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Copy(options.root, Path(folder))
        tests = options.tests or sorted({target.find_tests() for target in options.targets})
        record = copy.record(tests, [target.path for target in options.targets])
        print(f"{len(record.seconds)} tests in {sum(record.seconds.values()):.0f} s", flush=True)
        if record.failed:
            print("these fail as it is, and are left out:", *sorted(record.failed), sep="\n    ")
        if not record.seconds.keys() - record.failed:
            return 2
        tallies = [
            (target.path, _try_mutants(copy, target, options, record)) for target in options.targets
        ]
    print(f"{'tried':>8} {'of':>8} {'killed':>8} {'survived':>8}")
    for path, tally in tallies:
        print(
            f"{tally.n_tried:8} {tally.n_listed:8} {tally.n_killed:8}"
            f" {tally.n_tried - tally.n_killed:8} {path}"
        )
    return int(any(tally.n_killed < tally.n_tried for _, tally in tallies))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
