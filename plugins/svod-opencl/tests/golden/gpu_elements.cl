#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  const int v1 = (int)get_group_id(0);
  const int v2 = (int)get_local_id(0);
  const int v3 = v1 * 32 + v2;
  const bool v4 = v3 < 1021;
  const float v5 = v4 ? data1[v3] : 0x0.0p+0f;
  const float v6 = v5 * 0x1.0000000000000p+1f;
  if (v4) data0[v3] = v6;
}
