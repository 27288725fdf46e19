"""Install the requirements of a tox environment, and build each distribution of this clone once.

For every editable distribution, pip creates an environment with the build backend, in every tox
environment: some seventy times two seconds. This script installs the backend once, beside tox's
environments. It caches the wheel of an editable distribution, which only holds the path of the
sources, until its `pyproject.toml` or README changes. It does not compile modules, since Python
compiles the imported ones.

    python tools/install.py FOLDER-OF-TOX pytest -e ./packages/svod-dtype -e ./packages/svod-ir[test]

`--oldest` installs the oldest versions of third-party packages that the distributions allow.
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
    folder, *pip_arguments = arguments
    requirements = _replace_editables(
        [a for a in pip_arguments if a != "--oldest"], Path(folder).resolve()
    )
    if "--oldest" not in pip_arguments:
        return _pip(*requirements)
    with tempfile.TemporaryDirectory() as temporary:
        constraints = Path(temporary) / "oldest.txt"
        constraints.write_text(
            "".join(f"{name}=={version}\n" for name, version in _read_lower_bounds().items())
        )
        return _pip("--constraint", str(constraints), *requirements)


def _read_lower_bounds() -> dict[str, str]:
    """Return the highest lower bound that the distributions set on each third-party package."""
    bounds: dict[str, str] = {}
    for path in sorted(Path(__file__).resolve().parent.parent.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        for text in chain(
            project["dependencies"], *project.get("optional-dependencies", {}).values()
        ):
            name, version = re.fullmatch(r"([\w-]+)(?:\[.*\])?(?:[~>]=([\d.]+))?", text).groups()
            if version and not name.startswith("svod-"):
                bounds[name] = max(
                    bounds.get(name, ""),
                    version,
                    key=lambda v: [int(field) for field in v.split(".") if field],
                )
    return bounds


def _replace_editables(arguments: list[str], folder: Path) -> Iterator[str]:
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "-e":
            path, bracket, extras = next(remaining).partition("[")
            yield f"{_find_wheel(Path(path).resolve(), folder)}{bracket}{extras}"
        else:
            yield argument


def _find_wheel(distribution: Path, folder: Path) -> Path:
    """Return the cached editable wheel of a distribution; build it on the first call."""
    inputs = (distribution / "pyproject.toml", distribution / "README.md")
    contents = b"\0".join((str(distribution).encode(), *(path.read_bytes() for path in inputs)))
    target_folder = folder / "editable" / hashlib.sha256(contents).hexdigest()[:16]

    def build(target: Path) -> None:
        requires = tomllib.loads(inputs[0].read_text())["build-system"]["requires"]
        environment = os.environ | {"PYTHONPATH": str(_find_backend(requires, folder))}
        subprocess.run(
            [sys.executable, "-c", BUILD, str(target)],
            cwd=distribution,
            env=environment,
            check=True,
        )

    (wheel,) = _build_once(target_folder, build).glob("*.whl")
    return wheel


def _find_backend(requires: list[str], folder: Path) -> Path:
    """Return the folder of the build backend; install it on the first call."""
    requirements = sorted({*requires, "editables"})
    target_folder = (
        folder / "backend" / hashlib.sha256("\0".join(requirements).encode()).hexdigest()[:16]
    )

    def install(target: Path) -> None:
        if _pip("--quiet", "--target", str(target), *requirements):
            raise SystemExit(f"cannot install {', '.join(requirements)}")

    return _build_once(target_folder, install)


def _build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Build a folder if it does not exist. Safe if several processes build it concurrently."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            built = Path(temporary) / "built"
            built.mkdir()
            build(built)
            try:
                # Renaming is atomic: the first process wins, and the others use its result.
                built.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    return folder


def _pip(*arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-I", "-m", "pip", "install", "--no-compile", *arguments]
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
