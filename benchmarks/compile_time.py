"""Measure the time from the start of a process to its first results, by phase.

    python benchmarks/compile_time.py              # every program
    python benchmarks/compile_time.py add16 demo   # some
    python benchmarks/compile_time.py --passes 12  # show more passes

Every measurement is a new process. `import` is `import svod_tensor`. `total` adds `build` (of the
graph), `prepare` and the first `execute`, without creating the inputs. The input of add16 is a
list, so that it imports numpy while it builds. Cold runs have an empty cache directory, warm runs
the directory of the cold run. Python's compiled modules exist, as in an installed package: runs
that are not measured write them to a temporary directory. The breakdown by step compiles without
caches, one kernel at a time, while `prepare` compiles several kernels in parallel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from report import describe_machine, format_machine, format_table, format_time, write_json

FOLDER = Path(__file__).resolve().parent
PHASES = ("import", "build", "prepare", "execute", "total")


def main() -> int:
    arguments = _parse_arguments()
    if arguments.child:
        print(json.dumps(_run_child(*arguments.child.split(":"))))
        return 0
    from programs import PROGRAMS

    names = arguments.names or list(PROGRAMS)
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder), arguments.repeats)
        programs = {name: times for name in names if (times := runner.measure(name)) is not None}
        breakdowns = {name: runner.break_down(name) for name in programs}
        imported = runner.measure_import()
    print(f"import svod_tensor: {format_time(imported)}\n")
    print(_format_programs(programs), "", _format_steps(breakdowns), "", sep="\n")
    print(_format_passes(breakdowns, arguments.passes), "", sep="\n")
    print(
        write_json(
            "compile",
            {
                "machine": machine,
                "import": imported,
                "programs": programs,
                "breakdowns": breakdowns,
            },
        )
    )
    return 0


class Runner:
    """Runner of child processes with a separate cache directory and compiled Python modules in
    `folder`.
    """

    def __init__(self, folder: Path, n_repeats: int) -> None:
        self.folder, self.n_repeats, self.n_caches = folder, n_repeats, 0

    def measure(self, name: str) -> dict[str, dict[str, float]] | None:
        """Minimum seconds of each phase, cold and warm; None if the program's dependencies are
        missing.
        """
        phases: dict[str, dict[str, float]] = {}
        if not self._run("program", name, self._make_cache()):
            return None
        for _ in range(self.n_repeats):
            cache = self._make_cache()
            for state in ("cold", "warm"):
                phases = self._run("program", name, cache)
                kept = phases.setdefault(state, phases)
                phases[state] = phases if phases["total"] < kept["total"] else kept
        return phases

    def break_down(self, name: str) -> dict[str, Any]:
        return self._run("breakdown", name, self._make_cache())

    def measure_import(self) -> float:
        return min(
            self._run("import", "svod_tensor", self._make_cache())["import"]
            for _ in range(self.n_repeats)
        )

    def _run(self, task: str, name: str, cache: Path) -> dict[str, Any]:
        environment = {
            **os.environ,
            "SVOD_CACHE_DIR": str(cache),
            "PYTHONPYCACHEPREFIX": str(self.folder / "modules"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if task == "breakdown":
            environment["SVOD_OBJECT_CACHE"] = "0"
        command = [sys.executable, str(FOLDER / "compile_time.py"), "--child", f"{task}:{name}"]
        output = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout
        return json.loads(output.splitlines()[-1])

    def _make_cache(self) -> Path:
        self.n_caches += 1
        return self.folder / f"cache{self.n_caches}"


def _run_child(task: str, name: str) -> dict[str, Any]:
    if task == "import":
        return {"import": _import_tensor()}
    if task == "program":
        return _run_program(name)
    from breakdown import break_down
    from programs import PROGRAMS, make_chain

    break_down(make_chain("sum of tensors", 3))  # Exclude imports and one-time initialization.
    build = PROGRAMS[name]()
    return {} if build is None else break_down(build()).to_json()


def _run_program(name: str) -> dict[str, float]:
    imported = _import_tensor()
    from programs import PROGRAMS

    build = PROGRAMS[name]()
    if build is None:
        return {}
    started = perf_counter()
    result = build()
    built = perf_counter()
    plan = result.prepare()
    prepared = perf_counter()
    plan.execute()
    executed = perf_counter()
    return {
        "import": imported,
        "build": built - started,
        "prepare": prepared - built,
        "execute": executed - prepared,
        "total": imported + executed - started,
    }


def _import_tensor() -> float:
    start = perf_counter()
    import svod_tensor  # noqa: F401

    return perf_counter() - start


def _format_programs(programs: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    rows = [
        [name, state, *(format_time(phases[phase]) for phase in PHASES)]
        for name, states in programs.items()
        for state, phases in states.items()
    ]
    return format_table(["program", "cache", *PHASES], rows)


def _format_steps(breakdowns: Mapping[str, Mapping[str, Any]]) -> str:
    steps = list(dict.fromkeys(step for b in breakdowns.values() for step in b["steps"]))
    rows = [[step, *(format_time(b["steps"][step]) for b in breakdowns.values())] for step in steps]
    rows.append(["sum", *(format_time(sum(b["steps"].values())) for b in breakdowns.values())])
    rows.append(["kernels", *(str(b["kernels"]) for b in breakdowns.values())])
    return format_table(["step", *breakdowns], rows)


def _format_passes(breakdowns: Mapping[str, Mapping[str, Any]], n: int) -> str:
    """Names of the `n` slowest passes of the last program, which is the largest."""
    if not breakdowns:
        return ""
    last = list(breakdowns.values())[-1]["passes"]
    slowest = sorted(last, key=last.__getitem__, reverse=True)[:n]
    rows = [
        [name, *(format_time(b["passes"].get(name)) for b in breakdowns.values())]
        for name in slowest
    ]
    return format_table([f"slowest {len(rows)} passes", *breakdowns], rows)


def _parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="programs to compile (default: all)")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each measurement")
    parser.add_argument(
        "--passes", type=int, default=10, help="number of passes to show; the JSON file has all"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
