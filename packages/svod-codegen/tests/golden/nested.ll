define void @kernel(ptr noalias %buffers, ptr noalias %values, i64 %core_id) nounwind {
entry:
  %v1 = load ptr, ptr %buffers, align 8
  %v2 = getelementptr inbounds ptr, ptr %buffers, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds ptr, ptr %buffers, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = alloca [2 x double], align 64
  br label %loop1
loop1:
  %loop1.i = phi i32 [ 0, %entry ], [ %loop1.i.next, %loop1.latch ]
  %v7 = sext i32 %loop1.i to i64
  %v8 = getelementptr inbounds i8, ptr %v5, i64 %v7
  %v9 = load i8, ptr %v8, align 1, !alias.scope !3, !noalias !6
  %v10 = zext i8 %v9 to i32
  %v11 = and i32 %v10, 3
  %v12 = getelementptr inbounds double, ptr %v6, i64 0
  store double 0x0000000000000000, ptr %v12, align 8
  %v13 = getelementptr inbounds double, ptr %v6, i64 1
  store double 0x3FF0000000000000, ptr %v13, align 8
  br label %loop2
loop2:
  %loop2.i = phi i32 [ 0, %loop1 ], [ %loop2.i.next, %loop2.latch ]
  %v14 = mul nsw i32 %v11, 5
  %v15 = add nsw i32 %v14, %loop2.i
  %v16 = sext i32 %v15 to i64
  %v17 = getelementptr inbounds float, ptr %v3, i64 %v16
  %v18 = load float, ptr %v17, align 4, !alias.scope !2, !noalias !5
  %v19 = fpext float %v18 to double
  %v20 = getelementptr inbounds double, ptr %v6, i64 0
  %v21 = getelementptr inbounds double, ptr %v6, i64 1
  %v22 = load double, ptr %v20, align 8
  %v23 = fmul contract double %v19, %v19
  %v24 = fadd contract double %v22, %v23
  store double %v24, ptr %v20, align 8
  %v25 = load double, ptr %v21, align 8
  %v26 = call double @llvm.fabs.f64(double %v19)
  %v27 = call nsz double @llvm.maximum.f64(double %v25, double %v26)
  store double %v27, ptr %v21, align 8
  br label %loop2.latch
loop2.latch:
  %loop2.i.next = add nuw nsw i32 %loop2.i, 1
  %v28 = icmp slt i32 %loop2.i.next, 5
  br i1 %v28, label %loop2, label %loop2.done
loop2.done:
  %v29 = sext i32 %loop1.i to i64
  %v30 = getelementptr inbounds double, ptr %v1, i64 %v29
  %v31 = getelementptr inbounds double, ptr %v6, i64 0
  %v32 = load double, ptr %v31, align 8
  %v33 = call double @llvm.sqrt.f64(double %v32)
  %v34 = getelementptr inbounds double, ptr %v6, i64 1
  %v35 = load double, ptr %v34, align 8
  %v36 = fdiv double %v33, %v35
  store double %v36, ptr %v30, align 8, !alias.scope !1, !noalias !4
  br label %loop1.latch
loop1.latch:
  %loop1.i.next = add nuw nsw i32 %loop1.i, 1
  %v37 = icmp slt i32 %loop1.i.next, 6
  br i1 %v37, label %loop1, label %loop1.done
loop1.done:
  ret void
}
declare double @llvm.fabs.f64(double)
declare double @llvm.maximum.f64(double, double)
declare double @llvm.sqrt.f64(double)
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
