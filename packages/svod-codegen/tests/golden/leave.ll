define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = alloca [1 x i32], align 64
  %v5 = getelementptr inbounds i32, ptr %v4, i64 0
  store i32 1, ptr %v5, align 4
  %v6 = getelementptr inbounds i32, ptr %v3, i64 0
  %v7 = load i32, ptr %v6, align 4, !alias.scope !2, !noalias !4
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v8 = getelementptr inbounds i32, ptr %v4, i64 0
  %v9 = load i32, ptr %v8, align 4
  %v10 = add i32 %v9, %v9
  store i32 %v10, ptr %v8, align 4
  %v11 = icmp slt i32 %v7, %v10
  br i1 %v11, label %loop1.done, label %loop1.again
loop1.again:
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v12 = icmp slt i32 %loop1.i.next, 1000
  br i1 %v12, label %loop1, label %loop1.done
loop1.done:
  %v13 = getelementptr inbounds i32, ptr %v1, i64 0
  %v14 = getelementptr inbounds i32, ptr %v4, i64 0
  %v15 = load i32, ptr %v14, align 4
  store i32 %v15, ptr %v13, align 4, !alias.scope !1, !noalias !3
  ret void
}
!0 = distinct !{!0}
!1 = !{!5}
!2 = !{!6}
!3 = !{!6}
!4 = !{!5}
!5 = distinct !{!5, !0}
!6 = distinct !{!6, !0}
