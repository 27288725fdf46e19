"""Execution of a table of launches without loops, in LLVM IR.

A launch is a record of six 64-bit words:

    entry, buffers, values, n_parts, group_launches, group_parts

`entry(buffers, values, part)` runs one part of a kernel.  The last two words are read only at the
head of a group, which is a set of launches that may run at the same time: the number of launches,
and the sum of their parts.  A table is an array of launches, sorted by group.
"""

from __future__ import annotations

from typing import Final

__all__ = ["TABLES"]

# A group of one part is called directly: entering a parallel region takes half a microsecond, which
# is as long as a small kernel. `run_alone` does the work of a region where the pool is busy or has
# no threads. A part is found by subtraction, since groups have few launches; no table of parts has
# to be written for them. `svod_launch` measures time itself, so that a profile does not include
# Python's overhead.
TABLES: Final = """\
%Launch = type { ptr, ptr, ptr, i64, i64, i64 }

define internal void @run_launch(ptr %launch, i64 %part) nounwind {
  %buffers_at = getelementptr %Launch, ptr %launch, i64 0, i32 1
  %values_at = getelementptr %Launch, ptr %launch, i64 0, i32 2
  %entry = load ptr, ptr %launch
  %buffers = load ptr, ptr %buffers_at
  %values = load ptr, ptr %values_at
  call void %entry(ptr %buffers, ptr %values, i64 %part)
  ret void
}

; Run part number %part of a group: of its first launch, or of a later one when the first has fewer parts.
define internal void @run_part(ptr %group, i64 %part) nounwind {
entry:
  br label %look
look:
  %launch = phi ptr [%group, %entry], [%next_launch, %skip]
  %rest = phi i64 [%part, %entry], [%next_rest, %skip]
  %parts_at = getelementptr %Launch, ptr %launch, i64 0, i32 3
  %parts = load i64, ptr %parts_at
  %here = icmp slt i64 %rest, %parts
  br i1 %here, label %run, label %skip
skip:
  %next_rest = sub i64 %rest, %parts
  %next_launch = getelementptr %Launch, ptr %launch, i64 1
  br label %look
run:
  call void @run_launch(ptr %launch, i64 %rest)
  ret void
}

define internal void @run_alone(ptr %group, i64 %n_launches) nounwind {
entry:
  br label %launch
launch:
  %number = phi i64 [0, %entry], [%next_number, %ran]
  %at = getelementptr %Launch, ptr %group, i64 %number
  %parts_at = getelementptr %Launch, ptr %at, i64 0, i32 3
  %parts = load i64, ptr %parts_at
  br label %run
run:
  %part = phi i64 [0, %launch], [%next_part, %run]
  call void @run_launch(ptr %at, i64 %part)
  %next_part = add i64 %part, 1
  %more_parts = icmp slt i64 %next_part, %parts
  br i1 %more_parts, label %run, label %ran
ran:
  %next_number = add i64 %number, 1
  %more = icmp slt i64 %next_number, %n_launches
  br i1 %more, label %launch, label %done
done:
  ret void
}

define void @svod_run_table(ptr %pool, ptr %table, i64 %n_launches) nounwind {
entry:
  %end = getelementptr %Launch, ptr %table, i64 %n_launches
  %empty = icmp eq i64 %n_launches, 0
  br i1 %empty, label %done, label %group
group:
  %head = phi ptr [%table, %entry], [%next, %ran]
  %launches_at = getelementptr %Launch, ptr %head, i64 0, i32 4
  %parts_at = getelementptr %Launch, ptr %head, i64 0, i32 5
  %launches = load i64, ptr %launches_at
  %parts = load i64, ptr %parts_at
  %one = icmp eq i64 %parts, 1
  br i1 %one, label %single, label %several
single:
  call void @run_launch(ptr %head, i64 0)
  br label %ran
several:
  call void @run_region(ptr %pool, ptr %head, i64 %launches, i64 %parts)
  br label %ran
ran:
  %next = getelementptr %Launch, ptr %head, i64 %launches
  %more = icmp ne ptr %next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}

; Run one kernel; returns how many nanoseconds it took.
define i64 @svod_launch(ptr %pool, ptr %entry_point, ptr %buffers, ptr %values, i64 %n_parts) nounwind {
entry:
  %launch = alloca %Launch
  %start = call i64 @now()
  %one = icmp eq i64 %n_parts, 1
  br i1 %one, label %single, label %several
single:
  call void %entry_point(ptr %buffers, ptr %values, i64 0)
  br label %ran
several:
  %buffers_at = getelementptr %Launch, ptr %launch, i64 0, i32 1
  %values_at = getelementptr %Launch, ptr %launch, i64 0, i32 2
  %parts_at = getelementptr %Launch, ptr %launch, i64 0, i32 3
  store ptr %entry_point, ptr %launch
  store ptr %buffers, ptr %buffers_at
  store ptr %values, ptr %values_at
  store i64 %n_parts, ptr %parts_at
  call void @run_region(ptr %pool, ptr %launch, i64 1, i64 %n_parts)
  br label %ran
ran:
  %end = call i64 @now()
  %elapsed = sub i64 %end, %start
  ret i64 %elapsed
}
"""
