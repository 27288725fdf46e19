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
  %v12 = getelementptr inbounds float, ptr %v1, i64 0
  store <8 x float> <float 0x0000000000000000, float 0x8000000000000000, float 0x3FB99999A0000000, float 0xC00E000000000000, float 0x7FF0000000000000, float 0xFFF0000000000000, float 0x47EFFFFFE0000000, float 0x36A0000000000000>, ptr %v12, align 4, !alias.scope !1, !noalias !7
  %v13 = getelementptr inbounds double, ptr %v3, i64 0
  store <2 x double> <double 0x3FB999999999999A, double 0xFFEFFFFFFFFFFFFF>, ptr %v13, align 8, !alias.scope !2, !noalias !8
  %v14 = getelementptr inbounds i64, ptr %v5, i64 0
  store <2 x i64> <i64 -9223372036854775808, i64 9223372036854775807>, ptr %v14, align 8, !alias.scope !3, !noalias !9
  %v15 = getelementptr inbounds i64, ptr %v7, i64 0
  store i64 18446744073709551615, ptr %v15, align 8, !alias.scope !4, !noalias !10
  %v16 = getelementptr inbounds i32, ptr %v9, i64 0
  store i32 -2147483648, ptr %v16, align 4, !alias.scope !5, !noalias !11
  %v17 = getelementptr inbounds i8, ptr %v11, i64 0
  %v18 = zext i1 true to i8
  store i8 %v18, ptr %v17, align 1, !alias.scope !6, !noalias !12
  ret void
}
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
