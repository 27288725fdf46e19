define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 range(i64 0, 3) %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = trunc i64 %core_id to i32
  %v3 = load i64, ptr %values, align 8
  %v4 = trunc i64 %v3 to i32
  %v5 = getelementptr inbounds i64, ptr %values, i64 1
  %v6 = load i64, ptr %v5, align 8
  %v7 = icmp slt i32 0, %v4
  br i1 %v7, label %loop1, label %loop1.done
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v8 = mul nsw i32 %v2, 4
  %v9 = add nsw i32 %v8, %loop1.i
  %v10 = sext i32 %v9 to i64
  %v11 = getelementptr inbounds i64, ptr %v1, i64 %v10
  %v12 = add nsw i32 %loop1.i, 1
  %v13 = sext i32 %v12 to i64
  %v14 = mul nsw i64 %v6, %v13
  %v15 = sext i32 %v2 to i64
  %v16 = add nsw i64 %v14, %v15
  store i64 %v16, ptr %v11, align 8
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v17 = icmp slt i32 %loop1.i.next, %v4
  br i1 %v17, label %loop1, label %loop1.done
loop1.done:
  ret void
}
