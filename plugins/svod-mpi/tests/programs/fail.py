"""One rank fails in the way that the argument names, while the others wait."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable

from mpi4py import MPI
from shared_memory import unlink_shared_memory

import svod_mpi


def raise_error() -> None:
    raise ValueError("bad batch")


def raise_in_thread() -> None:
    thread = threading.Thread(target=raise_error, name="reader")
    thread.start()
    thread.join()
    time.sleep(60)


def exit_with_cleanup() -> None:
    try:
        sys.exit(3)
    finally:
        print("cleaned up")


def exit_beside_a_waiting_thread() -> None:
    # The duplicate is made by all processes; nobody else joins its barrier.
    threading.Thread(target=duplicate.Barrier).start()
    sys.exit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


def interrupt_a_finalizer() -> None:
    def end(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    event = threading.Event()
    reference = weakref.ref(event, end)
    del event
    assert reference() is None
    time.sleep(60)


def catch_everything() -> None:
    try:
        sys.exit(3)
    except SystemExit as error:
        assert error.code == 3
    with contextlib.suppress(ValueError):
        raise_error()
    thread = threading.Thread(target=sys.exit, args=(1,))
    thread.start()
    thread.join()
    if (child := os.fork()) == 0:
        sys.excepthook(ValueError, ValueError("only the child"), None)
        os._exit(0)
    os.waitpid(child, 0)


WAYS: dict[str, Callable[[], object]] = {
    "exception": raise_error,
    "thread": raise_in_thread,
    "exit": lambda: sys.exit(3),
    "message": lambda: sys.exit("no data"),
    "builtin": lambda: exit(4),
    "cleanup": exit_with_cleanup,
    "waiting thread": exit_beside_a_waiting_thread,
    "interrupt": interrupt,
    "finalizer": interrupt_a_finalizer,
    "caught": catch_everything,
}

duplicate = MPI.COMM_WORLD.Dup()
mesh = svod_mpi.Mesh()
unlink_shared_memory()
if mesh.rank == 1:
    WAYS[sys.argv[1]]()
mesh.barrier()
print(f"rank {mesh.rank} is done")
sys.exit(0)
