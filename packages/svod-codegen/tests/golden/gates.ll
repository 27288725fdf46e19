define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds ptr, ptr %buffers, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = load i64, ptr %values, align 8
  %v7 = trunc i64 %v6 to i32
  %v8 = icmp slt i32 %v7, 5
  %v9 = sext i32 %v7 to i64
  %v10 = getelementptr float, ptr %v5, i64 %v9
  %v11 = select i1 %v8, ptr %v10, ptr %v5
  %v12 = load float, ptr %v11, align 4, !alias.scope !3, !noalias !6
  %v13 = select i1 %v8, float %v12, float 0x4022000000000000
  %v14 = sext i32 %v7 to i64
  %v15 = getelementptr float, ptr %v1, i64 %v14
  br i1 %v8, label %store1, label %stored2
store1:
  store float %v13, ptr %v15, align 4, !alias.scope !1, !noalias !4
  br label %stored2
stored2:
  %v16 = getelementptr inbounds float, ptr %v3, i64 0
  store float %v13, ptr %v16, align 4, !alias.scope !2, !noalias !5
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
