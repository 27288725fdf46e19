"""Locks in the child of a fork: free, and what they guard is whole."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from svod_ir import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def run_script(body: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", body]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def test_a_lock_that_another_thread_holds_is_free_in_the_child():
    out = run_script("""
import os, threading
from svod_ir.forks import make_lock
lock, is_held, may_end = make_lock(), threading.Event(), threading.Event()
def hold():
    with lock:
        is_held.set()
        may_end.wait()
thread = threading.Thread(target=hold)
thread.start()
is_held.wait()
child = os.fork()
if child == 0:
    with lock, lock:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lock.acquire(blocking=False))
may_end.set()
thread.join()
print(lock.acquire(blocking=False))
""")
    assert out.split() == ["7", "False", "True"]


def test_a_fork_waits_for_locks_that_are_held_across_it():
    out = run_script("""
import os, threading
from svod_ir.forks import hold_across_fork
outer, inner = hold_across_fork(threading.RLock()), hold_across_fork(threading.Lock())
pairs, stop = [0, 0], threading.Event()
def change():
    while not stop.is_set():
        with outer:
            pairs[0] += 1
            with inner:
                pairs[1] += 1
threads = [threading.Thread(target=change) for _ in range(3)]
for thread in threads:
    thread.start()
codes = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        with outer, inner:
            os._exit(0 if pairs[0] == pairs[1] else 1)
    codes.append(os.waitpid(child, 0)[1])
stop.set()
for thread in threads:
    thread.join()
print(codes.count(0), pairs[0] == pairs[1])
""")
    assert out.split() == ["20", "True"]


def test_locks_that_are_gone_are_forgotten():
    import threading

    gc.collect()
    before = len(forks._renewed), len(forks._held)
    locks = [forks.make_lock() for _ in range(5)], [forks.hold_across_fork(threading.Lock()) for _ in range(5)]
    assert (len(forks._renewed), len(forks._held)) == (before[0] + 5, before[1] + 5)
    del locks
    gc.collect()
    assert (len(forks._renewed), len(forks._held)) == before
