"""Child process that answers requests and may be killed, so that faults of candidates are isolated.

    parent -> child:  length, pickled (function, arguments)
    child -> parent:  length, pickled (is an answer, result or description of an error)

Lengths are 8 bytes, little-endian. The functions are the methods of `serve.Worker`. The child ends
as soon as its parent's end of the pipe closes, whatever a candidate does, since a separate thread
reads the requests. Signals of the terminal are left to the parent."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Child", "ChildDiedError", "ChildFailedError", "ChildLateError", "answer"]

_LENGTH_BYTES: Final = 8
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from svod_tensor.tuning.serve import serve; serve(int(sys.argv[2]))"
)


class ChildDiedError(Exception):
    """The process died during a request; `detail` has its exit status."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class ChildLateError(Exception):
    """The process did not answer in time, and was killed."""


class ChildFailedError(Exception):
    """The request raised an error; `detail` is its text, and the process is still usable."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class Child:
    """A process that serves this one; not thread-safe except for `kill`.

    Args:
        environment: all environment variables of the process.
        max_bytes: limit of its address space, where the system supports one; 0 for none.
    """

    def __init__(self, environment: Mapping[str, str], max_bytes: int = 0) -> None:
        self.n_answers = 0
        self.is_closed = False
        self._is_late = threading.Event()
        # A file: a full pipe would block the child unless a thread here read it.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            # The child must find the same modules, including plugins that only a script's path
            # leads to.
            [sys.executable, "-c", _START, json.dumps(sys.path), str(max_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def ask(self, function: str, *arguments: object, limit_s: float | None = None) -> object:
        """Call a function in the child and return its result.

        Raises:
            ChildDiedError, ChildLateError: the process is gone; make another one.
            ChildFailedError: the function raised an error.
        """
        timer = None if limit_s is None else threading.Timer(limit_s, self._stop)
        if timer is not None:
            timer.start()
        try:
            _send(self._to, (function, arguments))
            is_answer, result = cast("tuple[bool, object]", _receive(self._from))
        except (OSError, EOFError):
            detail = self._describe_end()
            self.close()
            if self._is_late.is_set():
                raise ChildLateError from None
            raise ChildDiedError(detail) from None
        finally:
            if timer is not None:
                timer.cancel()
                # Joined, so that `_is_late` cannot change any more.
                timer.join()
        if self._is_late.is_set():
            self.close()  # it was killed just after it had answered
            raise ChildLateError
        self.n_answers += 1
        if not is_answer:
            raise ChildFailedError(str(result))
        return result

    def kill(self) -> None:
        """End the process. Any thread may call this, even while another one waits for an answer."""
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for its end."""
        self.is_closed = True
        self.kill()
        self._process.wait()
        for file in (self._from, self._stderr):
            file.close()
        with contextlib.suppress(OSError):  # unsent data cannot be flushed any more
            self._to.close()

    def _stop(self) -> None:
        self._is_late.set()
        self.kill()

    def _describe_end(self) -> str:
        status = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return (
            f"ended by signal {-status}{last}"
            if status < 0
            else f"ended with status {status}{last}"
        )


def answer(find: Callable[[str], Callable[..., object]]) -> None:
    """Main loop of the child: serve requests until the pipe closes.

    Other writes to stdout are redirected to stderr."""
    # A `print` of a library in the child would otherwise be read as an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        function, arguments = cast("tuple[str, tuple[object, ...]]", pickle.loads(requests.get()))
        try:
            result: tuple[bool, object] = True, find(function)(*arguments)
        except Exception as error:
            result = False, f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):  # the parent is gone: the other thread ends the process
            _send(answers, result)


def _read_requests(pipe: IO[bytes], requests: SimpleQueue[bytes]) -> None:
    """Queue requests; exit the process when the pipe closes."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(_read_message(pipe))
    # Not `sys.exit`: a candidate may hang in the main thread.
    os._exit(0)


def _send(pipe: IO[bytes], message: tuple[object, object]) -> None:
    data = pickle.dumps(message)
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> object:
    return pickle.loads(_read_message(pipe))


def _read_message(pipe: IO[bytes]) -> bytes:
    return _read(pipe, int.from_bytes(_read(pipe, _LENGTH_BYTES), "little"))


def _read(pipe: IO[bytes], n_bytes: int) -> bytes:
    data = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError
    return data
