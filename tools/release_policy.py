"""Release rules of docs/versions.md: find changed distributions and check their versions."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

__all__ = ["Candidate", "find_needed", "find_problems", "order", "read_candidates"]

Version = tuple[int, int, int]
REQUIREMENT = re.compile(r"(svod-\w+)(?:\[[\w,]+\])?\s*~=\s*(\d+)\.(\d+)\.(\d+)$")


@dataclass(frozen=True)
class Candidate:
    """Distribution that may be released.

    Attributes:
        name: name on PyPI.
        version: version in its pyproject.toml.
        requires: minimum version of each required svod distribution.
        required_by_tests: minimum versions of distributions that only its extra `test` requires;
            these may be uploaded later.
        changelog: text of its CHANGELOG.md.
        api: lines of its `api.txt`.
        released: version of its last tag; None if it has no tag.
        released_api: lines of `api.txt` at that tag.
        is_changed: True if the installed files differ from that tag.
    """

    name: str
    version: Version
    requires: Mapping[str, Version]
    changelog: str
    api: frozenset[str]
    released: Version | None = None
    released_api: frozenset[str] = frozenset()
    is_changed: bool = True
    required_by_tests: Mapping[str, Version] = field(default_factory=dict[str, Version])


def read_candidates(root: Path) -> list[Candidate]:
    """Read all distributions of a clone and their tags `NAME-VERSION`, in release order."""
    return order(
        [
            _read_candidate(root, path.parent)
            for path in sorted(root.glob("packages/*/pyproject.toml"))
        ]
    )


def order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort distributions topologically: each comes after its requirements."""
    named = {candidate.name: candidate for candidate in candidates}
    graph = {
        name: sorted(candidate.requires.keys() & named.keys())
        for name, candidate in sorted(named.items())
    }
    return [named[name] for name in TopologicalSorter(graph).static_order()]


def find_needed(candidate: Candidate) -> Version:
    """Return the minimum version that docs/versions.md allows for the change of `api.txt`."""
    if candidate.released is None:
        return candidate.version
    major, minor, patch = candidate.released
    removed, added = candidate.released_api - candidate.api, candidate.api - candidate.released_api
    if major == 0:
        return (
            (0, minor + 1, 0)
            if removed
            else (0, minor, patch + (1 if added or candidate.is_changed else 0))
        )
    if removed:
        return (major + 1, 0, 0)
    return (
        (major, minor + 1, 0)
        if added
        else (major, minor, patch + (1 if candidate.is_changed else 0))
    )


def find_problems(candidates: Iterable[Candidate]) -> list[str]:
    """Return the problems that block a release, one line each."""
    named = {candidate.name: candidate for candidate in candidates}
    problems: list[str] = []
    for candidate in named.values():
        if candidate.version < (needed := find_needed(candidate)):
            problems.append(
                f"{candidate.name} {to_text(candidate.version)}: changes since the last tag"
                f" require at least {to_text(needed)}"
            )
        if f"\n## {to_text(candidate.version)}\n" not in candidate.changelog:
            problems.append(
                f"{candidate.name}: CHANGELOG.md has no section {to_text(candidate.version)}"
            )
        if candidate.is_changed and _get_section(candidate.changelog, "Unreleased"):
            problems.append(
                f"{candidate.name}: CHANGELOG.md has lines under Unreleased; move them to a version"
            )
        for name, minimum in [*candidate.requires.items(), *candidate.required_by_tests.items()]:
            if name in named and not is_compatible(named[name].version, minimum):
                have = to_text(named[name].version)
                problems.append(
                    f"{candidate.name} requires {name}~={to_text(minimum)}, which excludes {have}"
                )
    return problems


def is_compatible(version: Version, minimum: Version) -> bool:
    """True if the version satisfies `~=minimum`."""
    return version[:2] == minimum[:2] and version >= minimum


def to_text(version: Version) -> str:
    return ".".join(map(str, version))


def _read_candidate(root: Path, folder: Path) -> Candidate:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = dict(project.get("optional-dependencies", {}))
    tests = _read_requirements(extras.pop("test", []))
    requires = _read_requirements(chain(project["dependencies"], *extras.values()))
    required_by_tests = {
        sibling: minimum for sibling, minimum in tests.items() if requires.get(sibling) != minimum
    }
    name, relative_folder = project["name"], folder.relative_to(root)
    candidate = Candidate(
        name,
        _parse(project["version"]),
        requires,
        (folder / "CHANGELOG.md").read_text(),
        _read_lines((folder / "api.txt").read_text()),
        required_by_tests=required_by_tests,
    )
    tags = [
        _parse(tag.removeprefix(f"{name}-"))
        for tag in _git(root, "tag", "--list", f"{name}-*").split()
    ]
    if not tags:
        return candidate
    released = max(tags)
    tag = f"{name}-{to_text(released)}"
    api = _read_lines(_git(root, "show", f"{tag}:{relative_folder}/api.txt"))
    changed = _git(
        root,
        "diff",
        "--name-only",
        tag,
        "--",
        f"{relative_folder}/src",
        f"{relative_folder}/pyproject.toml",
    )
    return replace(candidate, released=released, released_api=api, is_changed=bool(changed))


def _read_requirements(texts: Iterable[str]) -> dict[str, Version]:
    """Return the minimum version of each svod distribution among requirements."""
    matches = filter(None, map(REQUIREMENT.match, texts))
    return {match[1]: (int(match[2]), int(match[3]), int(match[4])) for match in matches}


def _read_lines(text: str) -> frozenset[str]:
    """Return each line joined with its parent lines, such as a method with its class."""
    lines: set[str] = set()
    parents: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            depth = (len(line) - len(line.lstrip())) // 4
            parents = [*parents[:depth], line.strip()]
            lines.add(" / ".join(parents))
    return frozenset(lines)


def _get_section(changelog: str, title: str) -> str:
    match = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def _parse(text: str) -> Version:
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout
