"""Release tool: upload order, and the rules of docs/versions.md for versions and changelogs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_policy", TOOLS / "release_policy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "release_policy", module)
    spec.loader.exec_module(module)
    return module


def make(policy: ModuleType, name: str = "svod-till", version=(0, 1, 0), **fields):
    text = policy.to_text(version)
    fields = {
        "requires": {},
        "changelog": f"# Changelog\n\n## {text}\n\n- A till.\n",
        "api": frozenset({"def pay()"}),
    } | fields
    return policy.Candidate(name, version, **fields)


def test_required_distributions_are_uploaded_first(policy: ModuleType) -> None:
    shop = make(policy, "svod-shop", requires={"svod-till": (0, 1, 0), "svod-goods": (0, 1, 0)})
    till = make(policy, "svod-till", requires={"svod-goods": (0, 1, 0)})
    assert [one.name for one in policy.order([shop, till, make(policy, "svod-goods")])] == [
        "svod-goods",
        "svod-till",
        "svod-shop",
    ]


def test_requirements_of_tests_may_be_uploaded_later(policy: ModuleType) -> None:
    till = make(policy, "svod-till", required_by_tests={"svod-checks": (0, 1, 0)})
    checks = make(policy, "svod-checks", requires={"svod-till": (0, 1, 0)})
    assert [one.name for one in policy.order([checks, till])] == ["svod-till", "svod-checks"]
    assert policy.find_problems([checks, till]) == []
    (problem,) = policy.find_problems(
        [replace(checks, version=(0, 2, 0), changelog="\n## 0.2.0\n"), till]
    )
    assert "svod-till requires svod-checks~=0.1.0, which excludes 0.2.0" in problem


def test_the_distributions_of_this_clone_have_an_order(policy: ModuleType) -> None:
    names = [one.name for one in policy.read_candidates(TOOLS.parent)]
    assert names.index("svod-tensor") < names.index("svod-testing")


@pytest.mark.parametrize(
    ("released", "before", "now", "is_changed", "needed"),
    [
        (None, set(), {"def pay()"}, True, (0, 1, 0)),
        ((0, 1, 0), {"def pay()"}, {"def pay()"}, False, (0, 1, 0)),
        ((0, 1, 0), {"def pay()"}, {"def pay()"}, True, (0, 1, 1)),
        ((0, 1, 0), {"def pay()"}, {"def pay()", "def tip()"}, True, (0, 1, 1)),
        ((0, 1, 3), {"def pay(x)"}, {"def pay()"}, True, (0, 2, 0)),
        ((1, 1, 3), {"def pay()"}, {"def pay()"}, True, (1, 1, 4)),
        ((1, 1, 3), {"def pay()"}, {"def pay()", "def tip()"}, True, (1, 2, 0)),
        ((1, 1, 3), {"def pay(x)"}, {"def pay()"}, True, (2, 0, 0)),
    ],
)
def test_changes_require_a_version(
    policy: ModuleType, released, before, now, is_changed, needed
) -> None:
    one = make(
        policy,
        api=frozenset(now),
        released=released,
        released_api=frozenset(before),
        is_changed=is_changed,
    )
    assert policy.find_needed(one) == needed
    late = replace(one, version=needed, changelog=f"\n## {policy.to_text(needed)}\n")
    assert policy.find_problems([late]) == []
    if released and needed != released:
        (problem,) = policy.find_problems(
            [replace(late, version=released, changelog=f"\n## {policy.to_text(released)}\n")]
        )
        assert policy.to_text(needed) in problem


def test_a_changelog_has_the_version_and_nothing_that_waits(policy: ModuleType) -> None:
    assert policy.find_problems([make(policy)]) == []
    assert "no section 0.1.0" in policy.find_problems([make(policy, changelog="# Changelog\n")])[0]
    waiting = "# Changelog\n\n## Unreleased\n\n- Tips.\n\n## 0.1.0\n\n- A till.\n"
    assert "Unreleased" in policy.find_problems([make(policy, changelog=waiting)])[0]
    assert policy.find_problems([make(policy, changelog=waiting.replace("- Tips.\n\n", ""))]) == []


@pytest.mark.parametrize(
    ("least", "is_taken"),
    [((0, 1, 0), True), ((0, 1, 2), False), ((0, 2, 0), False), ((1, 1, 0), False)],
)
def test_a_requirement_takes_what_is_released_with_it(
    policy: ModuleType, least, is_taken: bool
) -> None:
    problems = policy.find_problems(
        [make(policy), make(policy, "svod-shop", requires={"svod-till": least})]
    )
    assert (problems == []) == is_taken


def test_a_clone_is_read_with_its_tags(policy: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "packages" / "svod-till"
    (folder / "src").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "svod-till"\nversion = "0.1.0"\ndependencies = ["numpy>=2",'
        ' "svod-goods[test]~=0.1.2"]\n'
    )
    (folder / "CHANGELOG.md").write_text("\n## 0.1.0\n")
    (folder / "api.txt").write_text("# Head\n\nsvod_till\n    class Till\n        def pay()\n")

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    git("init")
    git("add", ".")
    git("commit", "-m", "Sell")
    (first,) = policy.read_candidates(tmp_path)
    assert (first.released, first.requires) == (None, {"svod-goods": (0, 1, 2)})
    git("tag", "svod-till-0.1.0")
    (second,) = policy.read_candidates(tmp_path)
    assert (second.released, second.is_changed, second.released_api) == (
        (0, 1, 0),
        False,
        first.api,
    )
    (folder / "api.txt").write_text("svod_till\n    class Drawer\n        def pay()\n")
    (folder / "src" / "till.py").write_text("")
    git("add", ".")
    (third,) = policy.read_candidates(tmp_path)
    assert third.is_changed and policy.find_needed(third) == (0, 2, 0)


def test_checks_of_wheels_do_not_see_the_sources_of_a_checkout(
    policy: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert policy is not None  # the module that the tool imports
    spec = importlib.util.spec_from_file_location("release", TOOLS / "release.py")
    assert spec is not None and spec.loader is not None
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    release._run(sys.executable, "-c", "import os; assert 'PYTHONPATH' not in os.environ")
