"""Programs with a failing cache: results are right, nothing is raised, and at most one warning is
logged.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import numpy as np
from svod_tensor import Tensor
from svod_tensor.engine import compute

rendered = []
render = compute.render
compute.render = lambda *args: rendered.append(1) or render(*args)
x = np.arange(60, dtype=np.float32).reshape(6, 10) / 7

def check(between=lambda: None):
    for scale in (2, 3):
        np.testing.assert_allclose((Tensor(x) * scale + 1).sum(1).numpy(), (x * scale + 1).sum(1), rtol=1e-5)
        between()
        np.testing.assert_allclose((Tensor(x) * Tensor(x) - scale).numpy(), x * x - scale, rtol=1e-5)
        between()
"""
CHECK = PROGRAM + "check()\nprint(len(rendered))\n"
posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="mounts and files of Linux")


def make_environment(cache: Path, **changes: str) -> dict[str, str]:
    return {
        **os.environ,
        "SVOD_CACHE_DIR": str(cache),
        "SVOD_KERNEL_STORE": "1",
        "SVOD_THREADS": "2",
        **changes,
    }


def run(
    cache: Path,
    program: str = CHECK,
    *,
    wrapper: tuple[str, ...] = (),
    n_warnings: int = 0,
    **changes: str,
) -> list[str]:
    """Run a program that must succeed, and return its printed words."""
    command = [*wrapper, sys.executable, "-W", "always::RuntimeWarning", "-c", program]
    environment = make_environment(cache, **changes)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning: svod") == n_warnings, done.stderr
    return done.stdout.split()


def count_rendered(cache: Path, **keywords: object) -> int:
    return int(run(cache, **keywords)[-1])


def list_entries(cache: Path, kind: str = "*") -> list[Path]:
    return sorted(cache.glob(f"{kind}/*/*.svo"))


@pytest.fixture(scope="module")
def full_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("full") / "cache"
    assert count_rendered(cache) > 0
    return cache


@pytest.fixture
def cache(full_cache: Path, tmp_path: Path) -> Path:
    """Copy of the cache of an earlier process."""
    return Path(shutil.copytree(full_cache, tmp_path / "cache"))


def on_disk_of_its_own(folder: Path, options: str, source: Path | None = None) -> tuple[str, ...]:
    """Return a command that runs with a small file system at `folder`, filled with a copy of
    `source`.
    """
    folder.mkdir()
    fill = "true" if source is None else f'cp -a "{source}" "{folder}/cache"'
    script = (
        f'mount -t tmpfs none "{folder}" && {fill} && mount -o remount,{options} "{folder}" && exec'
        ' "$@"'
    )
    wrapper = ("unshare", "--mount", "sh", "-c", script, "sh")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no right to mount")
    return wrapper


@linux_only
@pytest.mark.parametrize("options", ["size=8k", "nr_inodes=12", "ro"])
def test_on_a_full_or_read_only_disk_a_program_is_right_and_warns_once(
    tmp_path: Path, options: str
):
    disk = tmp_path / "disk"
    assert (
        count_rendered(disk / "cache", wrapper=on_disk_of_its_own(disk, options), n_warnings=1) > 0
    )


@linux_only
def test_entries_on_a_read_only_disk_are_used(tmp_path: Path, full_cache: Path):
    disk = tmp_path / "disk"
    wrapper = on_disk_of_its_own(disk, "ro", full_cache)
    assert count_rendered(disk / "cache", wrapper=wrapper, n_warnings=0) == 0


@linux_only
@pytest.mark.parametrize("place", ["/proc/svod", "/dev/full"])
def test_without_a_usable_cache_directory_a_program_is_right_and_warns_once(place: str):
    assert count_rendered(Path(place), n_warnings=1) > 0


@posix_only
def test_a_directory_that_others_can_write_is_not_used(cache: Path):
    cache.chmod(0o777)
    before = list_entries(cache)
    assert count_rendered(cache, n_warnings=1) > 0
    assert list_entries(cache) == before


def test_without_a_home_a_program_is_right(tmp_path: Path):
    changes = {"HOME": str(tmp_path / "gone"), "XDG_CACHE_HOME": "", "SVOD_CACHE_DIR": ""}
    assert count_rendered(tmp_path, **changes) > 0
    changes = {"HOME": "/dev/null", "XDG_CACHE_HOME": "", "SVOD_CACHE_DIR": ""}
    assert count_rendered(tmp_path, n_warnings=1 if sys.platform == "linux" else 0, **changes) > 0


REMOVE_MEANWHILE = """\
import os, shutil
from svod_tensor import clear_caches
check(lambda: shutil.rmtree(os.environ["SVOD_CACHE_DIR"]))
clear_caches()
check()
"""


