"""Locks in a forked child: they are free, and the data that they guard is consistent."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from svod_ir import forks
from svod_ir.testing import run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_a_lock_that_another_thread_holds_is_free_in_the_child():
    out = run_script("""
from svod_ir.forks import make_lock
lock, is_held, may_end = make_lock(), threading.Event(), threading.Event()
def hold():
    with lock:
        is_held.set()
        may_end.wait()
(thread,) = start_threads(hold)
is_held.wait()
def take():
    with lock, lock:
        return 7
print(run_in_child(take), lock.acquire(blocking=False))
may_end.set()
thread.join()
print(lock.acquire(blocking=False))
""")
    assert out.split() == ["7", "False", "True"]


def test_a_fork_waits_for_locks_that_are_held_across_it():
    out = run_script("""
from svod_ir.forks import hold_across_fork
outer, inner = hold_across_fork(threading.RLock()), hold_across_fork(threading.Lock())
pairs, stop = [0, 0], threading.Event()
def change():
    while not stop.is_set():
        with outer:
            pairs[0] += 1
            with inner:
                pairs[1] += 1
threads = start_threads(*[change] * 3)
def compare():
    with outer, inner:
        return pairs[0] != pairs[1]
codes = [run_in_child(compare) for _ in range(20)]
stop.set()
for thread in threads:
    thread.join()
print(codes.count(0), pairs[0] == pairs[1])
""")
    assert out.split() == ["20", "True"]


def test_locks_of_the_forking_thread_stay_held_in_the_child():
    out = run_script("""
from svod_ir.forks import make_lock
lock = make_lock()
with lock:
    print(run_in_child(lambda: 7))
""")
    assert out.split() == ["7"]


def test_a_fork_waits_for_calls_that_delay_it_and_comes_before_new_ones():
    out = run_script("""
from svod_ir.forks import delaying_forks
inside, stop = [0, 0, 0], threading.Event()
def enter_in_turn(number):
    while not stop.is_set():
        with delaying_forks(), delaying_forks():
            inside[number] = 1
            for _ in range(1000):
                pass
            inside[number] = 0
threads = start_threads(*(lambda number=number: enter_in_turn(number) for number in range(3)))
codes = [run_in_child(lambda: sum(inside)) for _ in range(20)]
stop.set()
for thread in threads:
    thread.join()
print(codes.count(0))
""")
    assert out.split() == ["20"]


def test_a_thread_that_holds_a_lock_of_a_fork_may_delay_it():
    out = run_script("""
from svod_ir.forks import delaying_forks, hold_across_fork
lock, is_held, is_forking = hold_across_fork(threading.RLock()), threading.Event(), threading.Event()
os.register_at_fork(before=is_forking.set)
value = []
def hold():
    with lock:
        is_held.set()
        is_forking.wait()
        with delaying_forks():
            value.append(3)
(thread,) = start_threads(hold)
is_held.wait()
print(run_in_child(lambda: value[0]))
thread.join()
""")
    assert out.split() == ["3"]


def test_threads_that_fork_at_the_same_time_leave_every_lock_free():
    out = run_script("""
sys.setswitchinterval(1e-6)
from svod_ir.forks import hold_across_fork
locks = [hold_across_fork(threading.Lock()) for _ in range(20)]
codes = []
def fork():
    for _ in range(50):
        codes.append(run_in_child(lambda: not all(lock.acquire(blocking=False) for lock in locks)))
for thread in start_threads(*[fork] * 4):
    thread.join()
print(codes.count(0), all(lock.acquire(blocking=False) for lock in locks))
""")
    assert out.split() == ["200", "True"]


def test_no_lock_is_registered_while_a_thread_forks():
    out = run_script("""
locks, is_added, stop = [], threading.Event(), threading.Event()
def add():
    lock = hold_across_fork(threading.Lock())
    with lock:
        locks.append(lock)
        is_added.set()
        stop.wait()
thread = threading.Thread(target=add)
def give_it_the_chance():
    if not thread.ident:
        thread.start()
        for _ in range(10**6):
            if is_added.is_set():
                break
# Handlers that run before a fork are called in reverse order of registration.
os.register_at_fork(before=give_it_the_chance)
from svod_ir.forks import hold_across_fork
print(run_in_child(lambda: not all(lock.acquire(blocking=False) for lock in locks)))
is_added.wait()
stop.set()
thread.join()
""")
    assert out.split() == ["0"]


def run_fork_amid_import(folder: Path, module: str) -> str:
    """Output of a script that forks while another thread is in the middle of importing `module`;
    the child may import it.
    """
    (folder / f"{module}.py").write_text("""
import __main__
__main__.is_inside.set()
__main__.may_go_on.wait()
value = 3
""")
    return run_script(f"""
sys.path.insert(0, {str(folder)!r})
from svod_ir import forks
is_inside, may_go_on = threading.Event(), threading.Event()
def load():
    import {module}
(thread,) = start_threads(load)
is_inside.wait()
if {module.startswith("svod_")}:
    os.register_at_fork(before=may_go_on.set)
def find():
    if may_go_on.is_set():
        import {module}
        return {module}.value
    return 4
print(run_in_child(find))
may_go_on.set()
thread.join()
import {module}, json
print({module}.value)
""")


def test_a_fork_waits_for_imports_of_svod_in_other_threads(tmp_path: Path):
    assert run_fork_amid_import(tmp_path, "svod_something").split() == ["3", "3"]


def test_a_fork_does_not_wait_for_imports_of_a_program(tmp_path: Path):
    assert run_fork_amid_import(tmp_path, "program").split() == ["4", "3"]


def test_a_module_may_fork_while_it_is_imported(tmp_path: Path):
    (tmp_path / "svod_forking.py").write_text("""
from __main__ import run_in_child
def load():
    import json.tool
    return 5
print(run_in_child(load))
""")
    out = run_script(f"""
sys.path.insert(0, {str(tmp_path)!r})
from svod_ir import forks
import svod_forking
""")
    assert out.split() == ["5"]


def test_dead_locks_are_unregistered():
    import threading

    gc.collect()
    before = len(forks._reinitialized), len(forks._held)
    locks = (
        [forks.make_lock() for _ in range(5)],
        [forks.hold_across_fork(threading.Lock()) for _ in range(5)],
    )
    assert (len(forks._reinitialized), len(forks._held)) == (before[0] + 5, before[1] + 5)
    del locks
    gc.collect()
    assert (len(forks._reinitialized), len(forks._held)) == before
