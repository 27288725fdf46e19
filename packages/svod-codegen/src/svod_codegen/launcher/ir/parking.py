"""Platform-specific parts of the launcher in LLVM IR: sleeping, pausing, and reading the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["Parking", "Platform", "make_platform"]

Parking = Literal["futex", "condition", "none"]
"""Primitive for sleeping workers; with "none" there are no workers, and launches run in the calling
thread.
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """Platform-specific snippets of IR."""

    declarations: str
    pause: str
    park: str
    wake: str
    init_parking: str
    sig_block: int
    now: str


def make_platform(machine: str, system: str, parking: Parking) -> Platform:
    """Make the snippets for an architecture and system."""
    declarations = _PAUSE_DECLARATIONS.get(machine, "")
    park = wake = init_parking = ""
    if parking == "futex":
        declarations += "declare i64 @syscall(i64, ...)\n"
        syscall_number = str(_FUTEX_CALLS[machine])
        park, wake = (
            _PARK_FUTEX.replace("${futex}", syscall_number),
            _WAKE_FUTEX.replace("${futex}", syscall_number),
        )
    elif parking == "condition":
        declarations += _CONDITION_DECLARATIONS
        park, wake, init_parking = _PARK_CONDITION, _WAKE_CONDITION, _INIT_CONDITION
    now = (
        _NOW_COUNTER
        if system == "win32"
        else _NOW_CLOCK.replace("${clock}", "6" if system == "darwin" else "1")
    )
    return Platform(
        declarations=declarations,
        pause=_PAUSES.get(machine, ""),
        park=park,
        wake=wake,
        init_parking=init_parking,
        sig_block=1 if system == "darwin" else 0,
        now=now,
    )


_PAUSES: Final = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}
_PAUSE_DECLARATIONS: Final = {
    "x86_64": "declare void @llvm.x86.sse2.pause()\n",
    "aarch64": "declare void @llvm.aarch64.hint(i32)\n",
}
# Numbers of the system call; C libraries have no function for it. 128 and 129 are FUTEX_WAIT and
# FUTEX_WAKE among the threads of one process.
_FUTEX_CALLS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

_PARK_FUTEX: Final = """\
  %word = getelementptr i8, ptr %pool, i64 ${SEQUENCE}
  %slept = call i64 (i64, ...) @syscall(i64 ${futex}, ptr %word, i64 128, i32 %seen, ptr null, ptr null, i64 0)"""
_WAKE_FUTEX: Final = """\
  %word = getelementptr i8, ptr %pool, i64 ${SEQUENCE}
  %woken = call i64 (i64, ...) @syscall(i64 ${futex}, ptr %word, i64 129, i32 %count, ptr null, ptr null, i64 0)"""

_CONDITION_DECLARATIONS: Final = """\
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
"""
_INIT_CONDITION: Final = """\
  %mutex = getelementptr i8, ptr %pool, i64 ${MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 ${CONDITION}
  %mutex_made = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %condition_made = call i32 @pthread_cond_init(ptr %condition, ptr null)
"""
# The word is compared again under the mutex, since a wake may come between the caller's look and
# the lock, and a wait may end without one.
_PARK_CONDITION: Final = """\
  %word = getelementptr i8, ptr %pool, i64 ${SEQUENCE}
  %mutex = getelementptr i8, ptr %pool, i64 ${MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 ${CONDITION}
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
check:
  %now = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %wait, label %leave
wait:
  %waited = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
leave:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)"""
_WAKE_CONDITION: Final = """\
  %mutex = getelementptr i8, ptr %pool, i64 ${MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 ${CONDITION}
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)"""

# The monotonic clock (6 on macOS, 1 elsewhere), which nobody sets back during a loop.
_NOW_CLOCK: Final = """\
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() nounwind {
  %time = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 ${clock}, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %nanoseconds = add i64 %whole, %rest
  ret i64 %nanoseconds
}
"""
# Seconds and ticks are converted separately: their product with 10^9 would overflow within an
# hour.
_NOW_COUNTER: Final = """\
declare i32 @QueryPerformanceCounter(ptr)
declare i32 @QueryPerformanceFrequency(ptr)

define internal i64 @now() nounwind {
  %count_at = alloca i64
  %frequency_at = alloca i64
  %counted = call i32 @QueryPerformanceCounter(ptr %count_at)
  %known = call i32 @QueryPerformanceFrequency(ptr %frequency_at)
  %count = load i64, ptr %count_at
  %frequency = load i64, ptr %frequency_at
  %seconds = udiv i64 %count, %frequency
  %ticks = urem i64 %count, %frequency
  %whole = mul i64 %seconds, 1000000000
  %scaled = mul i64 %ticks, 1000000000
  %rest = udiv i64 %scaled, %frequency
  %nanoseconds = add i64 %whole, %rest
  ret i64 %nanoseconds
}
"""
