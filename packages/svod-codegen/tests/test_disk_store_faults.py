"""The store on a disk that fails: killed writers, full and read-only disks, foreign files, and
everyone at once.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from svod_codegen import disk_store
from svod_codegen.disk_store import DiskStore, make_key

KEY = make_key("a key")
posix_only = pytest.mark.skipif(os.name != "posix", reason="signals, limits and owners of POSIX")
root_only = pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away"
)


def open_store(root: Path, max_bytes: int = 1 << 20) -> DiskStore:
    return DiskStore(root, kind="objects", max_bytes=max_bytes)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def list_files(root: Path, pattern: str = "*") -> list[Path]:
    return sorted(path for path in root.rglob(pattern) if path.is_file())


def run(
    program: str, *arguments: object, wrapper: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [*wrapper, sys.executable, "-W", "always", "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def on_small_disk(folder: Path, options: str) -> tuple[str, ...]:
    """Runs what follows with a small file system of its own at `folder`."""
    folder.mkdir()
    wrapper = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs -o {options} none "{folder}" && exec "$@"',
        "sh",
    )
    if (
        shutil.which("unshare") is None
        or subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no right to mount")
    return wrapper


DIE_AT_EACH_LINE = """\
import os, shutil, signal, sys
from pathlib import Path
from svod_codegen import disk_store
from svod_codegen.testing import kill_at_line

root, has_old = Path(sys.argv[1]), sys.argv[2] == "over an old entry"
key = disk_store.make_key("a key")
old, new = b"old" * 999, b"new" * 999

def open_store():
    return disk_store.DiskStore(root, kind="objects", max_bytes=1 << 20)

