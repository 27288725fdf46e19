define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds ptr, ptr %buffers, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr inbounds ptr, ptr %buffers, i64 3
  %v7 = load ptr, ptr %v6, align 8
  %v8 = getelementptr inbounds ptr, ptr %buffers, i64 4
  %v9 = load ptr, ptr %v8, align 8
  %v10 = getelementptr inbounds ptr, ptr %buffers, i64 5
  %v11 = load ptr, ptr %v10, align 8
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v12 = sext i32 %loop1.i to i64
  %v13 = getelementptr inbounds i32, ptr %v7, i64 %v12
  %v14 = load i32, ptr %v13, align 4, !alias.scope !4, !noalias !10
  %v15 = sdiv i32 %v14, 7
  %v16 = srem i32 %v14, 5
  %v17 = xor i32 %v15, %v16
  %v18 = shl i32 %v14, 3
  %v19 = and i32 %v14, 12
  %v20 = ashr i32 %v19, 2
  %v21 = or i32 %v18, %v20
  %v22 = sext i32 %loop1.i to i64
  %v23 = getelementptr inbounds i8, ptr %v1, i64 %v22
  %v24 = sext i32 %loop1.i to i64
  %v25 = getelementptr inbounds float, ptr %v9, i64 %v24
  %v26 = load float, ptr %v25, align 4, !alias.scope !5, !noalias !11
  %v27 = fptosi float %v26 to i32
  %v28 = fcmp oge float %v26, 0x4070000000000000
  %v29 = select i1 %v28, i32 255, i32 %v27
  %v30 = fcmp ole float %v26, 0x0000000000000000
  %v31 = select i1 %v30, i32 0, i32 %v29
  %v32 = fcmp uno float %v26, %v26
  %v33 = select i1 %v32, i32 0, i32 %v31
  %v34 = trunc i32 %v33 to i8
  store i8 %v34, ptr %v23, align 1, !alias.scope !1, !noalias !7
  %v35 = sext i32 %loop1.i to i64
  %v36 = getelementptr inbounds i32, ptr %v3, i64 %v35
  %v37 = add i32 %v17, %v21
  %v38 = call i32 @llvm.smax.i32(i32 %v14, i32 0)
  %v39 = icmp ult i32 %v38, 32
  %v40 = select i1 %v39, i32 %v38, i32 31
  %v41 = ashr i32 %v14, %v40
  %v42 = add i32 %v37, %v41
  %v43 = icmp ult i32 %v38, 32
  %v44 = select i1 %v43, i32 %v38, i32 0
  %v45 = shl i32 %v14, %v44
  %v46 = select i1 %v43, i32 %v45, i32 0
  %v47 = add i32 %v42, %v46
  store i32 %v47, ptr %v36, align 4, !alias.scope !2, !noalias !8
  %v48 = sext i32 %loop1.i to i64
  %v49 = getelementptr inbounds i64, ptr %v5, i64 %v48
  %v50 = sext i32 %v14 to i64
  %v51 = mul nsw i64 %v50, 3000000000
  store i64 %v51, ptr %v49, align 8, !alias.scope !3, !noalias !9
  %v52 = sext i32 %loop1.i to i64
  %v53 = getelementptr inbounds i8, ptr %v11, i64 %v52
  %v54 = icmp sle i32 %v14, 4
  %v55 = icmp ne i32 %v14, 0
  %v56 = xor i1 %v54, %v55
  %v57 = zext i1 %v56 to i8
  store i8 %v57, ptr %v53, align 1, !alias.scope !6, !noalias !12
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v58 = icmp slt i32 %loop1.i.next, 16
  br i1 %v58, label %loop1, label %loop1.done
loop1.done:
  ret void
}
declare i32 @llvm.smax.i32(i32, i32)
!0 = distinct !{!0}
!1 = !{!13}
!2 = !{!14}
!3 = !{!15}
!4 = !{!16}
!5 = !{!17}
!6 = !{!18}
!7 = !{!14, !15, !16, !17, !18}
!8 = !{!13, !15, !16, !17, !18}
!9 = !{!13, !14, !16, !17, !18}
!10 = !{!13, !14, !15, !17, !18}
!11 = !{!13, !14, !15, !16, !18}
!12 = !{!13, !14, !15, !16, !17}
!13 = distinct !{!13, !0}
!14 = distinct !{!14, !0}
!15 = distinct !{!15, !0}
!16 = distinct !{!16, !0}
!17 = distinct !{!17, !0}
!18 = distinct !{!18, !0}
