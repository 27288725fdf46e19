"""Claims: one process at a time has the claim to a key, until it gives it back or ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from svod_codegen import _claims
from svod_codegen._objects import get_object
from svod_codegen.disk_store import DiskStore, make_key

KEY, OTHER = make_key("a kernel"), make_key("another kernel")
HOLDER = """\
import sys
from pathlib import Path
from svod_codegen.disk_store import DiskStore
root, key, *then = sys.argv[1:]
store = DiskStore(Path(root), kind="kernels", max_bytes=1 << 20)
print(store.claim(key), flush=True)
sys.stdin.readline()
store.put(key, b"made elsewhere")
store.release(key)
print("released", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "svod", kind="kernels", max_bytes=1 << 20)


def start_holder(tmp_path: Path) -> subprocess.Popen[str]:
    """Start a process that claims a key; a line of input makes it store the entry and let go."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "svod"), KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    return holder


def test_a_key_that_another_process_claims_is_refused_until_it_is_made(
    store: DiskStore, tmp_path: Path
):
    with start_holder(tmp_path) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert not store.claim(KEY)
        assert store.claim(OTHER)
        store.wait(OTHER)  # its own claims are not waited for
        holder.stdin.write("\n")
        holder.stdin.flush()
        store.wait(KEY)
        assert not store.claim(KEY)  # the entry is there already
        assert store.get(KEY) == b"made elsewhere"
        holder.stdin.write("\n")


def test_a_claim_ends_with_a_process_that_is_killed(store: DiskStore, tmp_path: Path):
    with start_holder(tmp_path) as holder:
        assert not store.claim(KEY)
        holder.send_signal(signal.SIGKILL)
        store.wait(KEY)
    assert store.claim(KEY)


def test_a_process_that_keeps_its_claim_too_long_is_not_waited_for(
    store: DiskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_claims, "_MAX_WAIT_SECONDS", 0.01)
    with start_holder(tmp_path) as holder:
        store.wait(KEY)
        assert get_object(store, KEY, lambda: b"made here") == b"made here"
        holder.kill()


def test_a_child_process_has_none_of_the_claims_of_its_parent(store: DiskStore):
    assert store.claim(KEY)
    child = os.fork()
    if not child:
        # Neither as its own, nor can it give them back.
        is_refused = not store.claim(KEY)
        store.release(KEY)
        os._exit(0 if is_refused and not store.claim(KEY) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_claim_that_is_given_back_can_be_taken(store: DiskStore):
    assert store.claim(KEY)
    store.release(KEY)
    child = os.fork()
    if not child:
        os._exit(0 if store.claim(KEY) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_claims_leave_the_entries_and_counts_alone(store: DiskStore):
    store.claim(KEY)
    store.put(KEY, b"content")
    store.release(KEY)
    assert [content for _, content in store.iter_entries()] == [b"content"]
    assert store.counts().entries == 1
    store.clear()
    assert not any(path.is_file() for path in store.directory.rglob("*"))
    assert store.claim(KEY)


@pytest.mark.parametrize("error", [OSError(37, "No locks available"), None])
def test_where_files_cannot_be_locked_every_process_makes_its_entries(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, error: OSError | None
):
    class Fcntl:
        LOCK_EX = LOCK_NB = LOCK_UN = 0

        @staticmethod
        def lockf(*_args: int) -> None:
            raise error or AssertionError

    monkeypatch.setattr(_claims, "fcntl", None if error is None else Fcntl)
    assert store.claim(KEY)
    store.wait(KEY)
    store.release(KEY)


def test_a_store_that_is_turned_off_grants_all_claims(tmp_path: Path):
    off = DiskStore(tmp_path / "svod", kind="kernels", max_bytes=0)
    assert off.claim(KEY)
    off.wait(KEY)
    off.release(KEY)
    assert not (tmp_path / "svod").exists()
