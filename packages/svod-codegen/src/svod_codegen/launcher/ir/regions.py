"""Thread pool and its parallel regions, in LLVM IR.

The pool is a block of memory.  A parallel region publishes the head of a group, divides its parts
among the queues and increments `sequence`.  A thread claims the parts of its own queue, which are
the same in kernel after kernel, so that its cache holds their data, and then the remaining parts of
the other queues: so threads that are slow, or that other programs interrupt, run fewer parts.  The
caller, which has the first queue, never waits for a thread that claimed no part, so a worker that
wakes late costs nothing.  A claimed part keeps `unfinished` above zero, so the group cannot change
while it runs.  Workers spin for a moment after their last part, then sleep in the kernel (futex) or
on a condition variable.  One region runs at a time: a caller that finds the pool busy runs all its
parts itself."""

from __future__ import annotations

from typing import Final

__all__ = ["NO_WORKERS", "WORKERS", "PoolLayout"]


class PoolLayout:
    """Byte offsets in the pool's memory. Words that different threads write are in separate cache
    lines, to avoid false sharing.
    """

    SEQUENCE: Final = 0  # i32, incremented for each region; workers wait on it
    GROUP: Final = 64  # ptr to the head of the group
    STARTED: Final = 128  # i64, workers that have begun, each of which has the queue of this number
    UNFINISHED: Final = 192  # i64, parts not yet done
    SLEEPERS: Final = 256  # i32
    STOP: Final = 320  # i32, tells workers to end
    BUSY: Final = 384  # i32, held by the thread whose region runs
    WANTED: Final = 448  # i64, workers to start at the first region
    SPINS: Final = 456  # i64, pauses before a worker sleeps
    IS_STARTED: Final = 464  # i32
    N_WORKERS: Final = 472  # i64
    N_QUEUES: Final = 480  # i64, queues of the current region: no more than its parts
    MUTEX: Final = 512  # pthread_mutex_t, at most 64 bytes
    CONDITION: Final = 576  # pthread_cond_t, at most 64 bytes
    QUEUES: Final = 640  # i64 every 64 bytes: the next part (low half), and the end of the parts
    MAX_QUEUES: Final = 16  # filling more of them would take longer than small kernels
    QUEUE_BYTES: Final = 64 * MAX_QUEUES
    HANDLES: Final = QUEUES + QUEUE_BYTES  # pthread_t[WANTED]


NO_WORKERS: Final = """
define internal void @run_region(ptr %pool, ptr %group, i64 %n_launches, i64 %n_parts) nounwind {
  call void @run_alone(ptr %group, i64 %n_launches)
  ret void
}
define void @svod_stop_workers(ptr %pool) nounwind {
  ret void
}
define void @svod_reset_after_fork(ptr %pool) nounwind {
  ret void
}
"""

