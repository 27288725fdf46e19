#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef struct { float8 part0; float8 part1; } f32x16;
__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset, __global const float *data2_block, ulong data2_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  __global const float *restrict data2 = (__global const float *)((__global const uchar *)data2_block + data2_offset);
  const int v1 = (int)get_global_id(0);
  const int v2 = (int)((uint)v1 << 4);
  const f32x16 v3 = (f32x16){ vload8(0, &data1[v2 + 0] + 0), vload8(0, &data1[v2 + 0] + 8) };
  const f32x16 v4 = (f32x16){ vload8(0, &data2[v2 + 0] + 0), vload8(0, &data2[v2 + 0] + 8) };
  const f32x16 v5 = (f32x16){ select(v4.part0, v3.part0, (v3.part0 > v4.part0) | (v3.part0 != v3.part0)), select(v4.part1, v3.part1, (v3.part1 > v4.part1) | (v3.part1 != v3.part1)) };
  vstore8(v5.part0, 0, &data0[v2 + 0] + 0); vstore8(v5.part1, 0, &data0[v2 + 0] + 8);
}
