"""Runner of random programs in child processes, which may crash or hang; failures are shrunk.

A language of programs is a module with `generate`, `evaluate_program`, `check_program`, `shrink`,
`write_program` and `MODES`. It is passed by name, because child processes import it again.

Example:
    >>> from svod_testing.programs import Found, Report, run_programs
    >>> report = run_programs([3], modes=["batch"])
    >>> isinstance(report, Report), report.n_programs, report.found
    (True, 1, {})

    A failure is recorded in `found`:

    >>> Found("wrong", seed=1, mode="batch", message="result 0 (x4): ...", program="x4 = ...")
    Found(kind='wrong', seed=1, mode='batch', message='result 0 (x4): ...', count=1, seeds=[], program='x4 = ...')
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Final, cast

__all__ = [
    "PROGRAMS",
    "Found",
    "Outcome",
    "Report",
    "Shrunk",
    "check_in_fork",
    "choose_modes",
    "choose_seed",
    "fresh_seed",
    "run_programs",
    "shrink_in_child",
    "write_report",
]

PROGRAMS: Final = "svod_testing.programs"

_MAX_WRONG: Final = 30
"""So many kinds of wrong results are told apart."""

_SHRINK_LIMIT_SECONDS: Final = 30.0

_LIMIT_SECONDS: Final = 120.0
"""After so long, a program hangs."""


@dataclass(slots=True)
class Found:
    """A kind of failure.

    Attributes:
        kind: common description of the failures.
        count: number of programs with such a failure.
        seed: seed of the first of these programs.
        mode: mode in which it failed.
        message: message of its failure.
        program: lines of this program, shrunk.
    """

    kind: str
    seed: int
    mode: str
    message: str
    count: int = 1
    seeds: list[int] = field(default_factory=list[int])
    program: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The failures of a seed: mode, kind and message."""

    seed: int
    failures: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A program that is as short as was found, how it fails, and the names of its operations."""

    program: str
    message: str
    operations: str


@dataclass(slots=True)
class Report:
    """Result of a run: counts, and the failures by kind."""

    n_programs: int = 0
    seconds: float = 0.0
    found: dict[str, Found] = field(default_factory=dict[str, Found])


def choose_modes(
    seed: int, names: Sequence[str], n_drawn: int, language: str = PROGRAMS
) -> list[str]:
    """Choose the modes of a program: `batch`, and `n_drawn` random others."""
    modes = importlib.import_module(language).MODES
    remaining = [n for n in names if n != "batch"]
    rng, chosen = random.Random(seed), ["batch"] if "batch" in names else []
    while remaining and n_drawn > 0:
        chosen.append(rng.choices(remaining, [modes[n].weight for n in remaining])[0])
        remaining.remove(chosen[-1])
        n_drawn -= 1
    return chosen


def run_programs(  # noqa: PLR0913 - the options of the command
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    modes: Sequence[str] = (),
    n_drawn: int = 2,
    device: str | None = None,
    limit_seconds: float = _LIMIT_SECONDS,
    progress: Any = None,
    shrinks: bool = True,
    language: str = PROGRAMS,
) -> Report:
    """Run the programs of these seeds, and shrink the first failure of each kind.

    Args:
        seeds: seeds of the programs.
        jobs: number of child processes.
        modes: names of the modes to choose from; by default all.
        n_drawn: number of random modes of each program besides `batch`.
        device: device of the inputs; by default the CPU.
        limit_seconds: time after which a program counts as hanging.
        progress: function that is called with the report after each program.
        shrinks: whether to shrink wrong results.
        language: module of the language of programs.
    """
    report, start = Report(), time.monotonic()
    names = list(modes) or list(importlib.import_module(language).MODES)
    for outcome in _iter_outcomes(seeds, jobs, names, n_drawn, device, limit_seconds, language):
        seed = outcome.seed
        report.n_programs += 1
        for mode, kind, message in outcome.failures:
            n_known = sum(f.kind.startswith(kind) for f in report.found.values())
            # Wrong results have one kind until they are shrunk; the remaining operations tell them
            # apart.
            if (
                kind in report.found
                or n_known >= _MAX_WRONG
                or not (shrinks and kind.startswith("wrong"))
            ):
                known = report.found.get(kind)
                failure = known or Found(kind, seed, mode, message, count=0)
            else:
                failure = Found(kind, seed, mode, message, count=0)
            is_new = not failure.count
            if is_new and shrinks:
                shrunk = shrink_in_child(
                    seed, names, n_drawn, mode, kind, device, limit_seconds, language
                )
                if shrunk is not None:
                    failure.program, failure.message = shrunk.program, shrunk.message or message
                    if kind.startswith("wrong"):
                        failure.kind = f"{kind}: {shrunk.operations}"
                        is_new = failure.kind not in report.found
                        failure = report.found.get(failure.kind, failure)
            report.found.setdefault(failure.kind, failure)
            failure.count += 1
            failure.seeds.append(seed)
            if progress is not None and is_new:
                progress(report, failure)
        if progress is not None and report.n_programs % 200 == 0:
            report.seconds = time.monotonic() - start
            progress(report, None)
    report.seconds = time.monotonic() - start
    return report


def _iter_outcomes(
    seeds: Sequence[int],
    jobs: int,
    names: list[str],
    n_drawn: int,
    device: str | None,
    limit: float,
    language: str,
) -> Iterator[Outcome]:
    """Yield the outcome of each seed, in order of completion."""
    context = multiprocessing.get_context("spawn")
    pending = list(reversed(seeds))
    workers: dict[Any, tuple[Any, tuple[int, str] | None, float]] = {}
    batches: dict[Any, list[int]] = {}
    while pending or workers:
        while pending and len(workers) < jobs:
            batch = [pending.pop() for _ in range(min(250, len(pending)))]
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, batch, names, n_drawn, device, language), daemon=True
            )
            process.start()
            theirs.close()
            workers[ours] = (process, None, time.monotonic())
            batches[ours] = batch
        for connection in cast("list[Any]", wait(list(workers), timeout=5.0)):
            process, running, _ = workers[connection]
            try:
                message = connection.recv()
            except EOFError:
                process.join()
                del workers[connection]
                batch = batches.pop(connection)
                if running is not None:
                    kind = f"crash: exit code {process.exitcode}"
                    yield Outcome(
                        running[0],
                        [(running[1], kind, f"the process ended with {process.exitcode}")],
                    )
                    pending.extend(reversed(batch[batch.index(running[0]) + 1 :]))
                elif process.exitcode:
                    raise RuntimeError(f"a worker failed to start: {process.exitcode}") from None
                continue
            if isinstance(message, Outcome):
                workers[connection] = (process, None, time.monotonic())
                yield message
            else:
                workers[connection] = (process, message, time.monotonic())
        for connection, (process, running, since) in list(workers.items()):
            if running is not None and time.monotonic() - since > limit:
                process.kill()
                process.join()
                del workers[connection]
                batch = batches.pop(connection)
                pending.extend(reversed(batch[batch.index(running[0]) + 1 :]))
                yield Outcome(running[0], [(running[1], "hang", f"no result in {limit} seconds")])


def _work(
    connection: Connection,
    seeds: list[int],
    names: list[str],
    n_drawn: int,
    device: str | None,
    language: str,
) -> None:
    import faulthandler

    faulthandler.enable()
    spoken = importlib.import_module(language)
    for seed in seeds:
        program = spoken.generate(seed)
        values = spoken.evaluate_program(program)
        failures: dict[str, tuple[str, str, str]] = {}
        for mode in choose_modes(seed, names, n_drawn, language):
            connection.send((seed, mode))
            failure = spoken.check_program(program, mode, device=device, values=values)
            if failure is not None and failure.kind not in failures:
                failures[failure.kind] = (mode, failure.kind, failure.message)
        connection.send(Outcome(seed, list(failures.values())))
    connection.close()


def shrink_in_child(
    seed: int,
    names: list[str],
    n_drawn: int,
    mode: str,
    kind: str,
    device: str | None,
    limit: float,
    language: str,
) -> Shrunk | None:
    """The shrunk program of a seed; None where it crashed or took too long."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_shrink,
        args=(theirs, seed, names, n_drawn, mode, kind, device, language),
        daemon=False,
    )
    process.start()
    theirs.close()
    result: Shrunk | None = None
    try:
        if ours.poll(10 * limit):
            result = ours.recv()
    except EOFError:
        pass
    process.kill()
    process.join()
    return result