def test_the_directory_may_vanish_while_a_program_runs(tmp_path: Path):
    run(tmp_path / "cache", PROGRAM + REMOVE_MEANWHILE)
    assert list_entries(tmp_path / "cache") != []


def test_processes_that_compile_the_same_kernels_at_once_are_all_right(tmp_path: Path):
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", CHECK]
    environment = make_environment(tmp_path / "cache")
    workers = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    for worker in workers:
        _, problems = worker.communicate()
        assert (worker.returncode, problems) == (0, b"")
    assert count_rendered(tmp_path / "cache") == 0


def test_processes_that_evict_each_others_kernels_are_all_right(tmp_path: Path):
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", CHECK]
    environment = make_environment(tmp_path / "cache", SVOD_OBJECT_CACHE_MAX_BYTES="12000")
    workers = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for worker in workers:
        _, problems = worker.communicate()
        assert (worker.returncode, problems) == (0, b"")
    for kind in ("objects", "kernels"):
        assert sum(path.stat().st_size for path in list_entries(tmp_path / "cache", kind)) <= 12000


DIE_IN_THE_STORE = """\
import os, sys
from svod_codegen import disk_store
from svod_codegen.testing import kill_at_line

put = disk_store.DiskStore.put

def put_and_die(*arguments):
    kill_at_line(disk_store, int(os.environ["DIE_AT_LINE"]))
    put(*arguments)
    sys.settrace(None)

disk_store.DiskStore.put = put_and_die
check()
print("never here")
"""


@posix_only
def test_a_program_killed_while_it_stores_leaves_a_cache_that_the_next_one_can_use(tmp_path: Path):
    command = [sys.executable, "-c", PROGRAM + DIE_IN_THE_STORE]
    for line in (3, 21, 33, 60):
        killed = subprocess.run(
            command, env=make_environment(tmp_path, DIE_AT_LINE=str(line)), check=False
        )
        assert killed.returncode == -signal.SIGKILL
    assert count_rendered(tmp_path) > 0
    assert count_rendered(tmp_path) == 0


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


DAMAGE = {
    "empty": lambda _: b"",
    "cut in the middle": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + b"\0",
    "of an older format": lambda data: data[:10] + b"\x01" + data[11:],
    "of a newer format": lambda data: data[:10] + b"\x03" + data[11:],
    "a bit of the digest": lambda data: flip(data, 30),
    "a bit of the facts": lambda data: flip(data, 80),
    "a bit of the code": lambda data: flip(data, len(data) - 700),
}


@pytest.mark.parametrize("first", range(0, len(DAMAGE), 4))
def test_damaged_entries_are_rebuilt_silently(cache: Path, first: int):
    paths = {kind: list_entries(cache, kind) for kind in ("graphs", "kernels", "objects")}
    assert len(paths["objects"]) >= len(paths["kernels"]) == 4
    damage = list(DAMAGE.values())[first:][:4]
    for found in paths.values():
        for path, do in zip(found, damage, strict=False):
            path.write_bytes(do(path.read_bytes()))
    assert count_rendered(cache) == 4
    assert {kind: list_entries(cache, kind) for kind in paths} == paths
    assert count_rendered(cache) == 0


def test_entries_with_swapped_names_are_rebuilt(cache: Path):
    for kind in ("objects", "kernels", "graphs"):
        paths = list_entries(cache, kind)
        contents = [path.read_bytes() for path in paths]
        assert len(paths) >= 2
        for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
            path.write_bytes(content)
    assert count_rendered(cache) > 0
    assert count_rendered(cache) == 0


ON_ANOTHER_PROCESSOR = """\
from svod_codegen.llvm import cached
cached.host_key = lambda: "another processor"
"""


def test_a_cache_of_another_processor_is_not_used_and_stays(cache: Path):
    before = list_entries(cache)
    shutil.rmtree(cache)
    other = int(run(cache, ON_ANOTHER_PROCESSOR + CHECK)[-1])
    theirs = list_entries(cache)
    assert count_rendered(cache) == other
    assert set(list_entries(cache)) == {*theirs, *before}
    # Graphs do not depend on the processor, only on the target.
    assert set(theirs) & set(before) == set(list_entries(cache, "graphs"))


SWAP_PROCESSORS = """\
from svod_codegen.disk_store import get_disk_store
for kind in ("kernels", "objects"):
    store = get_disk_store(kind)
    for key, content in list(store.iter_entries()):
        at = content.index(b"\\x7fELF")
        machine = 183 if content[at + 18] == 62 else 62
        store.put(key, content[: at + 18] + machine.to_bytes(2, "little") + content[at + 20 :])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="objects are ELF files on Linux")
def test_valid_entries_with_code_for_another_processor_are_rebuilt(cache: Path):
    run(cache, SWAP_PROCESSORS)
    assert count_rendered(cache) > 0
    assert count_rendered(cache) == 0
