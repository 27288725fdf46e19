#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global uchar *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset) {
  __global uchar *restrict data0 = (__global uchar *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  const int v1 = (int)get_global_id(0);
  const int v2 = (int)((uint)v1 << 3);
  const float8 v3 = vload8(0, &data1[v2 + 0] + 0);
  const uchar8 v4 = convert_uchar8_sat(select(v3, (float8)(0x0.0p+0f), v3 != v3));
  vstore8(v4, 0, &data0[v2 + 0] + 0);
}
