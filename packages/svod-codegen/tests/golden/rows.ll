define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds ptr, ptr %buffers, i64 2
  %v5 = load ptr, ptr %v4, align 8
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v6 = sext i32 %loop1.i to i64
  %v7 = getelementptr inbounds i32, ptr %v5, i64 %v6
  %v8 = load i32, ptr %v7, align 4, !alias.scope !3, !noalias !6
  %v9 = icmp sle i32 0, %v8
  %v10 = icmp slt i32 %v8, 3
  %v11 = and i1 %v9, %v10
  %v12 = zext i1 %v11 to i32
  br i1 %v11, label %loop2, label %loop2.done
loop2:
  %loop2.i = phi i32 [ 0, %loop1 ]
  %v13 = mul nsw i32 %loop1.i, 4
  %v14 = sext i32 %v13 to i64
  %v15 = getelementptr inbounds float, ptr %v3, i64 %v14
  %v16 = load <4 x float>, ptr %v15, align 4, !alias.scope !2, !noalias !5
  %v17 = mul i32 %v8, 4
  %v18 = sext i32 %v17 to i64
  %v19 = getelementptr inbounds float, ptr %v1, i64 %v18
  %v20 = load <4 x float>, ptr %v19, align 4, !alias.scope !1, !noalias !4
  %v21 = sext i32 %v17 to i64
  %v22 = getelementptr inbounds float, ptr %v1, i64 %v21
  %v23 = fadd contract <4 x float> %v20, %v16
  store <4 x float> %v23, ptr %v22, align 4, !alias.scope !1, !noalias !4
  br label %loop2.done
loop2.done:
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v24 = icmp slt i32 %loop1.i.next, 5
  br i1 %v24, label %loop1, label %loop1.done
loop1.done:
  ret void
}
!0 = distinct !{!0}
!1 = !{!7}
!2 = !{!8}
!3 = !{!9}
!4 = !{!8, !9}
!5 = !{!7, !9}
!6 = !{!7, !8}
!7 = distinct !{!7, !0}
!8 = distinct !{!8, !0}
!9 = distinct !{!9, !0}
