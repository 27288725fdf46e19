"""Build and check the files of a release in dist/, without uploading them.

python tools/release.py                     # build and check changed distributions
python tools/release.py --check             # only check versions against docs/versions.md
python tools/release.py --tests svod-ir     # run the tests of these sdists too; `--tests all` runs all of them

`dist/UPLOAD.md` lists the upload commands for the release manager.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from release_policy import Candidate, find_problems, read_candidates, to_text

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Build and check the files of a release, in upload order."
    )
    parser.add_argument("--check", action="store_true", help="check only versions and changelogs")
    parser.add_argument(
        "--draft", action="store_true", help="build although versions or changelogs are not ready"
    )
    parser.add_argument(
        "--tests",
        nargs="*",
        default=[],
        metavar="NAME",
        help="run the tests of these sdists, or of all sdists",
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    options = parser.parse_args(arguments)
    candidates = read_candidates(ROOT)
    to_release = [c for c in candidates if c.is_changed or c.released is None]
    for candidate in candidates:
        last = f"after {to_text(candidate.released)}" if candidate.released else "the first release"
        print(
            f"{candidate.name} {to_text(candidate.version)}:"
            f" {last if candidate in to_release else 'unchanged since its release'}"
        )
    problems = find_problems(candidates)
    print(*(f"problem: {problem}" for problem in problems), sep="\n" if problems else "")
    if options.check or (problems and not options.draft):
        return 1 if problems else 0
    build(candidates, options.folder)
    check_files(options.folder)
    with tempfile.TemporaryDirectory() as scratch:
        third_party = Path(scratch) / "third-party"
        fetch_third_party(options.folder, candidates, third_party)
        for candidate in candidates:
            check_isolated(candidate, options.folder, third_party, Path(scratch) / candidate.name)
        for candidate in candidates:
            if candidate.name in options.tests or "all" in options.tests:
                run_own_tests(
                    candidate,
                    options.folder,
                    third_party,
                    Path(scratch) / f"{candidate.name}-tests",
                )
    for candidate in candidates:
        if candidate not in to_release:
            for path in find_files(candidate, options.folder):
                path.unlink()
    (options.folder / "UPLOAD.md").write_text(describe_upload(to_release, problems))
    print(f"{options.folder}/UPLOAD.md has the commands for {len(to_release)} distributions")
    return 0


def build(candidates: Sequence[Candidate], folder: Path) -> None:
    """Build the sdist of each candidate, and its wheel from the unpacked sdist."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        for candidate in candidates:
            source = ROOT / "packages" / candidate.name
            _run(
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "sdist",
                "-d",
                str(folder),
                cwd=source,
            )
            unpacked = unpack(candidate, folder, Path(scratch))
            _run(
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "wheel",
                "-d",
                str(folder),
                cwd=unpacked,
            )


def check_files(folder: Path) -> None:
    """Check the metadata for PyPI and the contents of the wheels."""
    files = sorted(map(str, [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]))
    _run(sys.executable, "-m", "twine", "check", "--strict", *files)
    # W002 reports identical files. Empty `__init__.py` files are identical on purpose.
    wheels = [name for name in files if name.endswith(".whl")]
    _run(sys.executable, "-m", "check_wheel_contents", "--ignore", "W002", *wheels)


def fetch_third_party(folder: Path, candidates: Sequence[Candidate], third_party: Path) -> None:
    """Download the wheels of third-party requirements, also for the tests."""
    names = [
        f"{candidate.name}[test]" if _has_test_extra(candidate) else candidate.name
        for candidate in candidates
    ]
    links = ["--find-links", str(folder)]
    _run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "-w",
        str(third_party),
        *links,
        "pytest-xdist>=3.6",
        *names,
    )
    for path in third_party.glob("svod_*"):
        path.unlink()


def check_isolated(
    candidate: Candidate, folder: Path, third_party: Path, environment: Path
) -> None:
    """Install a distribution with only its declared dependencies, and import it."""
    python = _make_environment(environment, folder, third_party, candidate.name)
    package = candidate.name.replace("-", "_")
    _run(
        python,
        "-I",
        "-c",
        f"import {package}; assert {str(environment)!r} in {package}.__file__",
        cwd=environment,
    )
    print(f"{candidate.name}: installs and imports in isolation")


def run_own_tests(candidate: Candidate, folder: Path, third_party: Path, environment: Path) -> None:
    """Run the tests in an sdist against the installed wheels."""
    extra = "[test]" if _has_test_extra(candidate) else ""
    requirements = (f"{candidate.name}{extra}", "pytest-xdist")
    python = _make_environment(environment, folder, third_party, *requirements)
    source = unpack(candidate, folder, environment / "sdist")
    _run(
        python,
        "-m",
        "pytest",
        "-q",
        "--import-mode=importlib",
        "--rootdir=.",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "tests",
        cwd=source,
    )


def unpack(candidate: Candidate, folder: Path, target: Path) -> Path:
    (path,) = (path for path in find_files(candidate, folder) if path.name.endswith(".tar.gz"))
    with tarfile.open(path) as archive:
        archive.extractall(target, filter="data")
    return target / path.name.removesuffix(".tar.gz")


def find_files(candidate: Candidate, folder: Path) -> list[Path]:
    """Return the paths of the sdist and the wheel, sorted by name."""
    return sorted(
        folder.glob(f"{candidate.name.replace('-', '_')}-{to_text(candidate.version)}[-.]*")
    )


def describe_upload(released: Sequence[Candidate], problems: Sequence[str]) -> str:
    """Return the text of UPLOAD.md."""
    lines = [
        "# Upload",
        "",
        (
            "Upload in this order: each distribution requires earlier ones. A file name cannot be"
            " uploaded a second time."
        ),
        "",
    ]
    if problems:
        lines += [
            "**A draft. Do not upload it:**",
            "",
            *(f"- {problem}" for problem in problems),
            "",
        ]
    lines += ["```console"]
    for candidate in released:
        stem = f"{candidate.name.replace('-', '_')}-{to_text(candidate.version)}"
        lines.append(f"$ twine upload {stem}.tar.gz {stem}-py3-none-any.whl")
    lines += [
        "```",
        "",
        "Then tag the uploaded versions, with which the next release is compared:",
        "",
        "```console",
    ]
    lines += [f"$ git tag {candidate.name}-{to_text(candidate.version)}" for candidate in released]
    return "\n".join([*lines, "$ git push --tags", "```", ""])


def _make_environment(
    environment: Path, folder: Path, third_party: Path, *requirements: str
) -> str:
    venv.create(environment, with_pip=True)
    python = str(environment / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    links = ["--no-index", "--find-links", str(folder), "--find-links", str(third_party)]
    _run(python, "-m", "pip", "install", "-q", "--no-compile", *links, *requirements)
    return python


def _has_test_extra(candidate: Candidate) -> bool:
    return "\ntest = " in (ROOT / "packages" / candidate.name / "pyproject.toml").read_text()


def _run(*command: str, cwd: Path = ROOT) -> None:
    # Without PYTHONPATH: installed wheels are checked, not the sources of a checkout.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=cwd, check=True, env=environment)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
