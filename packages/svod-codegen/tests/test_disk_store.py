"""The disk cache: what it keeps, whom it trusts, what it does with damage, and several processes at
once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pytest

from svod_codegen._cores import count_usable_cores
from svod_codegen.disk_store import DiskStore, make_key
from svod_codegen.options import CodegenOptions
from svod_ir import OptionError

KEY = make_key("a key")
posix_only = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")


@pytest.fixture
def cache(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "cache", kind="objects", max_bytes=1 << 20)


def entry_files(cache: DiskStore) -> list[Path]:
    return sorted(path for path in cache.directory.rglob("*") if path.is_file())


def test_get_returns_the_stored_bytes(cache: DiskStore):
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"


def test_another_process_reads_the_entry(cache: DiskStore):
    cache.put(KEY, b"code")
    assert DiskStore(cache.directory.parent, kind="objects", max_bytes=1 << 20).get(KEY) == b"code"


def test_empty_content_is_content(cache: DiskStore):
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_kinds_do_not_mix(tmp_path: Path):
    DiskStore(tmp_path / "c", kind="objects", max_bytes=1 << 20).put(KEY, b"code")
    assert DiskStore(tmp_path / "c", kind="kernels", max_bytes=1 << 20).get(KEY) is None


def test_the_last_content_wins(cache: DiskStore):
    cache.put(KEY, b"old")
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"
    assert len(entry_files(cache)) == 1


def test_clear_removes_everything(cache: DiskStore):
    cache.put(KEY, b"code")
    cache.clear()
    assert cache.get(KEY) is None
    assert entry_files(cache) == []


def test_keys_tell_parts_apart_by_where_they_end():
    assert make_key("ab", "c") != make_key("a", "bc")
    assert make_key("ab") != make_key("ab", "")
    assert make_key("ab") == make_key(b"ab")


@pytest.mark.parametrize("size", [0, 1, 11, 12, 40, 43, 44, 46])
def test_a_truncated_entry_is_a_miss_and_is_removed(cache: DiskStore, size: int):
    cache.put(KEY, b"code")
    (path,) = entry_files(cache)
    assert path.stat().st_size > size
    path.write_bytes(path.read_bytes()[:size])
    assert cache.get(KEY) is None
    assert entry_files(cache) == []


def test_every_flipped_bit_is_a_miss(cache: DiskStore):
    cache.put(KEY, b"some code")
    (path,) = entry_files(cache)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        assert cache.get(KEY) is None, position
        path.write_bytes(whole)
    assert cache.get(KEY) == b"some code"


def test_an_entry_under_the_wrong_key_is_a_miss(cache: DiskStore):
    other = make_key("another key")
    cache.put(KEY, b"code")
    cache.put(other, b"other")
    first, second = (next(p for p in entry_files(cache) if p.stem == key) for key in (KEY, other))
    second.write_bytes(first.read_bytes())
    assert cache.get(other) is None
    assert cache.get(KEY) == b"code"


def test_a_directory_instead_of_an_entry_is_a_miss(cache: DiskStore):
    cache.put(KEY, b"code")
    (path,) = entry_files(cache)
    path.unlink()
    path.mkdir()
    assert cache.get(KEY) is None


@posix_only
def test_only_the_owner_can_read_the_directories(cache: DiskStore):
    cache.put(KEY, b"code")
    (path,) = entry_files(cache)
    for directory in (cache.directory.parent, cache.directory, path.parent):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o077 == 0


@posix_only
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_can_write_is_not_trusted(cache: DiskStore, mode: int):
    cache.put(KEY, b"code")
    cache.directory.chmod(mode)
    distrustful = DiskStore(cache.directory.parent, kind="objects", max_bytes=1 << 20)
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        assert distrustful.get(KEY) is None
    distrustful.put(KEY, b"x")  # the warning comes once


@posix_only
def test_a_directory_of_another_user_is_not_trusted(
    cache: DiskStore, monkeypatch: pytest.MonkeyPatch
):
    cache.put(KEY, b"code")
    monkeypatch.setattr(os, "geteuid", lambda: 12345678)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert DiskStore(cache.directory.parent, kind="objects", max_bytes=1 << 20).get(KEY) is None


@posix_only
def test_the_user_may_put_the_cache_elsewhere_with_a_link(cache: DiskStore, tmp_path: Path):
    cache.put(KEY, b"code")
    (tmp_path / "link").symlink_to(cache.directory.parent)
    assert DiskStore(tmp_path / "link", kind="objects", max_bytes=1 << 20).get(KEY) == b"code"


def test_a_full_disk_is_one_warning_and_no_error(cache: DiskStore, monkeypatch: pytest.MonkeyPatch):
    cache.put(KEY, b"code")
    tried: list[object] = []

    def refuse(*arguments: object) -> None:
        tried.append(arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("svod_codegen.disk_store._write_atomically", refuse)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        cache.put(make_key("new"), b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(make_key("newer"), b"x")
    assert len(tried) == 1
    assert cache.get(KEY) == b"code"


def test_under_warnings_as_errors_an_unusable_cache_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "root").write_text("not a directory")
    broken = DiskStore(tmp_path / "root", kind="objects", max_bytes=1 << 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broken.put(KEY, b"x")
        assert broken.get(KEY) is None
    assert [record.__dict__["svod_event"] for record in caplog.records] == ["cache.failed"]


def test_a_file_instead_of_the_root_is_one_warning(tmp_path: Path):
    (tmp_path / "cache").write_text("in the way")
    cache = DiskStore(tmp_path / "cache", kind="objects", max_bytes=1 << 20)
    with pytest.warns(RuntimeWarning, match="cannot write to its cache .*cache: File exists"):
        cache.put(KEY, b"code")
    assert cache.get(KEY) is None


def test_the_size_stays_within_its_bound(tmp_path: Path):
    cache = DiskStore(tmp_path / "c", kind="objects", max_bytes=100_000)
    for i in range(100):
        cache.put(make_key(str(i)), bytes(5000))
        assert sum(path.stat().st_size for path in entry_files(cache)) <= 100_000
    assert len(entry_files(cache)) >= 14


def test_the_least_recently_used_entry_is_evicted_first(tmp_path: Path):
    cache = DiskStore(tmp_path / "c", kind="objects", max_bytes=10_000)
    for i in range(8):
        cache.put(make_key(str(i)), bytes(1000))
    for path in entry_files(cache):  # long ago, and number 0 longest
        age = 1000 - next(i for i in range(8) if path.stem == make_key(str(i)))
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    assert cache.get(make_key("0")) is not None
    for i in range(8, 12):
        cache.put(make_key(str(i)), bytes(1000))
    assert cache.get(make_key("0")) is not None
    assert cache.get(make_key("1")) is None
    assert cache.get(make_key("11")) is not None


def test_an_entry_larger_than_the_store_is_not_stored(tmp_path: Path):
    cache = DiskStore(tmp_path / "c", kind="objects", max_bytes=1000)
    cache.put(KEY, bytes(5000))
    assert entry_files(cache) == []


def test_leftovers_of_killed_writers_are_removed(cache: DiskStore):
    cache.put(KEY, b"code")
    (path,) = entry_files(cache)
    leftover = path.parent / ".abc.tmp"
    leftover.write_bytes(b"half")
    old = path.stat().st_mtime - 7200
    os.utime(leftover, (old, old))
    DiskStore(cache.directory.parent, kind="objects", max_bytes=1 << 20).put(KEY, b"x")
    assert not leftover.exists()
    assert cache.get(KEY) == b"x"


def test_a_store_that_is_far_from_full_is_not_searched_for_old_entries(
    cache: DiskStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(DiskStore, "_evict", lambda _: pytest.fail("looked at every entry"))
    for n in range(50):
        DiskStore(cache.directory.parent, kind="objects", max_bytes=1 << 20).put(
            make_key(str(n)), bytes(100)
        )


def test_threads_may_share_a_cache(cache: DiskStore):
    keys = [make_key(str(i)) for i in range(8)]
    failures: list[object] = []

    def work(seed: int) -> None:
        for step in range(60):
            number = (seed * 7 + step * 3) % 8
            found = cache.get(keys[number])
            if found not in (None, bytes([number]) * 999):
                failures.append(found)
            cache.put(keys[number], bytes([number]) * 999)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


WRITER = """\
import sys
from pathlib import Path
from svod_codegen.disk_store import DiskStore, make_key
cache = DiskStore(Path(sys.argv[1]), kind="objects", max_bytes=1 << 30)
content = sys.argv[2].encode() * 50_000
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    cache.put(make_key("a key"), content)
"""


def start_writer(directory: Path, letter: str, times: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(directory), letter, str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_writers_killed_at_any_moment_leave_a_complete_entry_or_no_entry(tmp_path: Path):
    reader = DiskStore(tmp_path / "cache", kind="objects", max_bytes=1 << 30)
    whole = [letter * 50_000 for letter in (b"a", b"b")]
    seen = 0
    for round_number in range(4):
        writers = [start_writer(tmp_path / "cache", letter, 1_000_000) for letter in ("a", "b")]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        for _ in range(50 + 37 * round_number):
            found = reader.get(KEY)
            assert found is None or found in whole
            seen += found is not None
        for writer in writers:
            writer.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            writer.wait()
            writer.stdout.close()
        assert reader.get(KEY) in (None, *whole)
    assert seen > 0


def test_importing_the_cache_does_not_import_llvmlite():
    code = (
        "import sys, svod_codegen.disk_store; assert not any(m.startswith('llvmlite') for m in"
        " sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_options_turn_the_cache_off_and_move_it(tmp_path: Path):
    assert (
        DiskStore.from_options(
            CodegenOptions.from_env({"SVOD_OBJECT_CACHE": "0"}), kind="objects"
        ).max_bytes
        == 0
    )
    moved = DiskStore.from_options(
        CodegenOptions.from_env({"SVOD_CACHE_DIR": str(tmp_path)}), kind="objects"
    )
    assert moved.directory == tmp_path / "objects"


def test_options_have_defaults_for_an_empty_environment():
    options = CodegenOptions.from_env({})
    assert options.threads == count_usable_cores() >= 1
    assert options.use_object_cache
    assert options.object_cache_max_bytes == 1 << 30
    assert options.cache_dir.name in ("svod", "cache")


@pytest.mark.skipif(sys.platform != "linux", reason="XDG's rule")
def test_the_default_directory_follows_xdg():
    assert CodegenOptions.from_env({"XDG_CACHE_HOME": "/x"}).cache_dir == Path("/x/svod")
    assert (
        CodegenOptions.from_env({"XDG_CACHE_HOME": "relative"}).cache_dir
        == Path.home() / ".cache" / "svod"
    )


def test_a_relative_directory_stays_where_it_was_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    directory = CodegenOptions.from_env({"SVOD_CACHE_DIR": "here"}).cache_dir
    assert directory == tmp_path / "here"


def test_a_process_without_a_home_uses_the_temporary_directory(monkeypatch: pytest.MonkeyPatch):
    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", refuse)
    assert CodegenOptions.from_env({}).cache_dir.is_relative_to(tempfile.gettempdir())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SVOD_THREADS", "0"),
        ("SVOD_THREADS", "-1"),
        ("SVOD_THREADS", "many"),
        ("SVOD_OBJECT_CACHE", "maybe"),
        ("SVOD_OBJECT_CACHE_MAX_BYTES", "1G"),
        ("SVOD_OBJECT_CACHE_MAX_BYTES", "0"),
        ("SVOD_CACHE_DIR", "~no-such-user/cache"),
    ],
)
def test_an_invalid_environment_variable_is_an_error_with_its_value(name: str, value: str):
    with pytest.raises(OptionError, match=name) as caught:
        CodegenOptions.from_env({name: value})
    assert repr(value) in str(caught.value)
    assert isinstance(caught.value, ValueError)
