"""Run the type checker over every distribution's sources, and fail too when it looked at fewer
files than there are.
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
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        print(done.stdout, done.stderr, sep="\n")
        return done.returncode or 1
    problems = [
        entry for entry in report["generalDiagnostics"] if entry["severity"] != "information"
    ]
    for entry in problems:
        place = entry["range"]["start"] if "range" in entry else {"line": 0, "character": 0}
        path = Path(entry["file"]).relative_to(ROOT)
        headline = entry["message"].splitlines()[0]
        print(
            f"{path}:{place['line'] + 1}:{place['character'] + 1}: {headline}"
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
