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
  %v20 = call <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr> %v19, i32 4, <4 x i1> splat (i1 true), <4 x float> poison), !alias.scope !1, !noalias !6
  %v21 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v22 = getelementptr inbounds float, ptr %v7, <4 x i64> %v21
  %v23 = extractelement <4 x ptr> %v22, i64 0
  %v24 = extractelement <4 x float> %v20, i64 0
  store float %v24, ptr %v23, align 4, !alias.scope !4, !noalias !9
  %v25 = extractelement <4 x ptr> %v22, i64 1
  %v26 = extractelement <4 x float> %v20, i64 1
  store float %v26, ptr %v25, align 4, !alias.scope !4, !noalias !9
  %v27 = extractelement <4 x ptr> %v22, i64 2
  %v28 = extractelement <4 x float> %v20, i64 2
  store float %v28, ptr %v27, align 4, !alias.scope !4, !noalias !9
  %v29 = extractelement <4 x ptr> %v22, i64 3
  %v30 = extractelement <4 x float> %v20, i64 3
  store float %v30, ptr %v29, align 4, !alias.scope !4, !noalias !9
  %v31 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v32 = getelementptr float, ptr %v9, <4 x i64> %v31
  %v33 = sext <4 x i32> <i32 3, i32 0, i32 4, i32 1> to <4 x i64>
  %v34 = getelementptr float, ptr %v1, <4 x i64> %v33
  %v35 = call <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr> %v34, i32 4, <4 x i1> <i1 true, i1 false, i1 false, i1 true>, <4 x float> splat (float 0x401C000000000000)), !alias.scope !1, !noalias !6
  call void @llvm.masked.scatter.v4f32.v4p0(<4 x float> %v35, <4 x ptr> %v32, i32 4, <4 x i1> <i1 true, i1 false, i1 false, i1 true>), !alias.scope !5, !noalias !10
  ret void
}
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
declare <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr>, i32, <4 x i1>, <4 x float>)
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
