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
  %v12 = getelementptr inbounds ptr, ptr %buffers, i64 6
  %v13 = load ptr, ptr %v12, align 8
  %v14 = getelementptr inbounds ptr, ptr %buffers, i64 7
  %v15 = load ptr, ptr %v14, align 8
  %v16 = getelementptr inbounds ptr, ptr %buffers, i64 8
  %v17 = load ptr, ptr %v16, align 8
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v18 = sext i32 %loop1.i to i64
  %v19 = getelementptr inbounds half, ptr %v9, i64 %v18
  %v20 = load half, ptr %v19, align 2, !alias.scope !5, !noalias !14
  %v21 = sext i32 %loop1.i to i64
  %v22 = getelementptr inbounds half, ptr %v11, i64 %v21
  %v23 = load half, ptr %v22, align 2, !alias.scope !6, !noalias !15
  %v24 = sext i32 %loop1.i to i64
  %v25 = getelementptr inbounds half, ptr %v1, i64 %v24
  %v26 = fcmp olt half %v20, %v23
  %v27 = fmul contract half %v20, %v23
  %v28 = fadd contract half %v27, 0xH3800
  %v29 = fneg half %v20
  %v30 = select i1 %v26, half %v28, half %v29
  store half %v30, ptr %v25, align 2, !alias.scope !1, !noalias !10
  %v31 = sext i32 %loop1.i to i64
  %v32 = getelementptr inbounds i16, ptr %v3, i64 %v31
  %v33 = sext i32 %loop1.i to i64
  %v34 = getelementptr inbounds i16, ptr %v13, i64 %v33
  %v35 = load i16, ptr %v34, align 2, !alias.scope !7, !noalias !16
  store i16 %v35, ptr %v32, align 2, !alias.scope !2, !noalias !11
  %v36 = sext i32 %loop1.i to i64
  %v37 = getelementptr inbounds i8, ptr %v5, i64 %v36
  %v38 = sext i32 %loop1.i to i64
  %v39 = getelementptr inbounds i8, ptr %v15, i64 %v38
  %v40 = load i8, ptr %v39, align 1, !alias.scope !8, !noalias !17
  %v41 = sext i32 %loop1.i to i64
  %v42 = getelementptr inbounds i8, ptr %v17, i64 %v41
  %v43 = load i8, ptr %v42, align 1, !alias.scope !9, !noalias !18
  %v44 = select i1 %v26, i8 %v40, i8 %v43
  store i8 %v44, ptr %v37, align 1, !alias.scope !3, !noalias !12
  %v45 = sext i32 %loop1.i to i64
  %v46 = getelementptr inbounds float, ptr %v7, i64 %v45
  %v47 = fpext half %v20 to float
  %v48 = fpext half %v23 to float
  %v49 = fsub contract float %v47, %v48
  store float %v49, ptr %v46, align 4, !alias.scope !4, !noalias !13
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v50 = icmp slt i32 %loop1.i.next, 8
  br i1 %v50, label %loop1, label %loop1.done
loop1.done:
  %v51 = getelementptr inbounds half, ptr %v9, i64 8
  %v52 = load <8 x half>, ptr %v51, align 2, !alias.scope !5, !noalias !14
  %v53 = getelementptr inbounds half, ptr %v1, i64 8
  %v54 = getelementptr inbounds half, ptr %v11, i64 8
  %v55 = load <8 x half>, ptr %v54, align 2, !alias.scope !6, !noalias !15
  %v56 = fpext <8 x half> %v52 to <8 x float>
  %v57 = fpext <8 x half> %v55 to <8 x float>
  %v58 = call nsz <8 x float> @llvm.maximum.v8f32(<8 x float> %v56, <8 x float> %v57)
  %v59 = fptrunc <8 x float> %v58 to <8 x half>
  %v60 = fsub contract <8 x half> %v59, splat (half 0xH3C00)
  store <8 x half> %v60, ptr %v53, align 2, !alias.scope !1, !noalias !10
  %v61 = getelementptr inbounds i16, ptr %v3, i64 8
  %v62 = getelementptr inbounds i16, ptr %v13, i64 8
  %v63 = load <8 x i16>, ptr %v62, align 2, !alias.scope !7, !noalias !16
  store <8 x i16> %v63, ptr %v61, align 2, !alias.scope !2, !noalias !11
  %v64 = getelementptr inbounds float, ptr %v7, i64 8
  %v65 = fpext <8 x half> %v52 to <8 x float>
  store <8 x float> %v65, ptr %v64, align 4, !alias.scope !4, !noalias !13
  ret void
}
declare <8 x float> @llvm.maximum.v8f32(<8 x float>, <8 x float>)
!0 = distinct !{!0}
!1 = !{!19}
!2 = !{!20}
!3 = !{!21}
!4 = !{!22}
!5 = !{!23}
!6 = !{!24}
!7 = !{!25}
!8 = !{!26}
!9 = !{!27}
!10 = !{!20, !21, !22, !23, !24, !25, !26, !27}
!11 = !{!19, !21, !22, !23, !24, !25, !26, !27}
!12 = !{!19, !20, !22, !23, !24, !25, !26, !27}
!13 = !{!19, !20, !21, !23, !24, !25, !26, !27}
!14 = !{!19, !20, !21, !22, !24, !25, !26, !27}
!15 = !{!19, !20, !21, !22, !23, !25, !26, !27}
!16 = !{!19, !20, !21, !22, !23, !24, !26, !27}
!17 = !{!19, !20, !21, !22, !23, !24, !25, !27}
!18 = !{!19, !20, !21, !22, !23, !24, !25, !26}
!19 = distinct !{!19, !0}
!20 = distinct !{!20, !0}
!21 = distinct !{!21, !0}
!22 = distinct !{!22, !0}
!23 = distinct !{!23, !0}
!24 = distinct !{!24, !0}
!25 = distinct !{!25, !0}
!26 = distinct !{!26, !0}
!27 = distinct !{!27, !0}
