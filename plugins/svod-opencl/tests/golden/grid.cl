#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset, __global const float *data2_block, ulong data2_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  __global const float *restrict data2 = (__global const float *)((__global const uchar *)data2_block + data2_offset);
  const int v1 = (int)get_global_id(0);
  const float v2 = data1[v1];
  const float v3 = data2[v1];
  const float v4 = v2 * v3 + v2;
  data0[v1] = v4;
}
