define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = alloca [1 x <4 x float>], align 64
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v5 = getelementptr inbounds <4 x float>, ptr %v4, i64 0
  store <4 x float> splat (float 0x0000000000000000), ptr %v5, align 4
  br label %loop2
loop2:
  %loop2.i = phi i32 [ 0, %loop1 ], [ %loop2.i.next, %loop2.latch ]
  %v6 = getelementptr inbounds <4 x float>, ptr %v4, i64 0
  %v7 = load <4 x float>, ptr %v6, align 4
  %v8 = mul nsw i32 %loop1.i, 16
  %v9 = mul nsw i32 %loop2.i, 4
  %v10 = add nsw i32 %v8, %v9
  %v11 = sext i32 %v10 to i64
  %v12 = getelementptr inbounds float, ptr %v3, i64 %v11
  %v13 = load <4 x float>, ptr %v12, align 4, !alias.scope !2, !noalias !4
  %v14 = fadd contract <4 x float> %v7, %v13
  store <4 x float> %v14, ptr %v6, align 4
  br label %loop2.latch
loop2.latch:
  %loop2.i.next = add nuw nsw i32 %loop2.i, 1
  %v15 = icmp slt i32 %loop2.i.next, 4
  br i1 %v15, label %loop2, label %loop2.done
loop2.done:
  %v16 = getelementptr inbounds <4 x float>, ptr %v4, i64 0
  %v17 = load <4 x float>, ptr %v16, align 4
  %v18 = call reassoc contract float @llvm.vector.reduce.fadd.v4f32(float 0x8000000000000000, <4 x float> %v17)
  %v19 = sext i32 %loop1.i to i64
  %v20 = getelementptr inbounds float, ptr %v1, i64 %v19
  store float %v18, ptr %v20, align 4, !alias.scope !1, !noalias !3
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v21 = icmp slt i32 %loop1.i.next, 3
  br i1 %v21, label %loop1, label %loop1.done
loop1.done:
  ret void
}
declare float @llvm.vector.reduce.fadd.v4f32(float, <4 x float>)
!0 = distinct !{!0}
!1 = !{!5}
!2 = !{!6}
!3 = !{!6}
!4 = !{!5}
!5 = distinct !{!5, !0}
!6 = distinct !{!6, !0}
