"""Threads at the same time, children of forks, and scripts in processes of their own.

Example:
    >>> import time
    >>> from svod_ir.testing import count_steps_beside, run_in_threads, run_script, start_threads
    >>> seen = []
    >>> run_in_threads(lambda: seen.append("a"), lambda: seen.append("b"))
    >>> for thread in start_threads(lambda: seen.append("c")):
    ...     thread.join()
    >>> sorted(seen), count_steps_beside(lambda: time.sleep(0.01)) > 0  # a thread that sleeps holds no lock
    (['a', 'b', 'c'], True)
    >>> print(run_script("print(sys.argv[1], run_in_child(lambda: 3))", "child:"), end="")
    child: 3
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from svod_ir.options import make_child_environment

__all__ = ["count_steps_beside", "run_in_child", "run_in_threads", "run_script", "start_threads"]


def start_threads(*works: Callable[[], object]) -> list[threading.Thread]:
    """A thread for each of `works`, at work."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def run_in_threads(*works: Callable[[], object], switching_often: bool = False) -> None:
    """Call each of `works` in a thread of its own, all at the same time; the first error is raised
    here.

    Threads that are `switching_often` take turns as often as Python lets them.
    """
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        try:
            start.wait(300)
            work()
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    if switching_often:
        sys.setswitchinterval(1e-6)
    try:
        for thread in start_threads(*(partial(run, work) for work in works)):
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def count_steps_beside(work: Callable[[], object]) -> int:
    """How many steps of Python this thread makes while another one is at work."""
    (thread,) = start_threads(work)
    n_steps = 0
    while thread.is_alive():
        n_steps += 1
    return n_steps


def run_in_child(work: Callable[[], int | None]) -> int:
    """The exit status of the child of a fork that calls `work`: what that returns, 0 for None, and
    255 where it raises.

    A child that hangs is ended by a signal.
    """
    import signal

    child = os.fork()
    if child == 0:
        status = 255
        try:
            signal.alarm(200)
            status = work() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_script(body: str, *arguments: object, environment: Mapping[str, str] | None = None) -> str:
    """What a script prints in a process of its own, which has `start_threads` and `run_in_child`.

    Raises:
        AssertionError: with what it said on stderr, if it failed or an exception was ignored in it.
    """
    command = [sys.executable, "-W", "ignore", "-c", _HEAD + body, *map(str, arguments)]
    done = subprocess.run(
        command,
        env=make_child_environment(**(environment or {})),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # What fails around a fork is printed and ignored.
    assert done.returncode == 0 and "Exception ignored" not in done.stderr, done.stderr
    return done.stdout


# The text of both functions, so that a script imports of svod what it names, and when.
_HEAD: Final = f"""
import os, signal, sys, threading
from collections.abc import Callable
{inspect.getsource(start_threads)}
{inspect.getsource(run_in_child)}
"""
