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
  %v10 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, splat (i32 5)
  %v11 = getelementptr float, ptr %v1, i64 0
  %v12 = bitcast <8 x i1> %v10 to i8
  %v13 = icmp ne i8 %v12, 0
  %v14 = select i1 %v13, ptr %v11, ptr %v1
  %v15 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v14, i32 4, <8 x i1> %v10, <8 x float> splat (float 0xBFF0000000000000)), !alias.scope !1, !noalias !6
  %v16 = getelementptr inbounds float, ptr %v3, i64 0
  store <8 x float> %v15, ptr %v16, align 4, !alias.scope !2, !noalias !7
  %v17 = getelementptr float, ptr %v5, i64 0
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v15, ptr %v17, i32 4, <8 x i1> %v10), !alias.scope !3, !noalias !8
  %v18 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v19 = getelementptr inbounds float, ptr %v1, <4 x i64> %v18
  %v20 = extractelement <4 x ptr> %v19, i64 0
  %v21 = load float, ptr %v20, align 4, !alias.scope !1, !noalias !6
  %v22 = insertelement <4 x float> poison, float %v21, i64 0
  %v23 = extractelement <4 x ptr> %v19, i64 1
  %v24 = load float, ptr %v23, align 4, !alias.scope !1, !noalias !6
  %v25 = insertelement <4 x float> %v22, float %v24, i64 1
  %v26 = extractelement <4 x ptr> %v19, i64 2
  %v27 = load float, ptr %v26, align 4, !alias.scope !1, !noalias !6
  %v28 = insertelement <4 x float> %v25, float %v27, i64 2
  %v29 = extractelement <4 x ptr> %v19, i64 3
  %v30 = load float, ptr %v29, align 4, !alias.scope !1, !noalias !6
  %v31 = insertelement <4 x float> %v28, float %v30, i64 3
  %v32 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v33 = getelementptr inbounds float, ptr %v7, <4 x i64> %v32
  %v34 = extractelement <4 x ptr> %v33, i64 0
  %v35 = extractelement <4 x float> %v31, i64 0
  store float %v35, ptr %v34, align 4, !alias.scope !4, !noalias !9
  %v36 = extractelement <4 x ptr> %v33, i64 1
  %v37 = extractelement <4 x float> %v31, i64 1
  store float %v37, ptr %v36, align 4, !alias.scope !4, !noalias !9
  %v38 = extractelement <4 x ptr> %v33, i64 2
  %v39 = extractelement <4 x float> %v31, i64 2
  store float %v39, ptr %v38, align 4, !alias.scope !4, !noalias !9
  %v40 = extractelement <4 x ptr> %v33, i64 3
  %v41 = extractelement <4 x float> %v31, i64 3
  store float %v41, ptr %v40, align 4, !alias.scope !4, !noalias !9
  %v42 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v43 = getelementptr float, ptr %v9, <4 x i64> %v42
  %v44 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v45 = getelementptr float, ptr %v1, <4 x i64> %v44
  %v46 = insertelement <4 x ptr> poison, ptr %v1, i64 0
  %v47 = shufflevector <4 x ptr> %v46, <4 x ptr> poison, <4 x i32> zeroinitializer
  %v48 = select <4 x i1> <i1 true, i1 false, i1 false, i1 true>, <4 x ptr> %v45, <4 x ptr> %v47
  %v49 = extractelement <4 x ptr> %v48, i64 0
  %v50 = load float, ptr %v49, align 4, !alias.scope !1, !noalias !6
  %v51 = insertelement <4 x float> poison, float %v50, i64 0
  %v52 = extractelement <4 x ptr> %v48, i64 1
  %v53 = load float, ptr %v52, align 4, !alias.scope !1, !noalias !6
  %v54 = insertelement <4 x float> %v51, float %v53, i64 1
  %v55 = extractelement <4 x ptr> %v48, i64 2
  %v56 = load float, ptr %v55, align 4, !alias.scope !1, !noalias !6
  %v57 = insertelement <4 x float> %v54, float %v56, i64 2
  %v58 = extractelement <4 x ptr> %v48, i64 3
  %v59 = load float, ptr %v58, align 4, !alias.scope !1, !noalias !6
  %v60 = insertelement <4 x float> %v57, float %v59, i64 3
  %v61 = select <4 x i1> <i1 true, i1 false, i1 false, i1 true>, <4 x float> %v60, <4 x float> splat (float 0x401C000000000000)
  call void @llvm.masked.scatter.v4f32.v4p0(<4 x float> %v61, <4 x ptr> %v43, i32 4, <4 x i1> <i1 true, i1 false, i1 false, i1 true>), !alias.scope !5, !noalias !10
  ret void
}
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
declare void @llvm.masked.scatter.v4f32.v4p0(<4 x float>, <4 x ptr>, i32, <4 x i1>)
!0 = distinct !{!0}
!1 = !{!11}
!2 = !{!12}
!3 = !{!13}
!4 = !{!14}
!5 = !{!15}
!6 = !{!12, !13, !14, !15}
!7 = !{!11, !13, !14, !15}
!8 = !{!11, !12, !14, !15}
!9 = !{!11, !12, !13, !15}
!10 = !{!11, !12, !13, !14}
!11 = distinct !{!11, !0}
!12 = distinct !{!12, !0}
!13 = distinct !{!13, !0}
!14 = distinct !{!14, !0}
!15 = distinct !{!15, !0}