def _shrink(
    connection: Connection,
    seed: int,
    names: list[str],
    n_drawn: int,
    mode: str,
    kind: str,
    device: str | None,
    language: str,
) -> None:
    spoken = importlib.import_module(language)
    modes = [mode]

    def find(program: Any) -> str | None:
        failures = [f for f in check_in_fork(program, modes, device, language) if f[1] == kind]
        return failures[0][2] if failures else None

    def fails(program: Any) -> bool:
        return find(program) is not None

    program, note = spoken.generate(seed), ""
    if find(program) is None:
        # What other modes left in the caches may matter.
        modes = choose_modes(seed, names, n_drawn, language)
        note = f"\n# in the modes {', '.join(modes)}, one after the other"
    if find(program) is None:
        connection.send(
            Shrunk(f"{spoken.write_program(program)}\n# it does not fail alone", "", "not alone")
        )
        return
    program = spoken.shrink(program, fails).renumbered()
    operations = " ".join(
        dict.fromkeys(s.operation for s in program.steps if s.operation != "input")
    )
    connection.send(Shrunk(spoken.write_program(program) + note, find(program) or "", operations))


def check_in_fork(
    program: Any, modes: list[str], device: str | None, language: str = PROGRAMS
) -> list[tuple[str, str, str]]:
    """The failures of a program in a process of its own, which may crash; this one has not computed
    anything.
    """
    check_program = importlib.import_module(language).check_program

    def check(connection: Connection) -> None:
        for mode in modes:
            connection.send(mode)
            failure = check_program(program, mode, device=device)
            if failure is not None:
                connection.send((failure.mode, failure.kind, failure.message))
        connection.send(None)

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=check, args=(theirs,))
    process.start()
    theirs.close()
    failures: list[tuple[str, str, str]] = []
    mode = modes[0]
    try:
        while ours.poll(_SHRINK_LIMIT_SECONDS):
            message = ours.recv()
            if message is None:
                break
            if isinstance(message, str):
                mode = message
            else:
                failures.append(message)
        else:
            failures.append((mode, "hang", f"no result in {_SHRINK_LIMIT_SECONDS} seconds"))
    except EOFError:
        process.join()
        failures.append(
            (
                mode,
                f"crash: exit code {process.exitcode}",
                f"the process ended with {process.exitcode}",
            )
        )
    process.kill()
    process.join()
    ours.close()
    return failures


def write_report(report: Report, path: str) -> None:
    """Write one line of JSON for each kind of failure."""
    with open(path, "w", encoding="utf-8") as file:
        for failure in sorted(report.found.values(), key=lambda f: -f.count):
            file.write(json.dumps(asdict(failure)) + "\n")


def choose_seed(index: int) -> int:
    """Return the seed of the test with this index.

    It is the same in each run if the Hypothesis profile is derandomized, else random.
    """
    from hypothesis import settings

    return index * 1_000_003 if settings().derandomize else fresh_seed()


def fresh_seed() -> int:
    """Return a random seed."""
    return int.from_bytes(os.urandom(4), "little")
