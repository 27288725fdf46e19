"""Install what an environment of tox asks for, as `pip install` does, and build each distribution
of this clone once.

pip makes an environment with the build backend for every editable distribution, in every
environment anew: some seventy times two seconds. Here the backend is installed once, beside tox's
environments, and the wheel of an editable distribution, which says no more than where the sources
are, is kept until its `pyproject.toml` or README changes. Python compiles the modules that are
imported, and not all that a package has.

    python tools/install.py FOLDER-OF-TOX pytest -e ./packages/svod-dtype -e ./packages/svod-ir[test]

With `--oldest` every other package comes in the oldest version that the distributions allow.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

BUILD = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"


def main(arguments: list[str]) -> int:
    folder, *rest = arguments
    wanted = _replace_editables([a for a in rest if a != "--oldest"], Path(folder).resolve())
    if "--oldest" not in rest:
        return _pip(*wanted)
    with tempfile.TemporaryDirectory() as temporary:
        constraints = Path(temporary) / "oldest.txt"
        constraints.write_text(
            "".join(f"{name}=={version}\n" for name, version in _read_lower_bounds().items())
        )
        return _pip("--constraint", str(constraints), *wanted)


def _read_lower_bounds() -> dict[str, str]:
    """The oldest version of each package of others that some distribution requires."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).resolve().parent.parent.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        for text in chain(
            project["dependencies"], *project.get("optional-dependencies", {}).values()
        ):
            name, version = re.fullmatch(r"([\w-]+)(?:\[.*\])?(?:[~>]=([\d.]+))?", text).groups()
            if version and not name.startswith("svod-"):
                found[name] = max(
                    found.get(name, ""),
                    version,
                    key=lambda v: [int(part) for part in v.split(".") if part],
                )
    return found


def _replace_editables(arguments: list[str], folder: Path) -> Iterator[str]:
    left = iter(arguments)
    for argument in left:
        if argument == "-e":
            place, bracket, extras = next(left).partition("[")
            yield f"{_find_wheel(Path(place).resolve(), folder)}{bracket}{extras}"
        else:
            yield argument


def _find_wheel(distribution: Path, folder: Path) -> Path:
    """The editable wheel of the distribution, built if it is not there."""
    described = (distribution / "pyproject.toml", distribution / "README.md")
    contents = b"\0".join((str(distribution).encode(), *(path.read_bytes() for path in described)))
    place = folder / "editable" / hashlib.sha256(contents).hexdigest()[:16]

    def build(target: Path) -> None:
        requires = tomllib.loads(described[0].read_text())["build-system"]["requires"]
        environment = os.environ | {"PYTHONPATH": str(_find_backend(requires, folder))}
        subprocess.run(
            [sys.executable, "-c", BUILD, str(target)],
            cwd=distribution,
            env=environment,
            check=True,
        )

    (wheel,) = _make_once(place, build).glob("*.whl")
    return wheel


def _find_backend(requires: list[str], folder: Path) -> Path:
    """A folder with the build backend, installed if it is not there."""
    wanted = sorted({*requires, "editables"})
    place = folder / "backend" / hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:16]

    def install(target: Path) -> None:
        if _pip("--quiet", "--target", str(target), *wanted):
            raise SystemExit(f"cannot install {', '.join(wanted)}")

    return _make_once(place, install)


def _make_once(place: Path, make: Callable[[Path], None]) -> Path:
    """The folder, filled if it is not there; another process may do the same at the same time."""
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
            made = Path(temporary) / "made"
            made.mkdir()
            make(made)
            try:
                made.rename(place)
            except OSError:
                if not place.is_dir():
                    raise
    return place


def _pip(*arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-I", "-m", "pip", "install", "--no-compile", *arguments]
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
