"""Make what a release uploads: `python tools/release.py` builds, checks and orders it in dist/, and
uploads nothing.

python tools/release.py                     # build and check what changed since the last tags
python tools/release.py --check             # say what docs/versions.md asks for, and build nothing
python tools/release.py --tests svod-ir     # run the tests of these sdists too; `--tests all` runs all of them

`dist/UPLOAD.md` has the commands that a person with an account gives.
"""

from __future__ import annotations

import argparse
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
    parser = argparse.ArgumentParser(description="Build, check and order what a release uploads.")
    parser.add_argument(
        "--check", action="store_true", help="look at versions and changelogs alone"
    )
    parser.add_argument(
        "--draft", action="store_true", help="build although versions or changelogs are not ready"
    )
    parser.add_argument(
        "--tests",
        nargs="*",
        default=[],
        metavar="NAME",
        help="run the tests of these sdists, or of all",
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    options = parser.parse_args(arguments)
    every = read_candidates(ROOT)
    released = [one for one in every if one.is_changed or one.released is None]
    for one in every:
        last = f"after {to_text(one.released)}" if one.released else "the first release"
        print(
            f"{one.name} {to_text(one.version)}:"
            f" {last if one in released else 'as it was released'}"
        )
    problems = find_problems(every)
    print(*(f"problem: {problem}" for problem in problems), sep="\n" if problems else "")
    if options.check or (problems and not options.draft):
        return 1 if problems else 0
    build(every, options.folder)
    check_files(options.folder)
    with tempfile.TemporaryDirectory() as scratch:
        others = Path(scratch) / "others"
        fetch_others(options.folder, every, others)
        for one in every:
            check_alone(one, options.folder, others, Path(scratch) / one.name)
        for one in every:
            if one.name in options.tests or "all" in options.tests:
                run_own_tests(one, options.folder, others, Path(scratch) / f"{one.name}-tests")
    for one in every:
        if one not in released:
            for path in find_files(one, options.folder):
                path.unlink()
    (options.folder / "UPLOAD.md").write_text(describe_upload(released, problems))
    print(f"{options.folder}/UPLOAD.md says what to do with {len(released)} distributions")
    return 0


def build(candidates: Sequence[Candidate], folder: Path) -> None:
    """An sdist of each, and the wheel that this sdist makes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        for one in candidates:
            source = ROOT / "packages" / one.name
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
            unpacked = unpack(one, folder, Path(scratch))
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
    """What PyPI would refuse, and what does not belong into a wheel."""
    files = sorted(map(str, [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]))
    _run(sys.executable, "-m", "twine", "check", "--strict", *files)
    # W002: an empty `__init__.py` is the same in each package that has one. Each wheel has one
    # package.
    wheels = [name for name in files if name.endswith(".whl")]
    _run(sys.executable, "-m", "check_wheel_contents", "--ignore", "W002", *wheels)


def fetch_others(folder: Path, candidates: Sequence[Candidate], others: Path) -> None:
    """The wheels of other projects that ours need, the tests' too."""
    names = [f"{one.name}[test]" if _has_test_extra(one) else one.name for one in candidates]
    links = ["--find-links", str(folder)]
    _run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "-w",
        str(others),
        *links,
        "pytest-xdist>=3.6",
        *names,
    )
    for path in others.glob("svod_*"):
        path.unlink()


def check_alone(one: Candidate, folder: Path, others: Path, place: Path) -> None:
    """Install a distribution with what it declares and nothing else, and import it from there."""
    python = _make_environment(place, folder, others, one.name)
    package = one.name.replace("-", "_")
    _run(
        python,
        "-I",
        "-c",
        f"import {package}; assert {str(place)!r} in {package}.__file__",
        cwd=place,
    )
    print(f"{one.name}: installs and imports alone")


def run_own_tests(one: Candidate, folder: Path, others: Path, place: Path) -> None:
    """Run the tests that an sdist has, on the wheels."""
    extra = "[test]" if _has_test_extra(one) else ""
    python = _make_environment(place, folder, others, f"{one.name}{extra}", "pytest-xdist")
    source = unpack(one, folder, place / "sdist")
    _run(
        python,
        "-m",
        "pytest",
        "-q",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "tests",
        cwd=source,
    )


def unpack(one: Candidate, folder: Path, place: Path) -> Path:
    (path,) = (path for path in find_files(one, folder) if path.name.endswith(".tar.gz"))
    with tarfile.open(path) as archive:
        archive.extractall(place, filter="data")
    return place / path.name.removesuffix(".tar.gz")


def find_files(one: Candidate, folder: Path) -> list[Path]:
    """The wheel and the sdist, in the order of their names."""
    return sorted(folder.glob(f"{one.name.replace('-', '_')}-{to_text(one.version)}[-.]*"))


def describe_upload(released: Sequence[Candidate], problems: Sequence[str]) -> str:
    """The page for whoever uploads."""
    lines = [
        "# Upload",
        "",
        (
            "In this order, since each needs those before it. A name that was uploaded is used up"
            " for good."
        ),
        "",
    ]
    if problems:
        lines += [
            "**A draft, not to be uploaded:**",
            "",
            *(f"- {problem}" for problem in problems),
            "",
        ]
    lines += ["```console"]
    for one in released:
        stem = f"{one.name.replace('-', '_')}-{to_text(one.version)}"
        lines.append(f"$ twine upload {stem}.tar.gz {stem}-py3-none-any.whl")
    lines += [
        "```",
        "",
        "Then tag what was uploaded, so that the next release knows what changed:",
        "",
        "```console",
    ]
    lines += [f"$ git tag {one.name}-{to_text(one.version)}" for one in released]
    return "\n".join([*lines, "$ git push --tags", "```", ""])


def _make_environment(place: Path, folder: Path, others: Path, *requirements: str) -> str:
    venv.create(place, with_pip=True)
    python = str(place / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    links = ["--no-index", "--find-links", str(folder), "--find-links", str(others)]
    _run(python, "-m", "pip", "install", "-q", "--no-compile", *links, *requirements)
    return python


def _has_test_extra(one: Candidate) -> bool:
    return "\ntest = " in (ROOT / "packages" / one.name / "pyproject.toml").read_text()


def _run(*command: str, cwd: Path = ROOT) -> None:
    subprocess.run(command, cwd=cwd, check=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
