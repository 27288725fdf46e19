"""Concurrent threads, forked children, and scripts in separate processes.

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
    """Start a thread for each function."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def run_in_threads(*works: Callable[[], object], switching_often: bool = False) -> None:
    """Call each function in a separate thread, all concurrently; re-raise the first error.

    With `switching_often`, Python switches threads as often as possible.
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
    """Number of Python steps that this thread makes while another one calls `work`."""
    (thread,) = start_threads(work)
    n_steps = 0
    while thread.is_alive():
        n_steps += 1
    return n_steps


def run_in_child(work: Callable[[], int | None]) -> int:
    """Fork a child that calls `work`; return its exit status: the result of `work`, 0 for None, 255
    if it raises.

    A child that hangs is killed by a signal.
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
    """Run a script in a separate process, with `start_threads` and `run_in_child`; return its
    output.

    Raises:
        AssertionError: with its stderr, if it failed or an exception was ignored in it.
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
    # Python prints and ignores exceptions of fork hooks.
    assert done.returncode == 0 and "Exception ignored" not in done.stderr, done.stderr
    return done.stdout


# The source text of both functions, so that a script imports only the modules that it names.
_HEAD: Final = f"""
import os, signal, sys, threading
from collections.abc import Callable
{inspect.getsource(start_threads)}
{inspect.getsource(run_in_child)}
"""
