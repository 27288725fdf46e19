"""What docs/versions.md asks of a release: which distributions changed since their last tags, and
whether their versions say so.
"""

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
    """A distribution as it would be released.

    Attributes:
        name: as in `pip install`.
        version: that of its pyproject.toml.
        requires: the versions from which on it takes its siblings.
        required_by_tests: the same, of siblings that its extra `test` alone names: they may be
            uploaded later.
        changelog: the whole text.
        api: the lines of its `api.txt`.
        released: the version of its last tag; None where there is none.
        released_api: the lines at that tag.
        is_changed: whether what is installed differs from that tag.
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
    """All distributions of a clone, with what their tags `NAME-VERSION` say, in the order in which
    they are released.
    """
    return order(
        [
            _read_candidate(root, path.parent)
            for path in sorted(root.glob("packages/*/pyproject.toml"))
        ]
    )


def order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each behind those that it requires."""
    named = {one.name: one for one in candidates}
    graph = {
        name: sorted(one.requires.keys() & named.keys()) for name, one in sorted(named.items())
    }
    return [named[name] for name in TopologicalSorter(graph).static_order()]


def find_needed(one: Candidate) -> Version:
    """The least version that may be released: docs/versions.md reads it from the lines of
    `api.txt`.
    """
    if one.released is None:
        return one.version
    major, minor, patch = one.released
    gone, added = one.released_api - one.api, one.api - one.released_api
    if major == 0:
        return (
            (0, minor + 1, 0) if gone else (0, minor, patch + (1 if added or one.is_changed else 0))
        )
    if gone:
        return (major + 1, 0, 0)
    return (major, minor + 1, 0) if added else (major, minor, patch + (1 if one.is_changed else 0))


def find_problems(candidates: Iterable[Candidate]) -> list[str]:
    """What must be mended before a release, a line for each."""
    named = {one.name: one for one in candidates}
    problems: list[str] = []
    for one in named.values():
        if one.version < (needed := find_needed(one)):
            problems.append(
                f"{one.name} {to_text(one.version)}: what changed since the last tag asks for"
                f" {to_text(needed)}"
            )
        if f"\n## {to_text(one.version)}\n" not in one.changelog:
            problems.append(f"{one.name}: CHANGELOG.md has no section {to_text(one.version)}")
        if one.is_changed and _get_section(one.changelog, "Unreleased"):
            problems.append(
                f"{one.name}: CHANGELOG.md has lines under Unreleased that belong to a version"
            )
        for name, least in [*one.requires.items(), *one.required_by_tests.items()]:
            if name in named and not is_compatible(named[name].version, least):
                have = to_text(named[name].version)
                problems.append(
                    f"{one.name} requires {name}~={to_text(least)}, which leaves out {have}"
                )
    return problems


def is_compatible(version: Version, least: Version) -> bool:
    """Whether `~=least` takes a version."""
    return version[:2] == least[:2] and version >= least


def to_text(version: Version) -> str:
    return ".".join(map(str, version))


def _read_candidate(root: Path, folder: Path) -> Candidate:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = dict(project.get("optional-dependencies", {}))
    tests = _read_requirements(extras.pop("test", []))
    requires = _read_requirements(chain(project["dependencies"], *extras.values()))
    required_by_tests = {
        sibling: least for sibling, least in tests.items() if requires.get(sibling) != least
    }
    name, place = project["name"], folder.relative_to(root)
    one = Candidate(
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
        return one
    released = max(tags)
    tag = f"{name}-{to_text(released)}"
    api = _read_lines(_git(root, "show", f"{tag}:{place}/api.txt"))
    changed = _git(
        root, "diff", "--name-only", tag, "--", f"{place}/src", f"{place}/pyproject.toml"
    )
    return replace(one, released=released, released_api=api, is_changed=bool(changed))


def _read_requirements(texts: Iterable[str]) -> dict[str, Version]:
    """The siblings among requirements, each with its least version."""
    matches = filter(None, map(REQUIREMENT.match, texts))
    return {match[1]: (int(match[2]), int(match[3]), int(match[4])) for match in matches}


def _read_lines(text: str) -> frozenset[str]:
    """Each line with what it stands under, so that a method is one of its class."""
    found: set[str] = set()
    above: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            depth = (len(line) - len(line.lstrip())) // 4
            above = [*above[:depth], line.strip()]
            found.add(" / ".join(above))
    return frozenset(found)


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
