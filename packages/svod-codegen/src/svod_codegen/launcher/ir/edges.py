"""Entry and exit of loops: the work before the first and after the last iteration, in LLVM IR."""

from __future__ import annotations

from typing import Final

__all__ = ["EDGES"]

# Carried values alternate between two buffers, result and spare. The first iteration writes the one
# for which the last of an even or odd number of iterations writes the result. If the initial value
# is in the result's own memory, the first iteration must write the spare; `leave_loop` then copies
# the final value where the parity is wrong, as it does for a loop that ends early. An update
# toggles between two addresses by `xor` with their difference, which needs no branch; in the first
# iteration the word is set directly, since the initial value may be in a third buffer. A loop of no
# iteration still copies initial values to the results. A branch is clamped to the existing ones, as
# in the reference semantics.
EDGES: Final = """
define internal void @copy_bytes(i64 %to, i64 %from, i64 %nbytes) nounwind {
  %same = icmp eq i64 %to, %from
  br i1 %same, label %done, label %copy
copy:
  %to_pointer = inttoptr i64 %to to ptr
  %from_pointer = inttoptr i64 %from to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %to_pointer, ptr %from_pointer, i64 %nbytes, i1 false)
  br label %done
done:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; The field of a record that is the address of a word of a plan, and the next field: what the word holds, and an offset.
define internal i64 @read_word(ptr %record, i64 %field) nounwind alwaysinline {
  %at_at = getelementptr i64, ptr %record, i64 %field
  %offset_at = getelementptr i64, ptr %at_at, i64 1
  %at = load ptr, ptr %at_at
  %offset = load i64, ptr %offset_at
  %word = load i64, ptr %at
  %value = add i64 %word, %offset
  ret i64 %value
}

; Set the words of a carried value to one address for this iteration, and to two in turn for those after it.
define internal void @set_words(ptr %updates, ptr %end, i64 %now, i64 %next, i64 %after) nounwind {
entry:
  %none = icmp eq ptr %updates, %end
  br i1 %none, label %done, label %set
set:
  %update = phi ptr [%updates, %entry], [%following, %set]
  %target_at = getelementptr i64, ptr %update, i64 ${Update.target}
  %next_at = getelementptr i64, ptr %update, i64 ${Update.next}
  %mask_at = getelementptr i64, ptr %update, i64 ${Update.mask}
  %offset_at = getelementptr i64, ptr %update, i64 ${Update.base_offset}
  %target = load ptr, ptr %target_at
  %offset = load i64, ptr %offset_at
  %now_there = add i64 %now, %offset
  %next_there = add i64 %next, %offset
  %after_there = add i64 %after, %offset
  %mask = xor i64 %next_there, %after_there
  store i64 %now_there, ptr %target
  store i64 %next_there, ptr %next_at
  store i64 %mask, ptr %mask_at
  %following = getelementptr i64, ptr %update, i64 ${Update.words}
  %more = icmp ne ptr %following, %end
  br i1 %more, label %set, label %done
done:
  ret void
}

define internal void @begin_carried(ptr %carried, i64 %count) nounwind {
entry:
  %initial = call i64 @read_word(ptr %carried, i64 ${Carried.initial_at})
  %result = call i64 @read_word(ptr %carried, i64 ${Carried.result_at})
  %reads_at = getelementptr i64, ptr %carried, i64 ${Carried.reads}
  %writes_at = getelementptr i64, ptr %carried, i64 ${Carried.writes}
  %end_at = getelementptr i64, ptr %carried, i64 ${Carried.writes_end}
  %first_at = getelementptr i64, ptr %carried, i64 ${Carried.first}
  %second_at = getelementptr i64, ptr %carried, i64 ${Carried.second}
  %reads = load ptr, ptr %reads_at
  %writes = load ptr, ptr %writes_at
  %end = load ptr, ptr %end_at
  %spare_at_at = getelementptr i64, ptr %carried, i64 ${Carried.spare_at}
  %spare_at = load ptr, ptr %spare_at_at
  %in_place = icmp eq ptr %spare_at, null
  br i1 %in_place, label %one, label %two
one:
  call void @copy_initial(ptr %carried)
  call void @set_words(ptr %reads, ptr %end, i64 %result, i64 %result, i64 %result)
  store i64 %result, ptr %first_at
  store i64 %result, ptr %second_at
  ret void
two:
  %spare = call i64 @read_word(ptr %carried, i64 ${Carried.spare_at})
  %last_bit = and i64 %count, 1
  %even = icmp eq i64 %last_bit, 0
  %same = icmp eq i64 %initial, %result    ; which the first iteration reads
  %spare_first = or i1 %even, %same
  %first = select i1 %spare_first, i64 %spare, i64 %result
  %second = select i1 %spare_first, i64 %result, i64 %spare
  store i64 %first, ptr %first_at
  store i64 %second, ptr %second_at
  call void @set_words(ptr %reads, ptr %writes, i64 %initial, i64 %first, i64 %second)
  call void @set_words(ptr %writes, ptr %end, i64 %first, i64 %second, i64 %first)
  ret void
}

define internal void @copy_initial(ptr %carried) nounwind {
  %initial = call i64 @read_word(ptr %carried, i64 ${Carried.initial_at})
  %result = call i64 @read_word(ptr %carried, i64 ${Carried.result_at})
  %nbytes_at = getelementptr i64, ptr %carried, i64 ${Carried.nbytes}
  %nbytes = load i64, ptr %nbytes_at
  call void @copy_bytes(i64 %result, i64 %initial, i64 %nbytes)
  ret void
}

define internal void @begin_updates(ptr %updates, ptr %end, i64 %count) nounwind {
entry:
  %none = icmp eq ptr %updates, %end
  br i1 %none, label %done, label %set
set:
  %update = phi ptr [%updates, %entry], [%following, %set]
  %base = call i64 @read_word(ptr %update, i64 ${Update.base_at})
  %target_at = getelementptr i64, ptr %update, i64 ${Update.target}
  %next_at = getelementptr i64, ptr %update, i64 ${Update.next}
  %stride_at = getelementptr i64, ptr %update, i64 ${Update.stride}
  %step_at = getelementptr i64, ptr %update, i64 ${Update.step}
  %reversed_at = getelementptr i64, ptr %update, i64 ${Update.is_reversed}
  %target = load ptr, ptr %target_at
  %step = load i64, ptr %step_at
  %reversed = load i64, ptr %reversed_at
  %is_reversed = icmp ne i64 %reversed, 0
  %n_before = sub i64 %count, 1
  %to_last = mul i64 %n_before, %step
  %back = sub i64 0, %step
  %start = select i1 %is_reversed, i64 %to_last, i64 0
  %stride = select i1 %is_reversed, i64 %back, i64 %step
  %now = add i64 %base, %start
  %next = add i64 %now, %stride
  store i64 %now, ptr %target
  store i64 %next, ptr %next_at
  store i64 %stride, ptr %stride_at
  %following = getelementptr i64, ptr %update, i64 ${Update.words}
  %more = icmp ne ptr %following, %end
  br i1 %more, label %set, label %done
done:
  ret void
}

; Prepare the first iteration; false if there is none.
define internal i1 @enter_loop(ptr %loop) nounwind {
entry:
  %value = call i64 @read_word(ptr %loop, i64 ${Loop.count_at})
  %in_memory_at = getelementptr i64, ptr %loop, i64 ${Loop.is_count_in_memory}
  %in_memory = load i64, ptr %in_memory_at
  %is_in_memory = icmp ne i64 %in_memory, 0
  br i1 %is_in_memory, label %fetch, label %known
fetch:
  %address = inttoptr i64 %value to ptr
  %fetched = load i64, ptr %address
  br label %known
known:
  %number = phi i64 [%value, %entry], [%fetched, %fetch]
  %carried_at = getelementptr i64, ptr %loop, i64 ${Loop.carried}
  %carried_end_at = getelementptr i64, ptr %loop, i64 ${Loop.carried_end}
  %carried = load ptr, ptr %carried_at
  %carried_end = load ptr, ptr %carried_end_at
  %carries = icmp ne ptr %carried, %carried_end
  %n_branches_at = getelementptr i64, ptr %loop, i64 ${Loop.n_branches}
  %n_branches = load i64, ptr %n_branches_at
  %is_branch = icmp ne i64 %n_branches, 0
  br i1 %is_branch, label %choose, label %decide
choose:
  %branch_at = getelementptr i64, ptr %loop, i64 ${Loop.branch}
  %branch = load i64, ptr %branch_at
  %last_branch = sub i64 %n_branches, 1
  %below = call i64 @llvm.smin.i64(i64 %number, i64 %last_branch)
  %clamped = call i64 @llvm.smax.i64(i64 %below, i64 0)
  %chosen = icmp eq i64 %clamped, %branch
  br i1 %chosen, label %begin, label %skip
decide:
  %some = icmp sgt i64 %number, 0
  br i1 %some, label %begin, label %none
none:
  br i1 %carries, label %keep, label %skip
keep:
  %kept = phi ptr [%carried, %none], [%next_kept, %keep]
  call void @copy_initial(ptr %kept)
  %next_kept = getelementptr i64, ptr %kept, i64 ${Carried.words}
  %more_kept = icmp ne ptr %next_kept, %carried_end
  br i1 %more_kept, label %keep, label %skip
skip:
  ret i1 false
begin:
  %count = phi i64 [1, %choose], [%number, %decide]
  %n_left_at = getelementptr i64, ptr %loop, i64 ${Loop.n_left}
  %count_at = getelementptr i64, ptr %loop, i64 ${Loop.n_at_most}
  store i64 %count, ptr %n_left_at
  store i64 %count, ptr %count_at
  %updates_at = getelementptr i64, ptr %loop, i64 ${Loop.updates}
  %updates_of_carried_at = getelementptr i64, ptr %loop, i64 ${Loop.updates_of_carried}
  %updates = load ptr, ptr %updates_at
  %updates_of_carried = load ptr, ptr %updates_of_carried_at
  call void @begin_updates(ptr %updates, ptr %updates_of_carried, i64 %count)
  br i1 %carries, label %hand, label %done
hand:
  %handed = phi ptr [%carried, %begin], [%next_handed, %hand]
  call void @begin_carried(ptr %handed, i64 %count)
  %next_handed = getelementptr i64, ptr %handed, i64 ${Carried.words}
  %more_handed = icmp ne ptr %next_handed, %carried_end
  br i1 %more_handed, label %hand, label %done
done:
  ret i1 true
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; Bring carried values to where they must be, after the last iteration.
define internal void @leave_loop(ptr %loop) nounwind {
entry:
  %carried_at = getelementptr i64, ptr %loop, i64 ${Loop.carried}
  %carried_end_at = getelementptr i64, ptr %loop, i64 ${Loop.carried_end}
  %carried = load ptr, ptr %carried_at
  %carried_end = load ptr, ptr %carried_end_at
  %n_left_at = getelementptr i64, ptr %loop, i64 ${Loop.n_left}
  %count_at = getelementptr i64, ptr %loop, i64 ${Loop.n_at_most}
  %n_left = load i64, ptr %n_left_at
  %count = load i64, ptr %count_at
  %n_before = sub i64 %count, %n_left
  %odd = and i64 %n_before, 1
  %by_first = icmp eq i64 %odd, 0
  %carries = icmp ne ptr %carried, %carried_end
  br i1 %carries, label %bring, label %done
bring:
  %value = phi ptr [%carried, %entry], [%next_value, %bring]
  %first_at = getelementptr i64, ptr %value, i64 ${Carried.first}
  %second_at = getelementptr i64, ptr %value, i64 ${Carried.second}
  %nbytes_at = getelementptr i64, ptr %value, i64 ${Carried.nbytes}
  %first = load i64, ptr %first_at
  %second = load i64, ptr %second_at
  %nbytes = load i64, ptr %nbytes_at
  %result = call i64 @read_word(ptr %value, i64 ${Carried.result_at})
  %written = select i1 %by_first, i64 %first, i64 %second
  call void @copy_bytes(i64 %result, i64 %written, i64 %nbytes)
  %next_value = getelementptr i64, ptr %value, i64 ${Carried.words}
  %more = icmp ne ptr %next_value, %carried_end
  br i1 %more, label %bring, label %done
done:
  ret void
}
"""
