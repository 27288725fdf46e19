#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset, __global const float *data2_block, ulong data2_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  __global const float *restrict data2 = (__global const float *)((__global const uchar *)data2_block + data2_offset);
  const int v1 = (int)get_global_id(0);
  const int v2 = (int)((uint)v1 << 2);
  const float4 v3 = vload4(0, &data1[v2 + 0] + 0);
  const float4 v4 = vload4(0, &data2[v2 + 0] + 0);
  const char4 v5 = convert_char4(v3 < v4);
  const float4 v6 = select(v4, v3, convert_int4(v5));
  vstore4(v6, 0, &data0[v2 + 0] + 0);
}
