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
  %v18 = getelementptr inbounds ptr, ptr %buffers, i64 9
  %v19 = load ptr, ptr %v18, align 8
  %v20 = getelementptr inbounds ptr, ptr %buffers, i64 10
  %v21 = load ptr, ptr %v20, align 8
  %v22 = getelementptr inbounds ptr, ptr %buffers, i64 11
  %v23 = load ptr, ptr %v22, align 8
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v24 = sext i32 %loop1.i to i64
  %v25 = getelementptr inbounds float, ptr %v13, i64 %v24
  %v26 = load float, ptr %v25, align 4, !alias.scope !7, !noalias !19
  %v27 = sext i32 %loop1.i to i64
  %v28 = getelementptr inbounds i32, ptr %v15, i64 %v27
  %v29 = load i32, ptr %v28, align 4, !alias.scope !8, !noalias !20
  %v30 = sext i32 %loop1.i to i64
  %v31 = getelementptr inbounds i8, ptr %v1, i64 %v30
  %v32 = trunc i32 %v29 to i8
  store i8 %v32, ptr %v31, align 1, !alias.scope !1, !noalias !13
  %v33 = sext i32 %loop1.i to i64
  %v34 = getelementptr inbounds i16, ptr %v3, i64 %v33
  %v35 = fptosi float %v26 to i32
  %v36 = fcmp oge float %v26, 0x40F0000000000000
  %v37 = select i1 %v36, i32 65535, i32 %v35
  %v38 = fcmp ole float %v26, 0x0000000000000000
  %v39 = select i1 %v38, i32 0, i32 %v37
  %v40 = fcmp uno float %v26, %v26
  %v41 = select i1 %v40, i32 0, i32 %v39
  %v42 = trunc i32 %v41 to i16
  store i16 %v42, ptr %v34, align 2, !alias.scope !2, !noalias !14
  %v43 = sext i32 %loop1.i to i64
  %v44 = getelementptr inbounds double, ptr %v5, i64 %v43
  %v45 = fpext float %v26 to double
  %v46 = sitofp i32 %v29 to double
  %v47 = fadd contract double %v45, %v46
  store double %v47, ptr %v44, align 8, !alias.scope !3, !noalias !15
  %v48 = sext i32 %loop1.i to i64
  %v49 = getelementptr inbounds i8, ptr %v7, i64 %v48
  %v50 = icmp ne i32 %v29, 0
  %v51 = fcmp une float %v26, 0x0000000000000000
  %v52 = xor i1 %v50, %v51
  %v53 = zext i1 %v52 to i8
  store i8 %v53, ptr %v49, align 1, !alias.scope !4, !noalias !16
  %v54 = sext i32 %loop1.i to i64
  %v55 = getelementptr inbounds float, ptr %v9, i64 %v54
  %v56 = sext i32 %loop1.i to i64
  %v57 = getelementptr inbounds i8, ptr %v17, i64 %v56
  %v58 = load i8, ptr %v57, align 1, !alias.scope !9, !noalias !21
  %v59 = icmp ne i8 %v58, zeroinitializer
  %v60 = uitofp i1 %v59 to float
  %v61 = sitofp i32 %v29 to float
  %v62 = fadd contract float %v60, %v61
  store float %v62, ptr %v55, align 4, !alias.scope !5, !noalias !17
  %v63 = sext i32 %loop1.i to i64
  %v64 = getelementptr inbounds i64, ptr %v11, i64 %v63
  %v65 = sext i32 %v29 to i64
  %v66 = trunc i32 %v29 to i8
  %v67 = zext i8 %v66 to i64
  %v68 = add i64 %v65, %v67
  store i64 %v68, ptr %v64, align 8, !alias.scope !6, !noalias !18
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v69 = icmp slt i32 %loop1.i.next, 8
  br i1 %v69, label %loop1, label %loop1.done
loop1.done:
  %v70 = getelementptr inbounds i32, ptr %v15, i64 0
  %v71 = load <8 x i32>, ptr %v70, align 4, !alias.scope !8, !noalias !20
  %v72 = getelementptr inbounds i64, ptr %v19, i64 0
  %v73 = sext <8 x i32> %v71 to <8 x i64>
  store <8 x i64> %v73, ptr %v72, align 8, !alias.scope !10, !noalias !22
  %v74 = getelementptr inbounds i8, ptr %v21, i64 0
  %v75 = getelementptr inbounds float, ptr %v13, i64 0
  %v76 = load <8 x float>, ptr %v75, align 4, !alias.scope !7, !noalias !19
  %v77 = fptosi <8 x float> %v76 to <8 x i32>
  %v78 = fcmp oge <8 x float> %v76, splat (float 0x4070000000000000)
  %v79 = select <8 x i1> %v78, <8 x i32> splat (i32 255), <8 x i32> %v77
  %v80 = fcmp ole <8 x float> %v76, splat (float 0x0000000000000000)
  %v81 = select <8 x i1> %v80, <8 x i32> splat (i32 0), <8 x i32> %v79
  %v82 = fcmp uno <8 x float> %v76, %v76
  %v83 = select <8 x i1> %v82, <8 x i32> splat (i32 0), <8 x i32> %v81
  %v84 = trunc <8 x i32> %v83 to <8 x i8>
  store <8 x i8> %v84, ptr %v74, align 1, !alias.scope !11, !noalias !23
  %v85 = getelementptr inbounds double, ptr %v23, i64 0
  %v86 = sitofp <8 x i32> %v71 to <8 x double>
  store <8 x double> %v86, ptr %v85, align 8, !alias.scope !12, !noalias !24
  ret void
}
!0 = distinct !{!0}
!1 = !{!25}
!2 = !{!26}
!3 = !{!27}
!4 = !{!28}
!5 = !{!29}
!6 = !{!30}
!7 = !{!31}
!8 = !{!32}
!9 = !{!33}
!10 = !{!34}
!11 = !{!35}
!12 = !{!36}
!13 = !{!26, !27, !28, !29, !30, !31, !32, !33, !34, !35, !36}
!14 = !{!25, !27, !28, !29, !30, !31, !32, !33, !34, !35, !36}
!15 = !{!25, !26, !28, !29, !30, !31, !32, !33, !34, !35, !36}
!16 = !{!25, !26, !27, !29, !30, !31, !32, !33, !34, !35, !36}
!17 = !{!25, !26, !27, !28, !30, !31, !32, !33, !34, !35, !36}
!18 = !{!25, !26, !27, !28, !29, !31, !32, !33, !34, !35, !36}
!19 = !{!25, !26, !27, !28, !29, !30, !32, !33, !34, !35, !36}
!20 = !{!25, !26, !27, !28, !29, !30, !31, !33, !34, !35, !36}
!21 = !{!25, !26, !27, !28, !29, !30, !31, !32, !34, !35, !36}
!22 = !{!25, !26, !27, !28, !29, !30, !31, !32, !33, !35, !36}
!23 = !{!25, !26, !27, !28, !29, !30, !31, !32, !33, !34, !36}
!24 = !{!25, !26, !27, !28, !29, !30, !31, !32, !33, !34, !35}
!25 = distinct !{!25, !0}
!26 = distinct !{!26, !0}
!27 = distinct !{!27, !0}
!28 = distinct !{!28, !0}
!29 = distinct !{!29, !0}
!30 = distinct !{!30, !0}
!31 = distinct !{!31, !0}
!32 = distinct !{!32, !0}
!33 = distinct !{!33, !0}
!34 = distinct !{!34, !0}
!35 = distinct !{!35, !0}
!36 = distinct !{!36, !0}
