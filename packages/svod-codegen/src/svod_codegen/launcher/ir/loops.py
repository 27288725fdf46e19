"""Interpreter of a table of launches with loops, in LLVM IR.

The table is a program: `svod_run_loops` executes its steps sequentially; the end of an iteration
jumps back to the first step of the body. The words that change between iterations are listed in the
loop's `Update`s. The whole state of a running program is in its records, so loops are nested without
calls, and a program can be resumed.

It returns 1 at the end of an iteration when some time has passed, so that Python can handle signals,
and is called again. The clock is read only once per some microseconds of iterations, since reading
it costs as much as a few tiny kernels. The end of the program returns 0."""

from __future__ import annotations

from typing import Final

from svod_codegen.launcher.ir.records import COPY, ENTER, REGION, REPEAT, RUN

__all__ = ["LOOPS"]

_RETURN_NS: Final = 50_000_000
"""Time after which Python may handle signals: a delay of 50 ms is not noticed, and a
return to Python costs little beside it."""
_LOOK_NS: Final = 8192
"""Time between two readings of the clock, which take 20 to 50 ns: less than a percent of it."""
_LOOK_ITERATIONS: Final = 1024
"""Maximum number of iterations between two readings, since later iterations may take longer."""

# An update is `next = (next + stride) ^ mask`: a mask of 0 gives counters and slices, a stride of 0
# the alternation of two buffers, and neither needs a branch. The number of iterations between two
# readings of the clock doubles while they are short, and shrinks in proportion where one was long.
LOOPS: Final = f"""
define i64 @svod_run_loops(ptr %pool, ptr %program, i64 %is_resumed) nounwind {{
entry:
  %n_left_at = getelementptr i64, ptr %program, i64 ${{State.n_left}}
  %n_between_at = getelementptr i64, ptr %program, i64 ${{State.n_between}}
  %looked_at_at = getelementptr i64, ptr %program, i64 ${{State.looked_at}}
  %first_step_at = getelementptr i64, ptr %program, i64 ${{State.first_step}}
  %next_step_at = getelementptr i64, ptr %program, i64 ${{State.next_step}}
  %start = call i64 @now()
  %deadline = add i64 %start, {_RETURN_NS}
  store i64 %start, ptr %looked_at_at
  %resumed = icmp ne i64 %is_resumed, 0
  br i1 %resumed, label %resume, label %begin
begin:
  store i64 1, ptr %n_left_at
  store i64 1, ptr %n_between_at
  %first_step = load ptr, ptr %first_step_at
  br label %do
resume:
  %saved_step = load ptr, ptr %next_step_at
  br label %do
do:
  %step = phi ptr [%first_step, %begin], [%saved_step, %resume], [%following, %ran], [%following, %left], \
[%body, %watch], [%body, %looked], [%following, %region], [%following, %copy], [%entered_step, %enter]
  %first_at = getelementptr i64, ptr %step, i64 ${{Step.first}}
  %last_at = getelementptr i64, ptr %step, i64 ${{Step.last}}
  %kind = load i64, ptr %step
  %first = load ptr, ptr %first_at
  %following = getelementptr i64, ptr %step, i64 ${{Step.words}}
  switch i64 %kind, label %done [
    i64 {RUN}, label %run
    i64 {REPEAT}, label %repeat
    i64 {REGION}, label %region
    i64 {COPY}, label %copy
    i64 {ENTER}, label %enter
  ]
run:
  %last = load ptr, ptr %last_at
  br label %run_one
run_one:
  %launch = phi ptr [%first, %run], [%next_launch, %run_one]
  call void @run_launch(ptr %launch, i64 0)
  %next_launch = getelementptr %Launch, ptr %launch, i64 1
  %more_launches = icmp ne ptr %next_launch, %last
  br i1 %more_launches, label %run_one, label %ran
ran:
  br label %do
region:
  %launches_at = getelementptr %Launch, ptr %first, i64 0, i32 4
  %parts_at = getelementptr %Launch, ptr %first, i64 0, i32 5
  %launches = load i64, ptr %launches_at
  %parts = load i64, ptr %parts_at
  call void @run_region(ptr %pool, ptr %first, i64 %launches, i64 %parts)
  br label %do
copy:
  %to = call i64 @read_word(ptr %first, i64 ${{Copy.to_at}})
  %from = call i64 @read_word(ptr %first, i64 ${{Copy.from_at}})
  %nbytes_at = getelementptr i64, ptr %first, i64 ${{Copy.nbytes}}
  %nbytes = load i64, ptr %nbytes_at
  call void @copy_bytes(i64 %to, i64 %from, i64 %nbytes)
  br label %do
enter:
  %has_iterations = call i1 @enter_loop(ptr %first)
  %after_at = getelementptr i64, ptr %first, i64 ${{Loop.after}}
  %after = load ptr, ptr %after_at
  %entered_step = select i1 %has_iterations, ptr %following, ptr %after
  br label %do
repeat:
  %go_on_at_at = getelementptr i64, ptr %first, i64 ${{Loop.go_on_at}}
  %go_on_at = load ptr, ptr %go_on_at_at
  %unconditional = icmp eq ptr %go_on_at, null
  br i1 %unconditional, label %count, label %ask
ask:
  %go_on_address = call i64 @read_word(ptr %first, i64 ${{Loop.go_on_at}})
  %go_on_pointer = inttoptr i64 %go_on_address to ptr
  %go_on = load i8, ptr %go_on_pointer
  %goes_on = icmp ne i8 %go_on, 0
  br i1 %goes_on, label %count, label %leave
count:
  %iterations_at = getelementptr i64, ptr %first, i64 ${{Loop.n_left}}
  %iterations = load i64, ptr %iterations_at
  %fewer = sub i64 %iterations, 1
  %over = icmp eq i64 %fewer, 0
  br i1 %over, label %leave, label %advance
leave:
  call void @leave_loop(ptr %first)
  br label %left
left:
  br label %do
advance:
  store i64 %fewer, ptr %iterations_at
  %body_at = getelementptr i64, ptr %first, i64 ${{Loop.body}}
  %body = load ptr, ptr %body_at
  %updates_at = getelementptr i64, ptr %first, i64 ${{Loop.updates}}
  %updates_end_at = getelementptr i64, ptr %first, i64 ${{Loop.updates_end}}
  %updates = load ptr, ptr %updates_at
  %updates_end = load ptr, ptr %updates_end_at
  %no_updates = icmp eq ptr %updates, %updates_end
  br i1 %no_updates, label %watch, label %change
change:
  %update = phi ptr [%updates, %advance], [%next_update, %change]
  %target_at = getelementptr i64, ptr %update, i64 ${{Update.target}}
  %value_at = getelementptr i64, ptr %update, i64 ${{Update.next}}
  %stride_at = getelementptr i64, ptr %update, i64 ${{Update.stride}}
  %mask_at = getelementptr i64, ptr %update, i64 ${{Update.mask}}
  %target = load ptr, ptr %target_at
  %value = load i64, ptr %value_at
  %stride = load i64, ptr %stride_at
  %mask = load i64, ptr %mask_at
  store i64 %value, ptr %target
  %moved = add i64 %value, %stride
  %next_value = xor i64 %moved, %mask
  store i64 %next_value, ptr %value_at
  %next_update = getelementptr i64, ptr %update, i64 ${{Update.words}}
  %more_updates = icmp ne ptr %next_update, %updates_end
  br i1 %more_updates, label %change, label %watch
watch:
  %n_left = load i64, ptr %n_left_at
  %n_less = sub i64 %n_left, 1
  store i64 %n_less, ptr %n_left_at
  %due = icmp eq i64 %n_less, 0
  br i1 %due, label %look, label %do
look:
  %time = call i64 @now()
  %looked_at = load i64, ptr %looked_at_at
  store i64 %time, ptr %looked_at_at
  %elapsed = sub i64 %time, %looked_at
  %short = icmp ult i64 %elapsed, {_LOOK_NS}
  %n_between = load i64, ptr %n_between_at
  br i1 %short, label %more, label %less
more:
  %twice = shl i64 %n_between, 1
  %n_more = call i64 @llvm.smin.i64(i64 %twice, i64 {_LOOK_ITERATIONS})
  br label %looked_on
less:
  %scaled = mul i64 %n_between, {_LOOK_NS}
  %fair = udiv i64 %scaled, %elapsed
  %n_fewer = call i64 @llvm.smax.i64(i64 %fair, i64 1)
  br label %looked_on
looked_on:
  %n_next = phi i64 [%n_more, %more], [%n_fewer, %less]
  store i64 %n_next, ptr %n_between_at
  store i64 %n_next, ptr %n_left_at
  %late = icmp sge i64 %time, %deadline
  br i1 %late, label %return, label %looked
looked:
  br label %do
return:
  store ptr %body, ptr %next_step_at
  ret i64 1
done:
  ret i64 0
}}
"""