WORKERS: Final = """
define internal void @claim_parts(ptr %pool, i64 %own) nounwind {
entry:
  %unfinished = getelementptr i8, ptr %pool, i64 ${UNFINISHED}
  %group_at = getelementptr i8, ptr %pool, i64 ${GROUP}
  %queues = getelementptr i8, ptr %pool, i64 ${QUEUES}
  %n_queues_at = getelementptr i8, ptr %pool, i64 ${N_QUEUES}
  %n_queues = load atomic i64, ptr %n_queues_at monotonic, align 8
  br label %open
open:
  %tried = phi i64 [0, %entry], [%more_tried, %drained]
  %count = phi i64 [0, %entry], [%ran, %drained]
  %sum = add i64 %own, %tried
  %number = urem i64 %sum, %n_queues
  %offset = shl i64 %number, 6
  %queue = getelementptr i8, ptr %queues, i64 %offset
  br label %look
look:                                    ; a plain look first, so that latecomers do not fight for the line
  %ran = phi i64 [%count, %open], [%more_ran, %run]
  %state = load atomic i64, ptr %queue monotonic, align 8
  %next = and i64 %state, 4294967295
  %end = lshr i64 %state, 32
  %some = icmp ult i64 %next, %end
  br i1 %some, label %claim, label %drained
claim:
  %claimed = atomicrmw add ptr %queue, i64 1 acq_rel
  %part = and i64 %claimed, 4294967295
  %stop = lshr i64 %claimed, 32
  %won = icmp ult i64 %part, %stop
  br i1 %won, label %run, label %drained
run:
  %group = load ptr, ptr %group_at
  call void @run_part(ptr %group, i64 %part)
  %more_ran = add i64 %ran, 1
  br label %look
drained:
  %more_tried = add i64 %tried, 1
  %all = icmp eq i64 %more_tried, %n_queues
  br i1 %all, label %done, label %open
done:
  %any = icmp ne i64 %ran, 0
  br i1 %any, label %report, label %return
report:
  %before = atomicrmw sub ptr %unfinished, i64 %ran release
  br label %return
return:
  ret void
}

; Divide the parts evenly among the queues. The others were left empty by the last region that used them.
define internal void @fill_queues(ptr %pool, i64 %n_parts) nounwind {
entry:
  %wanted_at = getelementptr i8, ptr %pool, i64 ${WANTED}
  %n_queues_at = getelementptr i8, ptr %pool, i64 ${N_QUEUES}
  %wanted = load i64, ptr %wanted_at
  %n_threads = add i64 %wanted, 1
  %few = call i64 @llvm.smin.i64(i64 %n_threads, i64 ${MAX_QUEUES})
  %n_queues = call i64 @llvm.smin.i64(i64 %few, i64 %n_parts)
  store atomic i64 %n_queues, ptr %n_queues_at monotonic, align 8
  br label %fill
fill:
  %number = phi i64 [0, %entry], [%after, %fill]
  %begin = phi i64 [0, %entry], [%end, %fill]
  %after = add i64 %number, 1
  %product = mul i64 %after, %n_parts
  %end = udiv i64 %product, %n_queues
  %high = shl i64 %end, 32
  %state = or i64 %high, %begin
  %distance = shl i64 %number, 6
  %position = add i64 %distance, ${QUEUES}
  %queue = getelementptr i8, ptr %pool, i64 %position
  store atomic i64 %state, ptr %queue release, align 8
  %all = icmp eq i64 %after, %n_queues
  br i1 %all, label %done, label %fill
done:
  ret void
}

define internal void @park(ptr %pool, i32 %seen) nounwind {
entry:
${park}
  ret void
}

define internal void @wake(ptr %pool, i32 %count) nounwind {
entry:
${wake}
  ret void
}

define internal ptr @worker(ptr %pool) nounwind {
entry:
  ; Signals are for the threads that Python knows.
  %signals = alloca [128 x i8], align 16
  %filled = call i32 @sigfillset(ptr %signals)
  %blocked = call i32 @pthread_sigmask(i32 ${sig_block}, ptr %signals, ptr null)
  %sequence = getelementptr i8, ptr %pool, i64 ${SEQUENCE}
  %stop_at = getelementptr i8, ptr %pool, i64 ${STOP}
  %spins_at = getelementptr i8, ptr %pool, i64 ${SPINS}
  %sleepers = getelementptr i8, ptr %pool, i64 ${SLEEPERS}
  %started = getelementptr i8, ptr %pool, i64 ${STARTED}
  %others = atomicrmw add ptr %started, i64 1 monotonic
  %own = add i64 %others, 1
  br label %look
look:
  %seen = load atomic i32, ptr %sequence acquire, align 4
  %stop = load atomic i32, ptr %stop_at acquire, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %done, label %work
work:
  call void @claim_parts(ptr %pool, i64 %own)
  %spins = load i64, ptr %spins_at
  br label %spin
spin:
  %count = phi i64 [%spins, %work], [%less, %pause]
  %now = load atomic i32, ptr %sequence acquire, align 4
  %news = icmp ne i32 %now, %seen
  br i1 %news, label %look, label %patience
patience:
  %tired = icmp eq i64 %count, 0
  br i1 %tired, label %sleep, label %pause
pause:
  ${pause}
  %less = sub i64 %count, 1
  br label %spin
sleep:
  ; Announced before the last look at the sequence, which is in park(): see wake_sleepers.
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @park(ptr %pool, i32 %seen)
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %look
done:
  ret ptr null
}

define internal void @announce(ptr %pool, i32 %count) nounwind {
entry:
  %sequence = getelementptr i8, ptr %pool, i64 ${SEQUENCE}
  %sleepers_at = getelementptr i8, ptr %pool, i64 ${SLEEPERS}
  %before = atomicrmw add ptr %sequence, i32 1 seq_cst
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %call, label %done
call:
  call void @wake(ptr %pool, i32 %count)
  br label %done
done:
  ret void
}

define internal void @run_region(ptr %pool, ptr %group, i64 %n_launches, i64 %n_parts) nounwind {
entry:
  %busy = getelementptr i8, ptr %pool, i64 ${BUSY}
  %wanted_at = getelementptr i8, ptr %pool, i64 ${WANTED}
  %wanted = load i64, ptr %wanted_at
  %workers = icmp ne i64 %wanted, 0
  %parts = icmp ne i64 %n_parts, 1
  %sensible = and i1 %workers, %parts
  br i1 %sensible, label %try, label %alone
try:
  %got = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %got, 1
  br i1 %free, label %own, label %alone
alone:
  call void @run_alone(ptr %group, i64 %n_launches)
  ret void
own:
  %started_at = getelementptr i8, ptr %pool, i64 ${IS_STARTED}
  %started = load i32, ptr %started_at
  %is_started = icmp ne i32 %started, 0
  br i1 %is_started, label %publish, label %start
start:
  call void @start_workers(ptr %pool)
  br label %publish
publish:
  %group_at = getelementptr i8, ptr %pool, i64 ${GROUP}
  %unfinished = getelementptr i8, ptr %pool, i64 ${UNFINISHED}
  store ptr %group, ptr %group_at
  store atomic i64 %n_parts, ptr %unfinished monotonic, align 8
  call void @fill_queues(ptr %pool, i64 %n_parts)
  %others = sub i64 %n_parts, 1
  %few = call i64 @llvm.smin.i64(i64 %others, i64 %wanted)
  %few32 = trunc i64 %few to i32
  call void @announce(ptr %pool, i32 %few32)
  call void @claim_parts(ptr %pool, i64 0)
  br label %wait
wait:
  %spun = phi i64 [0, %publish], [%more, %next]
  %left = load atomic i64, ptr %unfinished acquire, align 8
  %done = icmp eq i64 %left, 0
  br i1 %done, label %release, label %pause
pause:
  ${pause}
  %more = add i64 %spun, 1
  %long = icmp ugt i64 %more, 4000
  br i1 %long, label %yield, label %next
yield:
  %yielded = call i32 @sched_yield()
  br label %next
next:
  br label %wait
release:
  store atomic i32 0, ptr %busy release, align 4
  ret void
}

define internal void @start_workers(ptr %pool) nounwind {
entry:
${init_parking}
  %started_at = getelementptr i8, ptr %pool, i64 ${IS_STARTED}
  %workers_at = getelementptr i8, ptr %pool, i64 ${N_WORKERS}
  %wanted_at = getelementptr i8, ptr %pool, i64 ${WANTED}
  %handles = getelementptr i8, ptr %pool, i64 ${HANDLES}
  %attributes = alloca [128 x i8], align 16
  %initialised = call i32 @pthread_attr_init(ptr %attributes)
  %sized = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 ${stack_bytes})
  store i32 1, ptr %started_at
  %begun = getelementptr i8, ptr %pool, i64 ${STARTED}
  store i64 0, ptr %begun
  %wanted = load i64, ptr %wanted_at
  br label %next
next:
  %count = phi i64 [0, %entry], [%after, %made]
  %enough = icmp sge i64 %count, %wanted
  br i1 %enough, label %done, label %make
make:
  %handle = getelementptr i64, ptr %handles, i64 %count
  %error = call i32 @pthread_create(ptr %handle, ptr %attributes, ptr @worker, ptr %pool)
  %ok = icmp eq i32 %error, 0
  br i1 %ok, label %made, label %done
made:
  %after = add i64 %count, 1
  br label %next
done:                                    ; fewer threads than wanted are no error: the caller claims what they do not
  store i64 %count, ptr %workers_at
  %destroyed = call i32 @pthread_attr_destroy(ptr %attributes)
  ret void
}

define void @svod_stop_workers(ptr %pool) nounwind {
entry:
  %busy = getelementptr i8, ptr %pool, i64 ${BUSY}
  br label %lock
lock:
  %got = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %got, 1
  br i1 %free, label %own, label %yield
yield:
  %yielded = call i32 @sched_yield()
  br label %lock
own:
  %started_at = getelementptr i8, ptr %pool, i64 ${IS_STARTED}
  %workers_at = getelementptr i8, ptr %pool, i64 ${N_WORKERS}
  %stop_at = getelementptr i8, ptr %pool, i64 ${STOP}
  %handles = getelementptr i8, ptr %pool, i64 ${HANDLES}
  %workers = load i64, ptr %workers_at
  store atomic i32 1, ptr %stop_at release, align 4
  call void @announce(ptr %pool, i32 2147483647)
  br label %next
next:
  %count = phi i64 [0, %own], [%after, %join]
  %all = icmp sge i64 %count, %workers
  br i1 %all, label %done, label %join
join:
  %handle_at = getelementptr i64, ptr %handles, i64 %count
  %handle = load i64, ptr %handle_at
  %joined = call i32 @pthread_join(i64 %handle, ptr null)
  %after = add i64 %count, 1
  br label %next
done:
  store i64 0, ptr %workers_at
  store i32 0, ptr %started_at
  store atomic i32 0, ptr %stop_at monotonic, align 4
  store atomic i32 0, ptr %busy release, align 4
  ret void
}

; In the child of a fork there is one thread: forget the workers, and whoever held the pool.
define void @svod_reset_after_fork(ptr %pool) nounwind {
  %started_at = getelementptr i8, ptr %pool, i64 ${IS_STARTED}
  %workers_at = getelementptr i8, ptr %pool, i64 ${N_WORKERS}
  %stop_at = getelementptr i8, ptr %pool, i64 ${STOP}
  %sleepers_at = getelementptr i8, ptr %pool, i64 ${SLEEPERS}
  %busy = getelementptr i8, ptr %pool, i64 ${BUSY}
  store i32 0, ptr %started_at
  store i64 0, ptr %workers_at
  store i32 0, ptr %stop_at
  store i32 0, ptr %sleepers_at
  %queues = getelementptr i8, ptr %pool, i64 ${QUEUES}
  call void @llvm.memset.p0.i64(ptr %queues, i8 0, i64 ${QUEUE_BYTES}, i1 false)
  store atomic i32 0, ptr %busy release, align 4
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @sched_yield()
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
"""
