define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = alloca [100 x float], align 64
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v3 = sext i32 %loop1.i to i64
  %v4 = getelementptr inbounds float, ptr %v2, i64 %v3
  %v5 = sitofp i32 %loop1.i to float
  store float %v5, ptr %v4, align 4
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v6 = icmp slt i32 %loop1.i.next, 100
  br i1 %v6, label %loop1, label %loop1.done
loop1.done:
  br label %loop2
loop2:
  %loop2.i = phi i32 [ 0, %loop1.done ], [ %loop2.i.next, %loop2.latch ]
  %v7 = sext i32 %loop2.i to i64
  %v8 = getelementptr inbounds float, ptr %v1, i64 %v7
  %v9 = sub nsw i32 99, %loop2.i
  %v10 = sext i32 %v9 to i64
  %v11 = getelementptr inbounds float, ptr %v2, i64 %v10
  %v12 = load float, ptr %v11, align 4
  store float %v12, ptr %v8, align 4
  br label %loop2.latch
loop2.latch:
  %loop2.i.next = add nuw nsw i32 %loop2.i, 1
  %v13 = icmp slt i32 %loop2.i.next, 100
  br i1 %v13, label %loop2, label %loop2.done
loop2.done:
  ret void
}