for line_number in range(1, 1000):
    if has_old:
        open_store().put(key, old)
    else:
        shutil.rmtree(root, ignore_errors=True)
    child = os.fork()
    if child == 0:
        kill_at_line(disk_store, line_number)
        open_store().put(key, new)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert open_store().get(key) in ((old, new) if has_old else (None, new)), line_number
    open_store().put(key, new)
    assert open_store().get(key) == new, line_number
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
print(line_number)
"""


@posix_only
@pytest.mark.parametrize("state", ["over an old entry", "into a new directory"])
def test_a_writer_killed_before_any_line_leaves_a_complete_entry_or_no_entry(
    root: Path, state: str
):
    done = run(DIE_AT_EACH_LINE, root, state)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 20
    for leftover in list_files(root, "*.tmp"):
        os.utime(leftover, (0, 0))
    open_store(root).put(KEY, b"code")
    assert list_files(root, "*.tmp") == []


LIMITED = """\
import resource, signal, sys
from pathlib import Path
from svod_codegen.disk_store import DiskStore, make_key
store = DiskStore(Path(sys.argv[1]), kind="objects", max_bytes=1 << 30)
store.put(make_key("small"), b"small")
signal.signal(signal.SIGXFSZ, getattr(signal, sys.argv[2]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for n in range(3):
    store.put(make_key(str(n)), bytes(300_000))
    assert store.get(make_key(str(n))) is None
assert store.get(make_key("small")) == b"small"
"""


@posix_only
def test_a_writer_killed_during_a_write_leaves_no_readable_entry(root: Path):
    assert run(LIMITED, root, "SIG_DFL").returncode < 0
    assert [path.stat().st_size for path in list_files(root, "*.tmp")] == [100_000]
    assert [content for _, content in open_store(root).iter_entries()] == [b"small"]


@posix_only
def test_a_short_write_is_one_warning(root: Path):
    done = run(LIMITED, root, "SIG_IGN")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
    assert list_files(root, "*.tmp") == []


FILL = """\
import sys
from pathlib import Path
from svod_codegen.disk_store import DiskStore, make_key
objects, kernels = (DiskStore(Path(sys.argv[1]) / "cache", kind=kind, max_bytes=1 << 30) for kind in ("objects", "kernels"))
kept = 0
for n in range(100):
    for store in (objects, kernels):
        store.put(make_key(str(n)), bytes([n]) * 5000)
        found = store.get(make_key(str(n)))
        assert found in (None, bytes([n]) * 5000)
        kept += found is not None
print(kept)
"""


@posix_only
@pytest.mark.parametrize("options", ["size=100k", "nr_inodes=20", "nr_inodes=1", "ro"])
def test_a_full_or_read_only_disk_is_one_warning_and_keeps_what_fits(tmp_path: Path, options: str):
    disk = tmp_path / "disk"
    done = run(FILL, disk, wrapper=on_small_disk(disk, options))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == 1, done.stderr
    assert (int(done.stdout) > 0) == (options in ("size=100k", "nr_inodes=20"))


@pytest.mark.parametrize("step", ["open", "replace", "makedirs"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_step_of_writing_that_fails_is_one_warning(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
):
    store = open_store(root)
    store.put(KEY, b"code")

    def refuse(*_args: object, **_keywords: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, step, refuse)
    with pytest.warns(
        RuntimeWarning, match=f"cannot write to its cache .*{os.strerror(code)}"
    ) as caught:
        for n in range(300):
            store.put(make_key(str(n)), b"x")
    assert len(caught) == 1
    assert store.get(KEY) == b"code"
    assert list_files(root, "*.tmp") == []


@pytest.mark.parametrize("place", ["/proc/svod", "/dev/full", "/dev/null/svod", "/proc/self/mem"])
@pytest.mark.skipif(sys.platform != "linux", reason="files of Linux")
def test_a_path_that_cannot_be_a_directory_is_one_warning(place: str):
    with pytest.warns(RuntimeWarning, match="cannot write to its cache") as caught:
        for kind in ("objects", "kernels"):
            store = DiskStore(Path(place), kind=kind, max_bytes=1 << 20)
            store.put(KEY, b"code")
            assert store.get(KEY) is None
            assert list(store.iter_entries()) == []
            assert store.counts().entries == 0
            store.clear()
    assert len(caught) == 1


@posix_only
@pytest.mark.parametrize("what", ["cache", "cache/objects"])
@root_only
def test_a_directory_that_belongs_to_another_user_is_not_used(root: Path, what: str):
    open_store(root).put(KEY, b"code")
    os.chown(root.parent / what, 4321, 4321)
    store = open_store(root)
    with pytest.warns(RuntimeWarning, match="belongs to another user") as caught:
        assert store.get(KEY) is None
        store.put(make_key("new"), b"x")
    assert len(caught) == 1
    store.clear()
    assert len(list_files(root)) == 1


@posix_only
@root_only
def test_an_entry_that_another_user_wrote_is_a_miss(root: Path):
    store = open_store(root)
    store.put(KEY, b"code")
    os.chown(list_files(root)[0], 4321, 4321)
    assert store.get(KEY) is None
    assert list_files(root) == []


@posix_only
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_an_entry_that_others_could_have_written_is_a_miss(root: Path, mode: int):
    store = open_store(root)
    store.put(KEY, b"code")
    list_files(root)[0].chmod(mode)
    assert store.get(KEY) is None
    assert list_files(root) == []


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_an_entry_of_another_format_is_a_miss_and_is_replaced(root: Path, version: int):
    store = open_store(root)
    store.put(KEY, b"code")
    (path,) = list_files(root)
    data = path.read_bytes()
    assert data[10] == 2
    path.write_bytes(data[:10] + bytes([version]) + data[11:])
    assert store.get(KEY) is None
    store.put(KEY, b"code")
    assert store.get(KEY) == b"code"


@pytest.mark.parametrize("size", [0, 1, 10, 11, 42, 43, 44, 46])
def test_an_entry_with_extra_or_missing_bytes_is_a_miss(root: Path, size: int):
    store = open_store(root)
    store.put(KEY, b"code")
    (path,) = list_files(root)
    for data in (path.read_bytes()[:size], path.read_bytes() + bytes(size + 1)):
        store.put(KEY, b"code")
        path.write_bytes(data)
        assert store.get(KEY) is None
        assert not path.exists()


def test_an_entry_too_large_for_the_store_is_a_miss_and_is_not_read(root: Path):
    store = open_store(root)
    store.put(KEY, b"code")
    (path,) = list_files(root)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    assert store.get(KEY) is None
    assert list_files(root) == []


def test_an_entry_of_another_kind_is_a_miss(root: Path):
    objects, kernels = open_store(root), DiskStore(root, kind="kernels", max_bytes=1 << 20)
    objects.put(KEY, b"code")
    kernels.put(KEY, b"other")
    shutil.copy(list_files(root / "objects")[0], list_files(root / "kernels")[0])
    assert kernels.get(KEY) is None
    assert objects.get(KEY) == b"code"


@pytest.mark.parametrize("what", ["cache", "cache/objects", f"cache/objects/{KEY[:2]}"])
def test_a_directory_removed_meanwhile_is_created_again(root: Path, what: str):
    store = open_store(root)
    store.put(KEY, b"code")
    shutil.rmtree(root.parent / what)
    assert store.get(KEY) is None
    assert store.counts().entries == 0
    store.put(KEY, b"again")
    assert store.get(KEY) == b"again"


def test_only_entries_are_removed(root: Path):
    store = open_store(root)
    store.put(KEY, b"code")
    (path,) = list_files(root)
    others = [
        root / "notes.svo",
        root / "objects" / "notes.svo",
        path.with_name("notes"),
        root / "objects/x/y.svo",
    ]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_text("mine")
    store.clear()
    assert list_files(root) == sorted(others)


AS_NOBODY = """\
import os, sys, tempfile
from pathlib import Path
from svod_codegen.disk_store import DiskStore, make_key
from svod_codegen.options import CodegenOptions
if os.geteuid() == 0:
    os.setgid(54321)
    os.setuid(54321)
"""

READ_ONLY = """\
root = Path(sys.argv[1])
DiskStore(root, kind="objects", max_bytes=1 << 20).put(make_key("a key"), b"code")
for folder in (root, *root.rglob("*/")):
    folder.chmod(0o500)
for kind in ("objects", "kernels"):
    store = DiskStore(root, kind=kind, max_bytes=1 << 20)
    found = store.get(make_key("a key"))
    assert found == (b"code" if kind == "objects" else None), found
    for n in range(300):
        store.put(make_key(str(n)), b"x")
    assert store.get(make_key("1")) is None
"""

NO_HOME = """\
for name in ("HOME", "XDG_CACHE_HOME", "SVOD_CACHE_DIR"):
    os.environ.pop(name, None)
options = CodegenOptions.from_env()
if os.geteuid() == 54321:
    assert options.cache_dir == Path(tempfile.gettempdir()) / "svod-54321"
assert options.cache_dir.is_absolute()
"""


@posix_only
def test_a_user_who_may_only_read_the_directory_reads_it_and_is_warned_once():
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # not below pytest's directory, which is root's alone
        os.chmod(folder, 0o777)
        done = run(AS_NOBODY + READ_ONLY, Path(folder) / "cache")
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == 1, done.stderr


@posix_only
def test_a_user_whom_the_system_does_not_know_has_a_directory():
    done = run(AS_NOBODY + NO_HOME)
    assert (done.returncode, done.stderr) == (0, "")


WORK = """\
import sys
from pathlib import Path
from svod_codegen.disk_store import DiskStore, make_key
root, task, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = DiskStore(root, kind="objects", max_bytes=100_000)
for step in range(300):
    number = (seed * 7 + step * 3) % 40 if task == "same" else seed * 1000 + step
    key, content = make_key(str(number)), number.to_bytes(4, "little") * (500 + number % 7 * 200)
    found = store.get(key)
    assert found in (None, content), number
    store.put(key, content)
    assert store.get(key) in (None, content), number
    if task == "clear" and step % 50 == 0:
        store.clear()
    assert all(len(content) >= 2000 for _, content in store.iter_entries()) if step % 50 == 0 else True
"""


@pytest.mark.parametrize(("task", "n_processes"), [("same", 4), ("own", 2), ("clear", 4)])
def test_processes_that_write_and_evict_at_once_do_not_disturb_each_other(
    root: Path, task: str, n_processes: int
):
    command = [sys.executable, "-W", "error", "-c", WORK, str(root), task]
    workers = [
        subprocess.Popen([*command, str(seed)], stderr=subprocess.PIPE, text=True)
        for seed in range(n_processes)
    ]
    for worker in workers:
        _, problems = worker.communicate()
        assert (worker.returncode, problems) == (0, "")
    store = open_store(root, 100_000)
    store.put(KEY, b"code")
    assert 50_000 < store.counts().n_bytes < 100_000
    assert store.get(KEY) == b"code"
    assert list_files(root, "*.tmp") == []


def test_a_store_of_no_bytes_touches_no_disk(root: Path):
    store = open_store(root, 0)
    store.put(KEY, b"code")
    assert store.get(KEY) is None
    assert list(store.iter_entries()) == []
    assert store.counts()[:3] == (0, 0, 1)
    store.clear()
    assert not root.exists()


def test_look_ups_are_counted_until_the_counts_are_cleared(root: Path):
    store = open_store(root)
    for _ in range(2):
        store.get(KEY)
        store.put(KEY, b"code")
    store.get(KEY)
    assert store.counts() == (1, 2, 1, 0, 47, 1 << 20)
    store.reject(KEY)
    assert store.counts() == (0, 1, 2, 0, 0, 1 << 20)
    store.put(KEY, b"code")
    store.clear(disk=False)
    assert store.counts()[:3] == (1, 0, 0)
    store.clear()
    assert store.counts()[:3] == (0, 0, 0)


def test_entries_are_listed_with_their_keys(root: Path):
    store = open_store(root)
    expected = {make_key(str(n)): bytes([n]) for n in range(20)}
    for key, content in expected.items():
        store.put(key, content)
    damaged = list_files(root)[3]
    damaged.write_bytes(b"damaged")
    del expected[damaged.stem]
    (root / "objects" / KEY[:2]).mkdir(exist_ok=True)
    (root / "objects" / KEY[:2] / f".{KEY}.0.tmp").write_bytes(b"half")
    assert dict(store.iter_entries()) == expected


def test_a_failed_write_under_warnings_as_errors_leaves_no_temporary_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    store = open_store(root)

    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(disk_store.os, "replace", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, b"code")
    assert list_files(root) == []
