#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global half *data0_block, ulong data0_offset, __global const half *data1_block, ulong data1_offset, __global const half *data2_block, ulong data2_offset) {
  __global half *restrict data0 = (__global half *)((__global uchar *)data0_block + data0_offset);
  __global const half *restrict data1 = (__global const half *)((__global const uchar *)data1_block + data1_offset);
  __global const half *restrict data2 = (__global const half *)((__global const uchar *)data2_block + data2_offset);
  const int v1 = (int)get_global_id(0);
  const int v2 = (int)((uint)v1 << 3);
  const half8 v3 = vload8(0, &data1[v2 + 0] + 0);
  const half8 v4 = vload8(0, &data2[v2 + 0] + 0);
  const half8 v5 = v3 * v4;
  vstore8(v5, 0, &data0[v2 + 0] + 0);
}
