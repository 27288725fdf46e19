"""Run the type checker over the sources of every distribution.

Fails also if it checked fewer files than exist.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    expected = 1 if arguments else sum(1 for _ in ROOT.glob("packages/*/src/**/*.py"))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        *arguments,
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        report = json.loads(result.stdout)
    except json.JSONDecodeError:
        print(result.stdout, result.stderr, sep="\n")
        return result.returncode or 1
    problems = [
        entry for entry in report["generalDiagnostics"] if entry["severity"] != "information"
    ]
    for entry in problems:
        start = entry["range"]["start"] if "range" in entry else {"line": 0, "character": 0}
        path = Path(entry["file"]).relative_to(ROOT)
        headline = entry["message"].splitlines()[0]
        print(
            f"{path}:{start['line'] + 1}:{start['character'] + 1}: {headline}"
            f" ({entry.get('rule', 'error')})"
        )
    checked = report["summary"]["filesAnalyzed"]
    print(f"{checked} files checked, {len(problems)} problems")
    if checked < expected:
        print(f"error: expected at least {expected} files")
        return 1
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
