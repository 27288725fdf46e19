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
  %v14 = getelementptr inbounds float, ptr %v1, i64 0
  %v15 = load <8 x float>, ptr %v14, align 4, !alias.scope !1, !noalias !8
  %v16 = getelementptr inbounds float, ptr %v1, i64 5
  %v17 = load float, ptr %v16, align 4, !alias.scope !1, !noalias !8
  %v18 = extractelement <8 x float> %v15, i64 1
  %v19 = shufflevector <8 x float> %v15, <8 x float> poison, <4 x i32> <i32 7, i32 0, i32 0, i32 2>
  %v20 = shufflevector <8 x float> %v15, <8 x float> poison, <2 x i32> <i32 4, i32 5>
  %v21 = insertelement <3 x float> <float poison, float poison, float 0x4022000000000000>, float %v17, i64 0
  %v22 = insertelement <3 x float> %v21, float %v18, i64 1
  %v23 = getelementptr inbounds float, ptr %v3, i64 0
  store <3 x float> %v22, ptr %v23, align 4, !alias.scope !2, !noalias !9
  %v24 = insertelement <4 x float> poison, float %v17, i64 0
  %v25 = shufflevector <4 x float> %v24, <4 x float> poison, <4 x i32> zeroinitializer
  %v26 = getelementptr inbounds float, ptr %v5, i64 0
  %v27 = fadd contract <4 x float> %v25, %v19
  store <4 x float> %v27, ptr %v26, align 4, !alias.scope !3, !noalias !10
  %v28 = shufflevector <2 x float> %v20, <2 x float> poison, <4 x i32> <i32 0, i32 1, i32 poison, i32 poison>
  %v29 = shufflevector <4 x float> %v28, <4 x float> %v19, <6 x i32> <i32 0, i32 1, i32 4, i32 5, i32 6, i32 7>
  %v30 = insertelement <6 x float> poison, float %v18, i64 0
  %v31 = shufflevector <6 x float> %v29, <6 x float> %v30, <7 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6>
  %v32 = getelementptr inbounds float, ptr %v7, i64 0
  store <7 x float> %v31, ptr %v32, align 4, !alias.scope !4, !noalias !11
  %v33 = call reassoc contract float @llvm.vector.reduce.fadd.v8f32(float 0x8000000000000000, <8 x float> %v15)
  %v34 = call nsz float @llvm.vector.reduce.fmaximum.v4f32(<4 x float> %v19)
  %v35 = shufflevector <7 x float> %v31, <7 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v36 = shufflevector <7 x float> %v31, <7 x float> splat (float 0x3FF0000000000000), <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v37 = fmul contract <4 x float> %v35, %v36
  %v38 = call reassoc contract float @llvm.vector.reduce.fmul.v4f32(float 0x3FF0000000000000, <4 x float> %v37)
  %v39 = insertelement <3 x float> poison, float %v33, i64 0
  %v40 = insertelement <3 x float> %v39, float %v34, i64 1
  %v41 = insertelement <3 x float> %v40, float %v38, i64 2
  %v42 = getelementptr inbounds float, ptr %v9, i64 0
  store <3 x float> %v41, ptr %v42, align 4, !alias.scope !5, !noalias !12
  %v43 = bitcast <8 x float> %v15 to <8 x i32>
  %v44 = getelementptr inbounds i32, ptr %v11, i64 0
  store <8 x i32> %v43, ptr %v44, align 4, !alias.scope !6, !noalias !13
  %v45 = shufflevector <8 x float> %v15, <8 x float> poison, <2 x i32> <i32 0, i32 1>
  %v46 = shufflevector <8 x float> %v15, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v47 = insertelement <2 x float> poison, float %v17, i64 0
  %v48 = shufflevector <2 x float> %v47, <2 x float> poison, <2 x i32> zeroinitializer
  %v49 = shufflevector <2 x float> %v45, <2 x float> %v48, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v50 = shufflevector <2 x float> %v20, <2 x float> %v45, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v51 = shufflevector <4 x float> %v49, <4 x float> %v50, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v52 = shufflevector <4 x float> %v46, <4 x float> splat (float 0x4000000000000000), <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v53 = getelementptr inbounds float, ptr %v13, i64 0
  %v54 = fadd contract <8 x float> %v51, %v52
  store <8 x float> %v54, ptr %v53, align 4, !alias.scope !7, !noalias !14
  ret void
}
declare float @llvm.vector.reduce.fadd.v8f32(float, <8 x float>)
declare float @llvm.vector.reduce.fmaximum.v4f32(<4 x float>)
declare float @llvm.vector.reduce.fmul.v4f32(float, <4 x float>)
!0 = distinct !{!0}
!1 = !{!15}
!2 = !{!16}
!3 = !{!17}
!4 = !{!18}
!5 = !{!19}
!6 = !{!20}
!7 = !{!21}
!8 = !{!16, !17, !18, !19, !20, !21}
!9 = !{!15, !17, !18, !19, !20, !21}
!10 = !{!15, !16, !18, !19, !20, !21}
!11 = !{!15, !16, !17, !19, !20, !21}
!12 = !{!15, !16, !17, !18, !20, !21}
!13 = !{!15, !16, !17, !18, !19, !21}
!14 = !{!15, !16, !17, !18, !19, !20}
!15 = distinct !{!15, !0}
!16 = distinct !{!16, !0}
!17 = distinct !{!17, !0}
!18 = distinct !{!18, !0}
!19 = distinct !{!19, !0}
!20 = distinct !{!20, !0}
!21 = distinct !{!21, !0}
