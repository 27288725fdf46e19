define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds ptr, ptr %buffers, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = alloca [1 x <4 x float>], align 64
  %v7 = alloca [1 x <4 x float>], align 64
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v8 = getelementptr inbounds <4 x float>, ptr %v6, i64 0
  %v9 = mul nsw i32 %loop1.i, 4
  %v10 = sext i32 %v9 to i64
  %v11 = getelementptr inbounds float, ptr %v5, i64 %v10
  %v12 = load <4 x float>, ptr %v11, align 4, !alias.scope !3, !noalias !6
  store <4 x float> %v12, ptr %v8, align 4
  %v13 = getelementptr inbounds <4 x float>, ptr %v7, i64 0
  store <4 x float> splat (float 0x3FE0000000000000), ptr %v13, align 4
  br label %loop2
loop2:
  %loop2.i = phi i32 [ 0, %loop1 ], [ %loop2.i.next, %loop2.latch ]
  %v14 = getelementptr inbounds <4 x float>, ptr %v6, i64 0
  %v15 = load <4 x float>, ptr %v14, align 4
  %v16 = getelementptr inbounds <4 x float>, ptr %v7, i64 0
  %v17 = load <4 x float>, ptr %v16, align 4
  %v18 = mul nsw i32 %loop2.i, 8
  %v19 = add nsw i32 %v18, %v9
  %v20 = sext i32 %v19 to i64
  %v21 = getelementptr inbounds float, ptr %v3, i64 %v20
  store <4 x float> %v15, ptr %v21, align 4, !alias.scope !2, !noalias !5
  store <4 x float> %v17, ptr %v14, align 4
  %v22 = fadd contract <4 x float> %v15, %v17
  store <4 x float> %v22, ptr %v16, align 4
  br label %loop2.latch
loop2.latch:
  %loop2.i.next = add nuw nsw i32 %loop2.i, 1
  %v23 = icmp slt i32 %loop2.i.next, 3
  br i1 %v23, label %loop2, label %loop2.done
loop2.done:
  %v24 = getelementptr inbounds <4 x float>, ptr %v6, i64 0
  %v25 = load <4 x float>, ptr %v24, align 4
  %v26 = sext i32 %v9 to i64
  %v27 = getelementptr inbounds float, ptr %v1, i64 %v26
  store <4 x float> %v25, ptr %v27, align 4, !alias.scope !1, !noalias !4
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v28 = icmp slt i32 %loop1.i.next, 2
  br i1 %v28, label %loop1, label %loop1.done
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
