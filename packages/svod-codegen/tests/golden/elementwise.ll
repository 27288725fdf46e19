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
  %v7 = getelementptr inbounds float, ptr %v3, i64 %v6
  %v8 = load float, ptr %v7, align 4, !alias.scope !2, !noalias !5
  %v9 = sext i32 %loop1.i to i64
  %v10 = getelementptr inbounds float, ptr %v5, i64 %v9
  %v11 = load float, ptr %v10, align 4, !alias.scope !3, !noalias !6
  %v12 = fcmp olt float %v8, %v11
  %v13 = call nsz float @llvm.maximum.f32(float %v8, float 0xBFE0000000000000)
  %v14 = fneg float %v11
  %v15 = select i1 %v12, float %v13, float %v14
  %v16 = sext i32 %loop1.i to i64
  %v17 = getelementptr inbounds float, ptr %v1, i64 %v16
  %v18 = call float @llvm.fma.f32(float %v15, float %v8, float 0x3FF4000000000000)
  %v19 = call float @llvm.fabs.f32(float %v11)
  %v20 = call float @llvm.sqrt.f32(float %v19)
  %v21 = call float @llvm.floor.f32(float %v20)
  %v22 = fadd contract float %v18, %v21
  store float %v22, ptr %v17, align 4, !alias.scope !1, !noalias !4
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v23 = icmp slt i32 %loop1.i.next, 5
  br i1 %v23, label %loop1, label %loop1.done
loop1.done:
  br label %loop2
loop2:
  %loop2.i = phi i32 [ 0, %loop1.done ], [ %loop2.i.next, %loop2.latch ]
  %v24 = mul nsw i32 %loop2.i, 8
  %v25 = add nsw i32 %v24, 8
  %v26 = sext i32 %v24 to i64
  %v27 = getelementptr float, ptr %v3, i64 %v26
  %v28 = getelementptr inbounds float, ptr %v27, i64 8
  %v29 = load <8 x float>, ptr %v28, align 4, !alias.scope !2, !noalias !5
  %v30 = sext i32 %v24 to i64
  %v31 = getelementptr float, ptr %v5, i64 %v30
  %v32 = getelementptr inbounds float, ptr %v31, i64 8
  %v33 = load <8 x float>, ptr %v32, align 4, !alias.scope !3, !noalias !6
  %v34 = sext i32 %v24 to i64
  %v35 = getelementptr float, ptr %v1, i64 %v34
  %v36 = getelementptr inbounds float, ptr %v35, i64 8
  %v37 = fcmp olt <8 x float> %v29, %v33
  %v38 = xor <8 x i1> %v37, splat (i1 true)
  %v39 = fcmp oeq <8 x float> %v29, %v29
  %v40 = and <8 x i1> %v38, %v39
  %v41 = call nsz <8 x float> @llvm.minimum.v8f32(<8 x float> %v29, <8 x float> %v33)
  %v42 = call <8 x float> @llvm.rint.v8f32(<8 x float> %v33)
  %v43 = fdiv <8 x float> %v42, splat (float 0x4010000000000000)
  %v44 = select <8 x i1> %v40, <8 x float> %v41, <8 x float> %v43
  store <8 x float> %v44, ptr %v36, align 4, !alias.scope !1, !noalias !4
  br label %loop2.latch
loop2.latch:
  %loop2.i.next = add nuw nsw i32 %loop2.i, 1
  %v45 = icmp slt i32 %loop2.i.next, 2
  br i1 %v45, label %loop2, label %loop2.done
loop2.done:
  ret void
}
declare float @llvm.maximum.f32(float, float)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.fabs.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.floor.f32(float)
declare <8 x float> @llvm.minimum.v8f32(<8 x float>, <8 x float>)
declare <8 x float> @llvm.rint.v8f32(<8 x float>)
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
